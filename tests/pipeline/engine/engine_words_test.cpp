// What people say and what the engine makes of it, over real drivers, made-up checks and a clock that is told the time.
#include <gtest/gtest.h>

#include "store/model/error.h"
#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using S = PromotionState;

class EngineWords : public testing::Test {
  protected:
    void SetUp() override {
        build(rig.project(), sampleBefore());
        rig.moreRules = "[role.override]\nmembers = [\"olga\"]\n";
    }
    EngineRig rig;

    std::unique_ptr<Engine> as(const std::string& person) {
        rig.actor = {ActorKind::kPerson, person};
        return rig.engine();
    }
    void approve(std::int64_t change, const std::string& person) {
        as(person)->approve(change, "production", "", false);
        rig.actor = {ActorKind::kPerson, "ada"};
    }
    StageReport promoted(std::int64_t change) { return rig.promote(change).stages.back(); }
    GateState gate(std::int64_t change, Gate name, const std::string& stage = "production") {
        return rig.engine()->standing(change, stage).gates.at(name).state;
    }
    std::int64_t another() { return rig.submitChanges(changesBetween({}, {{"another", file("text")}}, rig.objects())); }
    std::size_t uses() {
        std::size_t count = 0;
        for (const Promotion& promotion : rig.promotions())
            for (const Approval& approval : rig.store().records().words().approvals(promotion.change, promotion.stage))
                count += approval.usedBy == promotion.id ? 1 : 0;
        return count;
    }
};

TEST_F(EngineWords, AnApprovalOpensTheGate) {
    rig.productionPolicy = "approvals = [{ count = 1 }]";
    const std::int64_t change = rig.submit(sampleAfter());
    EXPECT_EQ(promoted(change).promotion.state, S::kWaiting);
    EXPECT_EQ(rig.productionTree(), std::nullopt);
    approve(change, "ben");
    EXPECT_TRUE(promoted(change).succeeded());
    rig.expectWhole();
}

TEST_F(EngineWords, AnApprovalIsUsedOnce) {
    GRADUS_CASES("I9");
    rig.productionPolicy = "approvals = [{ count = 1 }]";
    const std::int64_t change = rig.submit(sampleAfter());
    EXPECT_EQ(promoted(change).promotion.state, S::kWaiting);
    approve(change, "ben");
    const StageReport first = promoted(change);
    ASSERT_TRUE(first.succeeded()) << first.reason;
    EXPECT_EQ(uses(), 1U);
    ASSERT_TRUE(rig.engine()->rollBack(first.promotion.id, rig.progress, {}).succeeded());
    EXPECT_EQ(promoted(change).promotion.state, S::kWaiting);
    EXPECT_EQ(rig.productionTree(), std::nullopt);
}

TEST_F(EngineWords, AnApprovalExpires) {
    GRADUS_CASES("I9");
    rig.productionPolicy = "approvals = [{ count = 1, expires = \"1h\" }]";
    const std::int64_t change = rig.submit(sampleAfter());
    EXPECT_EQ(promoted(change).promotion.state, S::kWaiting);
    approve(change, "ben");
    EXPECT_EQ(gate(change, Gate::kApprovals), GateState::kOpen);
    rig.clock().advance(std::chrono::hours(1));
    EXPECT_EQ(gate(change, Gate::kApprovals), GateState::kClosed);
    EXPECT_EQ(promoted(change).promotion.state, S::kWaiting);
    approve(change, "ben");
    EXPECT_TRUE(promoted(change).succeeded());
}

TEST_F(EngineWords, AnApprovalThatNobodyNeededIsNotUsed) {
    const std::int64_t change = rig.submit(sampleAfter());
    approve(change, "ben");
    EXPECT_TRUE(promoted(change).succeeded());
    EXPECT_EQ(uses(), 0U);
}

TEST_F(EngineWords, AnApprovalIsForTheTreeThatTheStageHeld) {
    GRADUS_CASES("I9");
    rig.productionPolicy = "approvals = [{ count = 1 }]";
    const std::int64_t change = rig.submit(sampleAfter());
    const std::int64_t other = another();
    EXPECT_EQ(promoted(change).promotion.state, S::kWaiting);
    EXPECT_EQ(promoted(other).promotion.state, S::kWaiting);
    approve(change, "ben");
    EXPECT_EQ(gate(change, Gate::kApprovals), GateState::kOpen);
    approve(other, "ben");
    EXPECT_EQ(gate(other, Gate::kApprovals), GateState::kOpen);
    EXPECT_EQ(promoted(other).promotion.state, S::kWaiting) << "the one that came first moved the stage";
    EXPECT_EQ(gate(other, Gate::kApprovals), GateState::kClosed);
    EXPECT_EQ(rig.store().records().promotionsOf(change).back().state, S::kPromoted);
}

TEST_F(EngineWords, NobodyOfTheLineageApproves) {
    GRADUS_CASES("I10");
    rig.productionPolicy = "approvals = [{ count = 1 }]";
    const std::int64_t change = rig.submit(sampleAfter());
    const Change first = *rig.store().records().change(change);
    rig.store().write([&](Writer& writer) {
        writer.revise(change, writer.actor({ActorKind::kPerson, "ben"}),
                      {first.changeSet, first.base, sha256("another patch"), "better", {}, std::nullopt});
    });
    EXPECT_THROW(approve(change, "ada"), Error);
    EXPECT_THROW(approve(change, "ben"), Error);
    EXPECT_NO_THROW(approve(change, "carl"));
    rig.actor = {ActorKind::kAgent, "carl"};
    EXPECT_THROW(rig.engine()->approve(change, "production", "", false), Error);
}

TEST_F(EngineWords, ATestThatIsSwitchedOffNeedsAPerson) {
    GRADUS_CASES("I16");
    rig.productionPolicy = "test-paths = [\"t_*\"]";
    build(rig.project(), {{"t_one", file("a\nb\n")}});
    rig.objects().put("a\nb\n");
    ASSERT_TRUE(promoted(another()).succeeded());
    rig.actor = {ActorKind::kAgent, "fixer"};
    const ChangeSet skips =
        changesBetween({{"t_one", file("a\nb\n")}}, {{"t_one", file("a\nb\nit.skip('b')\n")}}, rig.objects());
    const std::int64_t change = rig.submitChanges(skips, rig.actor);
    EXPECT_EQ(promoted(change).promotion.state, S::kWaiting);
    EXPECT_EQ(gate(change, Gate::kTests), GateState::kClosed);
}

TEST_F(EngineWords, TheSamePatchIsHeldAsAnotherChange) {
    GRADUS_CASES("I20");
    // Well before the switch: it is the change that is to blame.
    rig.answers.after = [looks = 0](const std::string& stage) mutable {
        return stage == "local" && ++looks > 1 ? Cause::kFailed : Cause::kPassed;
    };
    rig.actor = {ActorKind::kAgent, "fixer"};
    const std::int64_t change = rig.submit(sampleAfter(), rig.actor);
    ASSERT_EQ(rig.promote(change, "local").stages.back().promotion.state, S::kRolledBack);
    rig.answers.after = [](const std::string&) { return Cause::kPassed; };
    const std::int64_t again = rig.submit(sampleAfter(), rig.actor);
    ASSERT_NE(again, change);
    EXPECT_EQ(rig.promote(again, "local").stages.back().promotion.state, S::kWaiting);
    EXPECT_EQ(gate(again, Gate::kHold, "local"), GateState::kClosed);
}

TEST_F(EngineWords, ARejectionEndsWhatWaits) {
    rig.productionPolicy = "approvals = [{ count = 2 }]";
    const std::int64_t change = rig.submit(sampleAfter());
    approve(change, "ben");
    EXPECT_EQ(promoted(change).promotion.state, S::kWaiting);
    const auto ended = as("carl")->reject(change, "production", "no");
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->state, S::kRejected);
    EXPECT_TRUE(rig.store().records().words().approvals(change, "production").empty());
    rig.actor = {ActorKind::kAgent, "fixer"};
    EXPECT_THROW(rig.engine()->reject(change, "production", "no"), Error);
    rig.expectWhole();
}

/// Of this stage, or of two, from the rig's noon on, for an hour.
std::string closedFor(EngineRig& rig, const std::string& stages, Milliseconds time) {
    const std::string now = formatTime(rig.clock().now());
    return fmt::format(
        "[[window]]\nstages = [{}]\ndeny = {{ cron = \"{} {} * * *\", for = \"{}ms\", timezone = \"UTC\" }}\n", stages,
        std::stoi(now.substr(14, 2)), std::stoi(now.substr(11, 2)), time.count());
}

TEST_F(EngineWords, AClosedWindowOpensWhileItWaits) {
    rig.moreRules += closedFor(rig, "\"production\"", std::chrono::hours(1));
    const std::int64_t change = rig.submit(sampleAfter());
    std::optional<Time> opens;
    rig.progress.waiting = [&](const StageReport&, Time next) { opens = next; };
    const Time began = rig.clock().now();
    const Climb climb = rig.engine()->promote(change, "production", rig.progress, {},
                                              {.overrides = {}, .patience = std::chrono::hours(2)});
    EXPECT_TRUE(climb.succeeded()) << climb.stages.back().reason;
    ASSERT_TRUE(opens);
    EXPECT_GE(rig.clock().now() - began, std::chrono::minutes(59));
    EXPECT_LE(rig.clock().now() - began, std::chrono::minutes(61));
    rig.expectWhole();
}

TEST_F(EngineWords, WaitingIsBounded) {
    rig.moreRules += closedFor(rig, "\"production\"", std::chrono::hours(1));
    const std::int64_t change = rig.submit(sampleAfter());
    const Time began = rig.clock().now();
    const Climb climb = rig.engine()->promote(change, "production", rig.progress, {},
                                              {.overrides = {}, .patience = std::chrono::minutes(5)});
    EXPECT_EQ(climb.stages.back().promotion.state, S::kWaiting);
    EXPECT_LE(rig.clock().now() - began, std::chrono::minutes(6));
    EXPECT_EQ(rig.productionTree(), std::nullopt);
}

TEST_F(EngineWords, AHoldWithoutAnEndIsNotWaitedFor) {
    const std::int64_t change = rig.submit(sampleAfter());
    const auto engine = rig.engine();
    rig.store().write([&](Writer& writer) {
        WordWriter(writer, writer.actor(rig.actor), 0).hold({.project = 1, .stage = "production"});
    });
    const Time began = rig.clock().now();
    const Climb climb =
        engine->promote(change, "production", rig.progress, {}, {.overrides = {}, .patience = std::chrono::hours(5)});
    EXPECT_EQ(climb.stages.back().promotion.state, S::kWaiting);
    EXPECT_EQ(rig.clock().now(), began);
}

TEST_F(EngineWords, AnOverrideIsForOnePromotion) {
    rig.moreRules += closedFor(rig, "\"local\", \"production\"", std::chrono::hours(1));
    const std::int64_t change = rig.submit(sampleAfter());
    const PromoteWish wish{.overrides = {{Gate::kWindow, "fire"}}, .patience = {}};
    const Climb refused = as("carl")->promote(change, "production", rig.progress, {}, wish);
    ASSERT_TRUE(refused.stages.back().fault);
    EXPECT_EQ(refused.stages.back().fault->code(), ErrorCode::kNotAllowed);
    const Climb climb = as("olga")->promote(change, "production", rig.progress, {}, wish);
    ASSERT_EQ(climb.stages.size(), 3U);
    EXPECT_TRUE(climb.stages[1].succeeded());
    EXPECT_EQ(climb.stages[2].promotion.state, S::kWaiting);
    EXPECT_EQ(rig.store().records().words().overrides(climb.stages[1].promotion.id).size(), 1U);
    EXPECT_TRUE(rig.store().records().words().overrides(climb.stages[2].promotion.id).empty());
}

}  // namespace
}  // namespace gradus::test
