// What a stage said about a change, and what takes it back: over real drivers, made-up checks and a clock.
#include <gtest/gtest.h>

#include "pipeline/engine/check_question.h"
#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using S = PromotionState;

class Verified : public testing::Test {
  protected:
    void SetUp() override { build(rig.project(), sampleBefore()); }
    EngineRig rig;

    Climb recheck(std::int64_t change, const std::string& to) {
        PromoteWish wish;
        wish.recheck = true;
        return rig.engine()->promote(change, to, rig.progress, {}, wish);
    }
    GateAnswer verified(std::int64_t change, const std::string& stage = "production") {
        return rig.engine()->standing(change, stage).gates.at(Gate::kVerified);
    }
    void say(Cause cause) {
        rig.answers.before = [cause](const std::string&) { return cause; };
    }
};

TEST_F(Verified, ACheckThatFailsWhenItIsAskedAgainTakesItsYesBack) {
    GRADUS_CASES("I19");
    const std::int64_t change = rig.submit(sampleAfter());
    ASSERT_TRUE(rig.promote(change, "local").succeeded());
    ASSERT_EQ(verified(change).state, GateState::kOpen);
    rig.clock().advance(Milliseconds(1000));
    say(Cause::kFailed);
    const Climb again = recheck(change, "sandbox");
    ASSERT_EQ(again.stages.back().promotion.state, S::kRejected);
    EXPECT_EQ(verified(change).state, GateState::kClosed);
    EXPECT_NE(verified(change).reason.find("failed there since"), std::string::npos) << verified(change).reason;

    // Later stages are not entered on the old yes: the stage that took it back is asked first.
    const Climb onwards = rig.promote(change);
    EXPECT_EQ(onwards.stages.size(), 1U);
    EXPECT_EQ(onwards.stages.back().promotion.state, S::kRejected);
    EXPECT_EQ(rig.productionTree(), std::nullopt);

    say(Cause::kPassed);
    EXPECT_TRUE(rig.promote(change).succeeded());
    EXPECT_NE(rig.productionTree(), std::nullopt);
    rig.expectWhole();
}

TEST_F(Verified, WhoCouldNotJudgeTakesNothingBack) {
    const std::int64_t change = rig.submit(sampleAfter());
    ASSERT_TRUE(rig.promote(change, "local").succeeded());
    say(Cause::kErrored);
    EXPECT_FALSE(recheck(change, "sandbox").succeeded());
    EXPECT_EQ(verified(change).state, GateState::kOpen) << verified(change).reason;
}

TEST_F(Verified, AStageThatHasItIsAskedAgainWithoutBeingTouched) {
    const std::int64_t change = rig.submit(sampleAfter());
    ASSERT_TRUE(rig.promote(change, "local").succeeded());
    const Tree before = rig.projectTree();
    int asked = 0;
    rig.answers.before = [&](const std::string&) {
        ++asked;
        return Cause::kPassed;
    };
    const Climb again = recheck(change, "local");
    EXPECT_TRUE(again.succeeded()) << again.stages.back().reason;
    EXPECT_EQ(asked, 2) << "sandbox and local";
    EXPECT_EQ(rig.projectTree(), before);
    rig.expectWhole();
}

TEST_F(Verified, RulesThatDemandMoreTakeItBack) {
    GRADUS_CASES("I19");
    const std::int64_t change = rig.submit(sampleAfter());
    ASSERT_TRUE(rig.promote(change, "local").succeeded());
    rig.moreRules = "[check.lint]\nrun = \"make lint\"\n";
    EXPECT_EQ(verified(change).state, GateState::kClosed);
    EXPECT_NE(verified(change).reason.find("'lint'"), std::string::npos) << verified(change).reason;
    rig.clock().advance(Milliseconds(1000));
    const Climb again = rig.promote(change, "local");
    EXPECT_TRUE(again.succeeded()) << again.stages.back().reason;
    EXPECT_FALSE(again.stages.front().already);
    EXPECT_EQ(verified(change).state, GateState::kOpen) << verified(change).reason;
}

TEST_F(Verified, RulesThatDemandLessTakeNothingBack) {
    rig.moreRules = "[check.lint]\nrun = \"make lint\"\n";
    const std::int64_t change = rig.submit(sampleAfter());
    ASSERT_TRUE(rig.promote(change, "local").succeeded());
    rig.moreRules.clear();
    EXPECT_EQ(verified(change).state, GateState::kOpen) << verified(change).reason;
}

TEST_F(Verified, ACheckThatIsDefinedOtherwiseIsAskedAgain) {
    rig.moreRules = "[check.lint]\nrun = \"make lint\"\n";
    const std::int64_t change = rig.submit(sampleAfter());
    ASSERT_TRUE(rig.promote(change, "local").succeeded());
    rig.moreRules = "[check.lint]\nrun = \"make lint-all\"\n";
    EXPECT_EQ(verified(change).state, GateState::kClosed);
}

TEST_F(Verified, NothingIsReusedInProductionWhateverThePolicySays) {
    rig.productionPolicy = "evidence-reuse = \"1h\"";
    rig.engine();
    EXPECT_EQ(reuseWithin(rig.stage("production")), std::nullopt);
    EXPECT_EQ(reuseWithin(rig.stage("sandbox")), Milliseconds(15 * 60 * 1000));
}

}  // namespace
}  // namespace gradus::test
