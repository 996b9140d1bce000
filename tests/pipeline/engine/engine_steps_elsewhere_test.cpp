// Steps of stages that show no directory: a branch, and commands of one's own.
#include <gtest/gtest.h>

#include "tests/pipeline/engine/steps_world.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using namespace std::chrono_literals;
using S = PromotionState;

class EngineStepsElsewhere : public testing::TestWithParam<Scene> {
  protected:
    EngineStepsElsewhere() {
        rig.place().prepare();
        EXPECT_TRUE(rig.promote(rig.submit(rig.place().goal())).succeeded());
        before = rig.place().shown();
        rig.moreRules = world.step("a", world.undo()) + world.step("b", world.undo()) +
                        world.step("c", world.undo() + "when = \"after-switch\"");
    }
    StageReport promoted() { return rig.promote(rig.submit(rig.place().base())).stages.back(); }
    /// What was done, without what was shown then.
    std::string diary() const {
        std::string text;
        for (const std::string& line : world.diary()) text += line.substr(0, line.rfind(' ')) + ", ";
        return text;
    }
    void expectBack() {
        EXPECT_EQ(diary(), "run a, run b, run c, undo c, undo b, undo a, ");
        EXPECT_EQ(difference(rig.place().shown(), before), "");
        for (const char* name : {"a", "b", "c"}) EXPECT_FALSE(world.isDone(name)) << name;
        rig.expectWhole();
    }

    EngineRig rig{GetParam()};
    StepsWorld world{rig};
    Tree before;
};

TEST_P(EngineStepsElsewhere, RunInOrder) {
    const StageReport report = promoted();
    EXPECT_TRUE(report.succeeded()) << report.reason;
    EXPECT_EQ(diary(), "run a, run b, run c, ");
    EXPECT_EQ(difference(plain(rig.place().shown()), rig.place().held(rig.place().base())), "");
    rig.expectWhole();
}

TEST_P(EngineStepsElsewhere, AreUndoneInReverseAfterAFailure) {
    GRADUS_CASES("I5");
    rig.answers.after = [](const std::string& stage) {
        return stage == "production" ? Cause::kFailed : Cause::kPassed;
    };
    EXPECT_EQ(promoted().promotion.state, S::kRolledBack);
    expectBack();
}

TEST_P(EngineStepsElsewhere, AreUndoneInReverseWhenItIsTakenBackLater) {
    const StageReport report = promoted();
    ASSERT_TRUE(report.succeeded()) << report.reason;
    EXPECT_TRUE(rig.engine()->rollBack(report.promotion.id, rig.progress, {}).succeeded());
    expectBack();
}

// What cannot be undone is not taken back by anything that nobody asked: it stays, and says why.
TEST_P(EngineStepsElsewhere, MonitoringDoesNotGoBackPastAnIrreversibleOne) {
    rig.moreRules = world.step("a", "irreversible = true");
    rig.monitor = 10min;
    const PromoteWish consent{.overrides = {{Gate::kSteps, "a backup was made"}}};
    const auto change = rig.submit(rig.place().base());
    const StageReport report = rig.engine()->promote(change, "production", rig.progress, {}, consent).stages.back();
    ASSERT_TRUE(report.succeeded()) << report.reason;
    const Tree after = rig.place().shown();
    rig.answers.after = [](const std::string&) { return Cause::kFailed; };
    const MonitorReport monitored = rig.engine()->monitor({"production", 2min}, rig.progress, {});
    EXPECT_TRUE(monitored.takenBack.empty());
    ASSERT_FALSE(monitored.stages.empty());
    EXPECT_NE(monitored.stages.back().note.find("what step 'a'"), std::string::npos) << monitored.stages.back().note;
    EXPECT_EQ(rig.promotions().back().state, S::kPromoted);
    EXPECT_EQ(difference(rig.place().shown(), after), "");
    EXPECT_TRUE(world.isDone("a"));
    rig.expectWhole();
}

INSTANTIATE_TEST_SUITE_P(
    All, EngineStepsElsewhere,
    testing::Values(Scene{.name = "Branch", .driver = "branch", .withGit = false, .isSmall = true},
                    Scene{.name = "Command", .driver = "command", .withGit = false, .isSmall = true},
                    Scene{
                        .name = "ReleaseDirectory", .driver = "release-directory", .withGit = false, .isSmall = true}),
    [](const auto& scene) { return scene.param.name; });

}  // namespace
}  // namespace gradus::test
