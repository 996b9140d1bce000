// The engine's decisions, over real drivers and made-up checks.
#include <gtest/gtest.h>

#include <fstream>

#include "store/model/error.h"
#include "store/model/handle.h"
#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/case.h"
#include "tests/support/error_of.h"

namespace gradus::test {
namespace {

using S = PromotionState;

class EngineTest : public testing::Test {
  protected:
    void SetUp() override {
        build(rig.project(), sampleBefore());
        before = rig.projectTree();
    }
    EngineRig rig;
    Tree before;
};

TEST_F(EngineTest, AGoodChangeEntersEveryStage) {
    GRADUS_CASES("TX1");
    const Climb climb = rig.promote(rig.submit(sampleAfter()));
    ASSERT_EQ(climb.stages.size(), 3U) << climb.stages.back().reason;
    EXPECT_TRUE(climb.succeeded());
    EXPECT_EQ(difference(plain(rig.projectTree()), sampleAfter()), "");
    ASSERT_TRUE(rig.productionTree());
    EXPECT_EQ(difference(plain(*rig.productionTree()), sampleAfter()), "");
    rig.expectWhole();
}

// What says no before touches nothing, and no later stage is looked at.
TEST_F(EngineTest, ANoBeforeTouchesNothing) {
    GRADUS_CASES("I6");
    for (const std::string stage : {"sandbox", "local", "production"}) {
        EngineRig other;
        build(other.project(), sampleBefore());
        other.answers.before = [&](const std::string& asked) {
            return asked == stage ? Cause::kFailed : Cause::kPassed;
        };
        const Climb climb = other.promote(other.submit(sampleAfter()));
        EXPECT_EQ(climb.stages.back().promotion.stage, stage);
        EXPECT_EQ(climb.stages.back().promotion.state, S::kRejected);
        EXPECT_EQ(climb.stages.back().promotion.cause, Cause::kFailed);
        EXPECT_EQ(difference(plain(other.projectTree()), stage == "production" ? sampleAfter() : sampleBefore()), "");
        EXPECT_EQ(other.productionTree(), std::nullopt);
        other.expectWhole();
    }
}

TEST_F(EngineTest, ANoAfterIsTakenBack) {
    GRADUS_CASES("I5", "I22");
    rig.answers.after = [](const std::string& stage) {
        return stage == "production" ? Cause::kFailed : Cause::kPassed;
    };
    const std::int64_t change = rig.submit(sampleAfter());
    const Climb climb = rig.promote(change);
    EXPECT_EQ(climb.stages.back().promotion.state, S::kRolledBack);
    EXPECT_EQ(climb.stages.back().promotion.cause, Cause::kFailed);
    EXPECT_EQ(rig.productionTree(), std::nullopt);
    EXPECT_EQ(difference(plain(rig.projectTree()), sampleAfter()), "");
    EXPECT_EQ(rig.store().records().words().holds(1).size(), 1U);
    rig.expectWhole();
}

TEST_F(EngineTest, AfterAFailureAMachineWaitsAndAPersonMay) {
    GRADUS_CASES("I20");
    // Well before the switch: it is the change that is to blame.
    rig.answers.after = [looks = 0](const std::string& stage) mutable {
        return stage == "local" && ++looks > 1 ? Cause::kFailed : Cause::kPassed;
    };
    const std::int64_t change = rig.submit(sampleAfter());
    EXPECT_EQ(rig.promote(change, "local").stages.back().promotion.state, S::kRolledBack);
    EXPECT_EQ(difference(rig.projectTree(), before), "");
    rig.answers.after = [](const std::string&) { return Cause::kPassed; };
    rig.actor = {ActorKind::kAgent, "fixer"};
    const Climb machine = rig.promote(change, "local");
    EXPECT_EQ(machine.stages.back().promotion.state, S::kWaiting);
    EXPECT_EQ(difference(rig.projectTree(), before), "");
    rig.actor = {ActorKind::kPerson, "ada"};
    const Climb person = rig.promote(change, "local");
    EXPECT_TRUE(person.succeeded()) << person.stages.back().reason;
    EXPECT_EQ(person.stages.back().promotion.id, machine.stages.back().promotion.id) << "what waited goes on";
    rig.expectWhole();
}

TEST_F(EngineTest, WhatTheStageLacksIsNamed) {
    ASSERT_TRUE(rig.promote(rig.submit(sampleBefore())).succeeded());
    const auto with = [&](const std::string& path, const std::string& text) {
        Tree tree = plain(rig.projectTree());
        tree[path] = file(text);
        return rig.submit(tree);
    };
    ASSERT_TRUE(rig.promote(with("other", "unrelated"), "local").succeeded());
    const std::int64_t first = with("fresh", "one");
    ASSERT_TRUE(rig.promote(first, "local").succeeded());
    const std::int64_t second = with("fresh", "one and two");
    const StageReport report = rig.promote(second).stages.back();
    EXPECT_EQ(report.promotion.state, S::kStale);
    EXPECT_EQ(report.missing, std::vector<std::int64_t>{first});
    EXPECT_NE(report.reason.find(fmt::format("production lacks c{}", first)), std::string::npos) << report.reason;
    ASSERT_TRUE(rig.promote(first).succeeded());
    EXPECT_TRUE(rig.promote(second).succeeded());
}

TEST_F(EngineTest, ErroredIsNotFailedAndNotHeld) {
    rig.answers.after = [](const std::string& stage) { return stage == "local" ? Cause::kErrored : Cause::kPassed; };
    const std::int64_t change = rig.submit(sampleAfter());
    const Climb climb = rig.promote(change);
    EXPECT_EQ(climb.stages.back().promotion.state, S::kRolledBack);
    EXPECT_EQ(climb.stages.back().promotion.cause, Cause::kErrored);
    EXPECT_TRUE(rig.store().records().words().holds(1).empty());
    EXPECT_EQ(difference(rig.projectTree(), before), "");
}

TEST_F(EngineTest, AnUndoRestoresEveryPath) {
    GRADUS_CASES("I7");
    const std::int64_t change = rig.submit(sampleAfter());
    const Climb climb = rig.promote(change, "local");
    ASSERT_TRUE(climb.succeeded());
    const StageReport undone = rig.engine()->rollBack(climb.stages.back().promotion.id, rig.progress, {});
    EXPECT_TRUE(undone.succeeded()) << undone.reason;
    EXPECT_EQ(undone.promotion.undoes, climb.stages.back().promotion.id);
    EXPECT_EQ(difference(rig.projectTree(), before), "");
    EXPECT_TRUE(mentions(errorOf([&] { rig.engine()->rollBack(undone.promotion.id, rig.progress, {}); }),
                         "took something back"));
    EXPECT_THROW(rig.engine()->rollBack(climb.stages.back().promotion.id, rig.progress, {}), Error);
    // What was taken back can be promoted again.
    EXPECT_TRUE(rig.promote(change, "local").succeeded());
    rig.expectWhole();
}

// No gate is asked on the way back.
TEST_F(EngineTest, ARollbackNeedsNoGate) {
    GRADUS_CASES("I17");
    const std::int64_t change = rig.submit(sampleAfter());
    ASSERT_TRUE(rig.promote(change).succeeded());
    rig.store().write([&](Writer& writer) {
        WordWriter words(writer, writer.actor(rig.actor), 0);
        words.hold({.project = 1, .stage = "production", .change = change, .reason = "nobody touches this"});
        words.halt(std::nullopt, "nobody touches anything");
    });
    rig.answers.before = [](const std::string&) { return Cause::kFailed; };
    const auto holder = rig.store().records().stageState(1, "production").promotion;
    ASSERT_TRUE(holder);
    EXPECT_TRUE(rig.engine()->rollBack(*holder, rig.progress, {}).succeeded());
    EXPECT_EQ(rig.productionTree(), std::nullopt);
}

// What was checked is what is applied, or it is checked again.
TEST_F(EngineTest, ATreeThatMovedWhileItWasCheckedIsCheckedAgain) {
    GRADUS_CASES("I8", "CA11");
    int rounds = 0;
    rig.answers.before = [&](const std::string& stage) {
        if (stage == "local" && ++rounds == 1) build(rig.project(), {{"elsewhere", file("mine")}});
        return Cause::kPassed;
    };
    const Climb climb = rig.promote(rig.submit(sampleAfter()), "local");
    EXPECT_TRUE(climb.succeeded()) << climb.stages.back().reason;
    EXPECT_EQ(rounds, 2);
    EXPECT_EQ(rig.projectTree().at("elsewhere").bytes, "mine");
    rig.expectWhole();
}

TEST_F(EngineTest, WhatAnEmptyStageBeginsAsIsWhatWasChecked) {
    int rounds = 0;
    rig.answers.before = [&](const std::string& stage) {
        if (stage == "production" && ++rounds == 1) build(rig.project(), {{"unrelated", file("edited meanwhile")}});
        return Cause::kPassed;
    };
    const Climb climb = rig.promote(rig.submit(sampleAfter()));
    EXPECT_TRUE(climb.succeeded()) << climb.stages.back().reason;
    EXPECT_EQ(rounds, 2) << "what was copied into the stage was never checked";
}

TEST_F(EngineTest, WherePeopleWorkUnrelatedEditsAreNoReasonToCheckAgain) {
    rig.freshness = "allow";
    int rounds = 0;
    rig.answers.before = [&](const std::string& stage) {
        if (stage == "local" && ++rounds == 1) build(rig.project(), {{"elsewhere", file("mine")}});
        return Cause::kPassed;
    };
    EXPECT_TRUE(rig.promote(rig.submit(sampleAfter()), "local").succeeded());
    EXPECT_EQ(rounds, 1);
}

TEST_F(EngineTest, AnEditOfWhatItTouchesIsNeverOverwritten) {
    GRADUS_CASES("CA11", "CA12");
    rig.answers.before = [&](const std::string& stage) {
        if (stage == "local") build(rig.project(), {{"edited", file("mine")}});
        return Cause::kPassed;
    };
    Tree after = sampleBefore();
    after["edited"] = file("theirs");
    build(rig.project(), {{"edited", file("old")}});
    const Climb climb = rig.promote(rig.submit(after), "local");
    EXPECT_EQ(climb.stages.back().promotion.state, S::kStale) << climb.stages.back().reason;
    EXPECT_EQ(rig.projectTree().at("edited").bytes, "mine");
    rig.expectWhole();
}

TEST_F(EngineTest, WhenThePolicySaysSoAPersonTakesItBack) {
    GRADUS_CASES("I4");
    rig.rollback = "manual";
    rig.answers.after = [](const std::string& stage) {
        return stage == "production" ? Cause::kFailed : Cause::kPassed;
    };
    const Climb climb = rig.promote(rig.submit(sampleAfter()));
    EXPECT_EQ(climb.stages.back().promotion.state, S::kVerifying);
    EXPECT_TRUE(rig.productionTree());
    // After the first touch the target stays taken, even while it waits for a person.
    EXPECT_TRUE(rig.store().records().atWorkOn(*climb.stages.back().promotion.target));
    const StageReport report = rig.engine()->rollBack(climb.stages.back().promotion.id, rig.progress, {});
    EXPECT_EQ(report.promotion.state, S::kRolledBack);
    EXPECT_EQ(rig.productionTree(), std::nullopt);
    rig.expectWhole();
}

TEST_F(EngineTest, ANoThatIsLeftToAPersonIsNotForgottenByAnAgent) {
    rig.rollback = "manual";
    bool isWell = false;
    rig.answers.after = [&](const std::string& stage) {
        return stage == "production" && !isWell ? Cause::kFailed : Cause::kPassed;
    };
    rig.promote(rig.submit(sampleAfter()));
    isWell = true;
    rig.actor = {ActorKind::kAgent, "bot"};
    rig.engine()->recover(rig.progress, {});
    EXPECT_EQ(rig.promotions().back().state, S::kVerifying);
    rig.actor = {ActorKind::kPerson, "ada"};
    rig.engine()->recover(rig.progress, {});
    EXPECT_EQ(rig.promotions().back().state, S::kPromoted);
    rig.expectWhole();
}

TEST_F(EngineTest, ItSoaksAsLongAsItsChecksGoOnPassing) {
    rig.soak = Milliseconds(20'000);
    int looks = 0;
    rig.answers.after = [&](const std::string& stage) {
        if (stage == "production") ++looks;
        return Cause::kPassed;
    };
    EXPECT_TRUE(rig.promote(rig.submit(sampleAfter())).succeeded());
    EXPECT_EQ(looks, 5) << "once after the switch, then every five seconds";
    looks = 0;
    rig.answers.after = [&](const std::string& stage) {
        return stage == "production" && ++looks > 2 ? Cause::kFailed : Cause::kPassed;
    };
    Tree more = sampleAfter();
    more["more"] = file("more");
    const Climb climb = rig.promote(rig.submit(more));
    EXPECT_EQ(climb.stages.back().promotion.state, S::kRolledBack);
    EXPECT_EQ(difference(plain(*rig.productionTree()), sampleAfter()), "");
    rig.expectWhole();
}

TEST_F(EngineTest, ATargetThatCannotBeRestoredIsStuckAndClosed) {
    GRADUS_CASES("CR15");
    ASSERT_TRUE(rig.promote(rig.submit(sampleAfter())).succeeded());
    const auto old = std::filesystem::canonical(rig.production() / "current");
    rig.answers.after = [&, looks = 0](const std::string& stage) mutable {
        if (stage != "production" || ++looks == 1) return Cause::kPassed;
        std::filesystem::remove_all(old);  // somebody tidied up too much
        return Cause::kFailed;
    };
    Tree more = sampleAfter();
    more["more"] = file("more");
    const Climb climb = rig.promote(rig.submit(more));
    EXPECT_EQ(climb.stages.back().promotion.state, S::kStuck);
    EXPECT_FALSE(climb.stages.back().reason.empty());
    rig.answers.after = [](const std::string&) { return Cause::kPassed; };
    Tree third = more;
    third["third"] = file("third");
    const Climb closed = rig.promote(rig.submit(third));
    EXPECT_EQ(closed.stages.back().promotion.state, S::kWaiting);
    EXPECT_EQ(closed.stages.back().gates->at(Gate::kQuarantine).state, GateState::kClosed);
}

TEST_F(EngineTest, ACancelledPromotionTouchesNothingOrGoesBack) {
    GRADUS_CASES("I24", "I5");
    std::stop_source stop;
    rig.answers.before = [&](const std::string& stage) {
        if (stage == "local") stop.request_stop();
        return Cause::kPassed;
    };
    const std::int64_t change = rig.submit(sampleAfter());
    const Climb climb = rig.engine()->promote(change, "local", rig.progress, stop.get_token());
    EXPECT_EQ(climb.stages.back().promotion.state, S::kCancelled);
    EXPECT_EQ(difference(rig.projectTree(), before), "");
    std::stop_source later;
    rig.answers.before = [](const std::string&) { return Cause::kPassed; };
    rig.answers.after = [&](const std::string&) {
        later.request_stop();
        return Cause::kPassed;
    };
    const Climb touched = rig.engine()->promote(change, "local", rig.progress, later.get_token());
    EXPECT_EQ(touched.stages.back().promotion.state, S::kRolledBack);
    EXPECT_EQ(touched.stages.back().promotion.cause, Cause::kCancelled);
    EXPECT_EQ(difference(rig.projectTree(), before), "");
    rig.expectWhole();
}

// Whoever waits for a target holds nothing, and loses nothing by giving up.
TEST_F(EngineTest, WhileAnotherHasTheTargetItWaitsAndKeepsTheChange) {
    GRADUS_CASES("TX5", "TX7", "I4");
    const std::int64_t change = rig.submit(sampleAfter());
    ASSERT_TRUE(rig.promote(change, "sandbox").succeeded());
    auto other = std::optional(rig.lockTarget("local"));
    const Climb busy = rig.promote(change, "local");
    EXPECT_EQ(busy.stages.back().promotion.state, S::kWaiting);
    EXPECT_NE(busy.stages.back().reason.find("another process is promoting"), std::string::npos);
    EXPECT_EQ(difference(rig.projectTree(), before), "");
    other.reset();
    EXPECT_NO_THROW(rig.lockTarget("local")) << "waiting holds no lock";
    const std::int64_t waiting = busy.stages.back().promotion.id;
    rig.engine()->cancel(waiting);
    EXPECT_EQ(rig.store().records().promotion(waiting)->state, S::kCancelled);
    const Climb again = rig.promote(change, "local");
    EXPECT_TRUE(again.succeeded()) << again.stages.back().reason;
    EXPECT_NE(again.stages.back().promotion.id, waiting) << "an end is final";
    EXPECT_EQ(difference(plain(rig.projectTree()), sampleAfter()), "");
    rig.expectWhole();
}

// Everything is proven and only a word is missing: whoever else wants the target may have it meanwhile.
TEST_F(EngineTest, WaitingForAPersonItHoldsNoLock) {
    GRADUS_CASES("I4");
    rig.productionPolicy = "approvals = [{ count = 1 }]";
    const Climb climb = rig.promote(rig.submit(sampleAfter()));
    EXPECT_EQ(climb.stages.back().promotion.state, S::kWaiting);
    EXPECT_NO_THROW(rig.lockTarget("production"));
}

// What waited for one tree does not go on over another: it ends, and says what took its place.
TEST_F(EngineTest, AMergeSupersedesWhatWaited) {
    GRADUS_CASES("I14");
    build(rig.project(), {{"lines", file("1\n2\n3\n4\n5\n6\n7\n8\n9\n")}});
    rig.objects().put("1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    Tree after = plain(rig.projectTree());
    after["lines"] = file("1\ntwo\n3\n4\n5\n6\n7\n8\n9\n");
    const std::int64_t change = rig.submit(after);
    auto other = std::optional(rig.lockTarget("local"));
    const std::int64_t waiting = rig.promote(change, "local").stages.back().promotion.id;
    other.reset();
    build(rig.project(), {{"lines", file("1\n2\n3\n4\n5\n6\n7\n8\nnine\n")}});
    const Climb climb = rig.promote(change, "local");
    EXPECT_TRUE(climb.succeeded()) << climb.stages.back().reason;
    EXPECT_EQ(climb.stages.back().promotion.revision, 2);
    const Records& records = rig.store().records();
    EXPECT_EQ(records.promotion(waiting)->state, S::kSuperseded);
    EXPECT_NE(records.lastReason(waiting).value_or("").find(".2 took its place"), std::string::npos);
    EXPECT_EQ(rig.projectTree().at("lines").bytes, "1\ntwo\n3\n4\n5\n6\n7\n8\nnine\n");
    rig.expectWhole();
}

TEST_F(EngineTest, APlanTouchesAndRecordsNothing) {
    GRADUS_CASES("TX11");
    const std::int64_t change = rig.submit(sampleAfter());
    const auto engine = rig.engine();
    const std::int64_t events = rig.store().records().counts().events;
    const auto plans = engine->plan(change, "production");
    ASSERT_EQ(plans.size(), 3U);
    EXPECT_TRUE(plans.back().seeds);
    EXPECT_EQ(rig.store().records().counts().events, events);
    EXPECT_EQ(difference(rig.projectTree(), before), "");
    EXPECT_EQ(rig.productionTree(), std::nullopt);
}

// Our own copy of the tree says nothing about what somebody else has brought there.
TEST(EngineCommand, WhatItsStatusDoesNotNameIsNotThereAlready) {
    EngineRig rig({.name = "Command", .driver = "command", .withGit = false, .isSmall = true, .withStatus = true});
    build(rig.project(), rig.place().base());
    const std::int64_t change = rig.submit(rig.place().goal());
    const std::string last = rig.lastStage();
    ASSERT_TRUE(rig.promote(change, last).succeeded());
    EXPECT_TRUE(rig.promote(change, last).stages.back().already);
    EXPECT_TRUE(rig.engine()->plan(change, last).back().already);
    for (const std::string said : {"other", ""}) {
        std::ofstream(rig.outside() / "state/deployed", std::ios::trunc) << said;
        const auto plan = rig.engine()->plan(change, last).back();
        EXPECT_FALSE(plan.already) << said;
        EXPECT_EQ(plan.conflicts.size(), 1U) << said;
        const Climb climb = rig.promote(change, last);
        EXPECT_FALSE(climb.succeeded()) << said;
        // Going back to nothing, nothing may be there.
        if (said.empty()) continue;
        const auto holds = rig.store().records().stageState(1, last);
        const Error refused = errorOf([&] { rig.engine()->rollBack(*holds.promotion, rig.progress, {}); });
        EXPECT_TRUE(mentions(refused, "nothing was touched")) << refused.what();
        EXPECT_FALSE(rig.store().records().stageState(1, last).stuck);
    }
}

}  // namespace
}  // namespace gradus::test
