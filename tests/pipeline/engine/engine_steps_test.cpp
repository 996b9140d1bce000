// Steps around the switch: in order, in reverse, on a person's word, and never past what cannot be taken back.
#include <gtest/gtest.h>

#include "store/model/error.h"
#include "tests/pipeline/engine/steps_world.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using S = PromotionState;

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += (text.empty() ? "" : ", ") + line;
    return text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class EngineSteps : public testing::Test {
  protected:
    EngineSteps() {
        build(rig.project(), sampleBefore());
        EXPECT_TRUE(rig.promote(rig.submit(with(sampleBefore(), "first"))).succeeded());
        before = *rig.productionTree();
    }
    static Tree with(Tree tree, const std::string& name) {
        tree[name] = file(name);
        return tree;
    }
    std::int64_t second() { return rig.submit(with(with(sampleBefore(), "first"), "second")); }
    void sick() {
        rig.answers.after = [](const std::string& stage) {
            return stage == "production" ? Cause::kFailed : Cause::kPassed;
        };
    }
    StageReport promoted(std::int64_t change, const PromoteWish& wish = {}) {
        return rig.engine()->promote(change, "production", rig.progress, {}, wish).stages.back();
    }
    StageReport rollBack(std::int64_t promotion, const UndoWish& wish = {}) {
        return rig.engine()->rollBack(promotion, rig.progress, {}, wish);
    }
    std::string why(const std::function<void()>& call) {
        try {
            call();
        } catch (const Error& e) {
            return std::string(e.what()) + " | " + e.hint();
        }
        return "";
    }
    std::vector<std::string> states(const StageReport& report) {
        std::vector<std::string> all;
        for (const StepRecord& step : report.steps)
            all.push_back(fmt::format("{} {}", step.name, nameOf(kStepStates, step.state)));
        return all;
    }
    bool isAsBefore() { return difference(*rig.productionTree(), before).empty(); }

    static PromoteWish consent() { return {.overrides = {{Gate::kSteps, "a backup was made"}}}; }

    EngineRig rig;
    StepsWorld world{rig};
    Tree before;
};

TEST_F(EngineSteps, RunInOrderAroundTheSwitch) {
    rig.moreRules =
        world.step("a", world.undo()) + world.step("b", "") + world.step("c", world.undo() + "when = \"after-switch\"");
    const StageReport report = promoted(second());
    EXPECT_TRUE(report.succeeded());
    EXPECT_EQ(joined(world.diary()), "run a old, run b old, run c new");
    EXPECT_EQ(joined(states(report)), "a done, b done, c done");
    rig.expectWhole();
}

TEST_F(EngineSteps, AFailureUndoesThemInReverseWithTheSwitchInItsPlace) {
    GRADUS_CASES("I5");
    rig.moreRules = world.step("a", world.undo()) + world.step("b", world.undo()) +
                    world.step("c", world.undo() + "when = \"after-switch\"");
    sick();
    const StageReport report = promoted(second());
    EXPECT_EQ(report.promotion.state, S::kRolledBack);
    EXPECT_EQ(joined(world.diary()), "run a old, run b old, run c new, undo c new, undo b old, undo a old");
    EXPECT_EQ(joined(states(report)), "a undone, b undone, c undone");
    EXPECT_TRUE(isAsBefore());
}

TEST_F(EngineSteps, OneThatFailsIsUndoneAsWellForItMayHaveDoneHalf) {
    rig.moreRules = world.step("a", world.undo()) + world.step("b", world.undo()) + world.step("c", world.undo());
    world.fail("run", "b");
    const StageReport report = promoted(second());
    EXPECT_EQ(report.promotion.state, S::kRolledBack);
    EXPECT_EQ(report.promotion.cause, Cause::kFailed);
    EXPECT_EQ(joined(world.diary()), "run a old, run b old, undo b old, undo a old");
    EXPECT_TRUE(has(report.reason, "step 'b': exit code 1"));
    EXPECT_TRUE(isAsBefore());
}

TEST_F(EngineSteps, OneThatCannotBeStartedHasNothingToUndo) {
    rig.moreRules = world.step("a", world.undo()) +
                    "[[stage.production.step]]\nname = \"b\"\nrun = [\"/nowhere/at/all\"]\n" + world.undo();
    const StageReport report = promoted(second());
    EXPECT_EQ(report.promotion.state, S::kRolledBack);
    EXPECT_EQ(report.promotion.cause, Cause::kErrored);
    EXPECT_EQ(joined(world.diary()), "run a old, undo a old");
    EXPECT_EQ(joined(states(report)), "a undone, b not-run");
}

TEST_F(EngineSteps, OneThatIsEndedByItsTimeoutHasNotSucceededWhateverItSays) {
    rig.moreRules = world.step("a", world.undo()) +
                    "[[stage.production.step]]\nname = \"b\"\ntimeout = \"200ms\"\n"
                    "run = [\"sh\", \"-c\", \"trap 'exit 0' TERM; while :; do sleep 0.01; done\"]\n" +
                    world.undo();
    const StageReport report = promoted(second());
    EXPECT_EQ(report.promotion.state, S::kRolledBack);
    EXPECT_EQ(report.promotion.cause, Cause::kTimedOut);
    EXPECT_EQ(joined(world.diary()), "run a old, undo b old, undo a old");
    EXPECT_TRUE(isAsBefore());
}

TEST_F(EngineSteps, OneThatWasStoppedBeforeItBeganHasNothingToUndo) {
    rig.moreRules = world.step("a", world.undo()) + world.step("b", world.undo());
    std::stop_source stop;
    rig.progress.stepped = [&](const StepRecord& step) {
        if (step.name == "b" && step.state == StepState::kRunning) stop.request_stop();
    };
    const StageReport report =
        rig.engine()->promote(second(), "production", rig.progress, stop.get_token()).stages.back();
    EXPECT_EQ(report.promotion.state, S::kRolledBack);
    EXPECT_EQ(report.promotion.cause, Cause::kCancelled);
    EXPECT_EQ(joined(world.diary()), "run a old, undo a old");
    EXPECT_EQ(joined(states(report)), "a undone, b not-run");
}

TEST_F(EngineSteps, AWishToStopPastAnIrreversibleOneLeavesItForARecoveryToGoOn) {
    rig.moreRules = world.step("migrate", "irreversible = true") + world.step("b", world.undo()) +
                    world.step("c", world.undo() + "when = \"after-switch\"");
    const std::int64_t change = second();
    std::stop_source stop;
    rig.progress.stepped = [&](const StepRecord& step) {
        if (step.name == "b" && step.state == StepState::kRunning) stop.request_stop();
    };
    const StageReport stopped =
        rig.engine()->promote(change, "production", rig.progress, stop.get_token(), consent()).stages.back();
    EXPECT_EQ(stopped.promotion.state, S::kApplying);
    EXPECT_TRUE(has(stopped.reason, "`gradus recover` goes on with it")) << stopped.reason;
    EXPECT_EQ(joined(states(stopped)), "migrate done, b done") << "what has begun is not stopped half-way";
    rig.progress = {};
    const auto recovered = rig.engine()->recover(rig.progress, {});
    ASSERT_EQ(recovered.size(), 1U);
    EXPECT_TRUE(recovered.front().report.succeeded()) << recovered.front().report.reason;
    EXPECT_EQ(world.count("run migrate"), 1U);
    EXPECT_EQ(world.count("run c"), 1U);
    rig.expectWhole();
}

TEST_F(EngineSteps, TakingAFinishedPromotionBackUndoesThemAsTheyWereMeantThen) {
    rig.moreRules = world.step("a", world.undo()) + world.step("b", world.undo() + "when = \"after-switch\"");
    const StageReport report = promoted(second());
    ASSERT_TRUE(report.succeeded());
    rig.moreRules = world.step("other", "");
    const StageReport back = rollBack(report.promotion.id);
    EXPECT_TRUE(back.succeeded());
    EXPECT_EQ(joined(world.diary()), "run a old, run b new, undo b new, undo a old");
    EXPECT_EQ(joined(states(back)), "a undone, b undone");
    EXPECT_TRUE(isAsBefore());
    rig.expectWhole();
}

TEST_F(EngineSteps, AreToldByVariablesAndAFileAndNeverByTheirWords) {
    const auto seen = rig.outside() / "seen.json";
    rig.moreRules = fmt::format(
        "[[stage.production.step]]\nname = \"tell\"\nrun = [\"sh\", \"-c\", 'cat $GRADUS_REQUEST > {0}; echo "
        "$GRADUS_STAGE $GRADUS_PROMOTION $GRADUS_CHANGE $GRADUS_ACTION; test -d \"$GRADUS_TREE\"']\n",
        seen.native());
    const StageReport report = promoted(second());
    ASSERT_TRUE(report.succeeded()) << report.reason;
    const std::string request = readSmallFile(seen, 1U << 20, "the request");
    EXPECT_TRUE(has(request, "\"schema\": \"gradus.v1/step-request\""));
    EXPECT_TRUE(has(request, "\"path\": \"second\""));
    const StepRecord step = report.steps.front();
    const std::string said = rig.objects().readAll(*step.log, 1U << 20);
    EXPECT_EQ(said, fmt::format("production p{} c{}.1 run\n", report.promotion.id, report.promotion.change));
    EXPECT_FALSE(std::filesystem::exists(rig.outside() / "state/steps" / fmt::format("p{}.json", report.promotion.id)));
}

TEST_F(EngineSteps, AnIrreversibleOneWaitsForAPersonsWord) {
    GRADUS_CASES("I21");
    rig.moreRules = world.step("migrate", "irreversible = true");
    const std::int64_t change = second();
    const StageReport waiting = promoted(change);
    EXPECT_EQ(waiting.promotion.state, S::kWaiting);
    EXPECT_TRUE(waiting.gates->at(Gate::kSteps).ask) << waiting.reason;
    EXPECT_TRUE(has(waiting.gates->at(Gate::kSteps).reason, "what migrate does cannot be taken back"));
    EXPECT_TRUE(world.diary().empty());
    const StageReport through = promoted(change, consent());
    EXPECT_TRUE(through.succeeded()) << through.reason;
    EXPECT_EQ(joined(world.diary()), "run migrate old");
}

TEST_F(EngineSteps, AMachinesWordIsNoConsentButAnApprovalIs) {
    rig.moreRules = world.step("migrate", "irreversible = true");
    rig.actor = {ActorKind::kAgent, "fixer"};
    const std::int64_t change = rig.submit(with(with(sampleBefore(), "first"), "second"), rig.actor);
    const StageReport refused = promoted(change, consent());
    ASSERT_TRUE(refused.fault);
    EXPECT_TRUE(has(refused.fault->what(), "only a person consents"));
    EXPECT_EQ(promoted(change).promotion.state, S::kWaiting);
    rig.actor = {ActorKind::kPerson, "bob"};
    rig.engine()->approve(change, "production", "looked at it", false);
    rig.actor = {ActorKind::kAgent, "fixer"};
    EXPECT_TRUE(promoted(change).succeeded());
    EXPECT_EQ(world.count("run migrate"), 1U);
}

TEST_F(EngineSteps, NothingGoesBackPastAnIrreversibleOneByItself) {
    GRADUS_CASES("CR15");
    rig.moreRules = world.step("a", world.undo()) + world.step("migrate", "irreversible = true");
    sick();
    const StageReport report = promoted(second(), consent());
    EXPECT_EQ(report.promotion.state, S::kStuck);
    EXPECT_TRUE(has(report.reason, "what step 'migrate' did cannot be undone"));
    EXPECT_EQ(joined(world.diary()), "run a old, run migrate old");
    EXPECT_FALSE(isAsBefore());
    const std::string refused = why([&] { rollBack(report.promotion.id); });
    EXPECT_TRUE(has(refused, "cannot be undone, so it is not taken back"));
    EXPECT_TRUE(has(refused, "--insist"));

    rig.answers.after = [](const std::string&) { return Cause::kPassed; };
    const StageReport back = rollBack(report.promotion.id, {.insist = "the data was restored from a backup"});
    EXPECT_TRUE(back.succeeded()) << back.reason;
    EXPECT_EQ(joined(world.diary()), "run a old, run migrate old, undo a old");
    EXPECT_TRUE(isAsBefore());
    EXPECT_EQ(joined(states(back)), "a undone, migrate done");
    rig.expectWhole();
}

TEST_F(EngineSteps, WhatAnIrreversibleOneLeftCanBeTakenAsItIsAndMendedForward) {
    rig.moreRules = world.step("migrate", "irreversible = true");
    sick();
    ASSERT_EQ(promoted(second(), consent()).promotion.state, S::kStuck);
    rig.answers.after = [](const std::string&) { return Cause::kPassed; };
    rig.engine()->adopt("production");
    rig.moreRules.clear();
    const std::int64_t mend = rig.submit(with(with(with(sampleBefore(), "first"), "second"), "mend"));
    EXPECT_TRUE(promoted(mend).succeeded());
    EXPECT_TRUE(rig.productionTree()->contains("second"));
    EXPECT_TRUE(rig.productionTree()->contains("mend"));
}

TEST_F(EngineSteps, AFinishedPromotionWithAnIrreversibleOneIsTakenBackOnlyByAPersonWhoInsists) {
    rig.moreRules = world.step("migrate", "irreversible = true");
    const StageReport report = promoted(second(), consent());
    ASSERT_TRUE(report.succeeded());
    EXPECT_NE(why([&] { rollBack(report.promotion.id); }), "");
    rig.actor = {ActorKind::kDaemon, "gradus"};
    EXPECT_TRUE(has(why([&] { rollBack(report.promotion.id, {.insist = "why not"}); }), "that takes a person"));
    rig.actor = {ActorKind::kPerson, "ada"};
    const StageReport back = rollBack(report.promotion.id, {.insist = "no data was written yet"});
    EXPECT_TRUE(back.succeeded());
    EXPECT_TRUE(isAsBefore());
}

TEST_F(EngineSteps, AnUndoThatFailsEndsInStuckAndLeavesWhatCameBeforeAlone) {
    rig.moreRules = world.step("a", world.undo() + "idempotence = \"yes\"") +
                    world.step("b", world.undo() + "idempotence = \"yes\"\nwhen = \"after-switch\"");
    sick();
    world.fail("undo", "b");
    const StageReport report = promoted(second());
    EXPECT_EQ(report.promotion.state, S::kStuck);
    EXPECT_TRUE(has(report.reason, "step 'b' could not be undone: exit code 1"));
    EXPECT_EQ(joined(world.diary()), "run a old, run b new, undo b new");
    EXPECT_FALSE(isAsBefore());
    world.mend("undo", "b");
    rig.answers.after = [](const std::string&) { return Cause::kPassed; };
    EXPECT_TRUE(rollBack(report.promotion.id).succeeded());
    EXPECT_TRUE(isAsBefore());
    EXPECT_EQ(world.count("undo a"), 1U);
}

TEST_F(EngineSteps, AnUndoOfWhatIsNotRunTwiceIsTriedAgainOnlyOnAPersonsWord) {
    rig.moreRules = world.step("a", world.undo());
    sick();
    world.fail("undo", "a");
    const StageReport report = promoted(second());
    ASSERT_EQ(report.promotion.state, S::kStuck);
    world.mend("undo", "a");
    EXPECT_TRUE(has(why([&] { rollBack(report.promotion.id); }), "--not-done a"));
    EXPECT_EQ(world.count("undo a"), 1U);
    rig.answers.after = [](const std::string&) { return Cause::kPassed; };
    EXPECT_TRUE(rollBack(report.promotion.id, {.insist = {}, .words = {{"a", true}}}).succeeded());
    EXPECT_EQ(world.count("undo a"), 2U);
    EXPECT_TRUE(isAsBefore());
}

TEST_F(EngineSteps, WhetherItCanBeTakenBackIsToldBeforeAnybodyTries) {
    rig.moreRules = world.step("migrate", "irreversible = true");
    const StageReport report = promoted(second(), consent());
    ASSERT_TRUE(report.succeeded());
    const Promotion promotion = report.promotion;
    EXPECT_EQ(why([&] { rig.engine()->requireTakeable(promotion); }), why([&] { rollBack(promotion.id); }));
    EXPECT_NE(why([&] { rig.engine()->requireTakeable(promotion); }), "");
    EXPECT_EQ(why([&] { rig.engine()->requireTakeable(promotion, {.insist = "so be it"}); }), "");
}

TEST_F(EngineSteps, AnUndoThatSaidNoIsNotCalledUnknown) {
    rig.moreRules = world.step("a", world.undo());
    sick();
    world.fail("undo", "a");
    const StageReport report = promoted(second());
    const std::string refused = why([&] { rollBack(report.promotion.id); });
    EXPECT_TRUE(has(refused, "the undo of step 'a' of")) << refused;
    EXPECT_TRUE(has(refused, "said no")) << refused;
    EXPECT_FALSE(has(refused, "nobody knows")) << refused;
}

TEST_F(EngineSteps, ConsentIsToTheStepsThatItWasGivenFor) {
    const std::string shut = "[[window]]\nstages = [\"production\"]\nallow = { cron = \"0 0 1 1 *\", for = \"1m\" }\n";
    rig.moreRules = world.step("mails", "irreversible = true") + shut;
    const std::int64_t change = second();
    const StageReport waiting = promoted(change, consent());
    ASSERT_EQ(waiting.promotion.state, S::kWaiting);
    EXPECT_EQ(waiting.gates->at(Gate::kSteps).state, GateState::kOpen) << waiting.reason;
    rig.moreRules = world.step("mails", "irreversible = true") + world.step("drop-table", "irreversible = true");
    const StageReport asked = promoted(change);
    EXPECT_EQ(asked.promotion.state, S::kWaiting);
    EXPECT_EQ(asked.gates->at(Gate::kSteps).state, GateState::kClosed) << asked.reason;
    EXPECT_TRUE(world.diary().empty());
    EXPECT_TRUE(promoted(change, consent()).succeeded());
}

TEST_F(EngineSteps, NothingElseIsTakenOutOfAStageThatIsStuck) {
    rig.moreRules = world.step("a", world.undo() + "when = \"after-switch\"");
    const StageReport held = promoted(second());
    ASSERT_TRUE(held.succeeded());
    rig.moreRules = world.step("migrate", "irreversible = true") + world.step("b", world.undo());
    world.fail("run", "b");
    const std::int64_t third = rig.submitChanges(changesBetween({}, {{"third", file("third")}}, rig.objects()));
    const StageReport stuck = promoted(third, consent());
    ASSERT_EQ(stuck.promotion.state, S::kStuck);
    const std::string refused = why([&] { rollBack(held.promotion.id); });
    EXPECT_TRUE(has(refused, fmt::format("first gradus rollback p{}", stuck.promotion.id))) << refused;
    EXPECT_EQ(world.count("undo a"), 0U);
    EXPECT_TRUE(rollBack(stuck.promotion.id, {.insist = "restored from a backup"}).succeeded());
    EXPECT_TRUE(rollBack(held.promotion.id).succeeded());
    EXPECT_EQ(world.count("undo a"), 1U);
    EXPECT_TRUE(isAsBefore());
    rig.expectWhole();
}

TEST_F(EngineSteps, AMonitorLeavesAStageAloneThatIsStuck) {
    rig.monitor = std::chrono::hours(24);
    rig.moreRules = world.step("a", world.undo() + "when = \"after-switch\"");
    ASSERT_TRUE(promoted(second()).succeeded());
    rig.moreRules = world.step("migrate", "irreversible = true") + world.step("b", world.undo());
    world.fail("run", "b");
    const std::int64_t third = rig.submitChanges(changesBetween({}, {{"third", file("third")}}, rig.objects()));
    const StageReport stuck = promoted(third, consent());
    ASSERT_EQ(stuck.promotion.state, S::kStuck);
    rig.clock().advance(std::chrono::hours(1));
    sick();
    EXPECT_TRUE(rig.engine()->lookWhereDue(rig.progress, {}).takenBack.empty());
    EXPECT_EQ(world.count("undo a"), 0U);
    EXPECT_EQ(rig.promotions().back().id, stuck.promotion.id);
}

TEST_F(EngineSteps, AMonitorThatMayNotTakeBackSaysSoOnce) {
    rig.monitor = std::chrono::hours(24);
    rig.moreRules = world.step("migrate", "irreversible = true");
    const StageReport report = promoted(second(), consent());
    ASSERT_TRUE(report.succeeded());
    int looks = 0;
    rig.answers.after = [&](const std::string& stage) {
        if (stage == "production") ++looks;
        return Cause::kFailed;
    };
    const MonitorReport seen = rig.engine()->monitor({}, rig.progress, {});
    EXPECT_EQ(looks, 1);
    EXPECT_TRUE(seen.takenBack.empty());
    ASSERT_EQ(seen.stages.size(), 1U);
    EXPECT_TRUE(has(seen.stages.front().note, "cannot be undone")) << seen.stages.front().note;
    const auto holds = rig.store().records().words().holds(1);
    ASSERT_EQ(holds.size(), 1U);
    EXPECT_EQ(holds.front().promotion, report.promotion.id);
}

TEST_F(EngineSteps, GoingBackAsksNoGateAboutThem) {
    GRADUS_CASES("I17");
    rig.moreRules = world.step("a", world.undo());
    const StageReport report = promoted(second());
    ASSERT_TRUE(report.succeeded());
    rig.moreRules += "[[window]]\nstages = [\"production\"]\nallow = { cron = \"0 0 1 1 *\", for = \"1m\" }\n";
    rig.productionPolicy = "approvals = [{ count = 2 }]";
    EXPECT_TRUE(rollBack(report.promotion.id).succeeded());
    EXPECT_EQ(world.count("undo a"), 1U);
}

}  // namespace
}  // namespace gradus::test
