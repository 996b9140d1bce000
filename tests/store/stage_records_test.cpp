// What is remembered about stages, targets and holds: through the store's public methods only.
#include <gtest/gtest.h>

#include "store/adoption_records.h"
#include "store/audit_verify.h"
#include "store/model/checkpoint.h"
#include "store/model/error.h"
#include "tests/support/case.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;
using test::someDigest;
using test::someSubmission;
using S = PromotionState;

class StageRecords : public testing::Test {
  protected:
    SampleStore sample;
    Store store = sample.open();
    Climb climb = Climb::begin(store);
    std::int64_t change = submit();
    std::int64_t revision = 1;

    std::int64_t submit() {
        std::int64_t id = 0;
        store.write([&](Writer& w) { id = w.submit(climb.project, climb.actor, someSubmission()); });
        return id;
    }
    std::int64_t open(const std::optional<std::int64_t>& undoes = {}) {
        std::int64_t id = 0;
        store.write([&](Writer& w) {
            id =
                w.openPromotion({climb.project, change, revision, "staging", someDigest("rules"), undoes}, climb.actor);
            w.movePromotion({id, S::kQueued, S::kWaiting}, climb.actor);
            w.movePromotion({id, S::kWaiting, S::kChecking}, climb.actor);
        });
        return id;
    }
    void move(PromotionStep step) {
        store.write([&](Writer& w) { w.movePromotion(step, climb.actor); });
    }
    void intend(std::int64_t id, const std::optional<Digest>& before = {}) {
        move({.promotion = id,
              .from = S::kChecking,
              .to = S::kApplying,
              .intent = PromotionIntent{"worktree 8:1/2", someDigest("checkpoint"), someDigest("checked"), before}});
    }
    void hold(std::int64_t id, const std::string& tree) {
        move({.promotion = id, .from = S::kApplying, .to = S::kVerifying, .tree = someDigest(tree)});
    }
    void finish(std::int64_t id) {
        move({.promotion = id, .from = S::kVerifying, .to = S::kSoaking});
        move({.promotion = id, .from = S::kSoaking, .to = S::kPromoted});
    }
    std::int64_t promoted(const std::string& tree, const std::optional<Digest>& before = {}) {
        const std::int64_t id = open();
        intend(id, before);
        hold(id, tree);
        finish(id);
        return id;
    }
    StageState stage() const { return store.records().stageState(climb.project, "staging"); }
    void expectWhole() {
        EXPECT_EQ(verifyAudit(store.sql(), store.anchor()).kind, Tampering::kNone);
        const StageState before = stage();
        store.rebuild();
        EXPECT_EQ(stage(), before);
    }
};

TEST_F(StageRecords, AStageHoldsWhatWasPromotedIntoItLast) {
    EXPECT_EQ(stage(), StageState{});
    const std::int64_t first = promoted("one");
    const std::int64_t second = promoted("two", someDigest("one"));
    EXPECT_EQ(stage().promotion, second);
    EXPECT_EQ(stage().tree, someDigest("two"));
    const auto row = store.records().promotion(second);
    EXPECT_EQ(row->previous, first);
    EXPECT_EQ(row->previousTree, someDigest("one"));
    EXPECT_EQ(row->checkpoint, someDigest("checkpoint"));
    EXPECT_EQ(row->tree, someDigest("checked"));
    expectWhole();
}

TEST_F(StageRecords, ARollbackBringsBackWhatTheStageHeld) {
    const std::int64_t first = promoted("one");
    const std::int64_t second = open();
    intend(second, someDigest("one"));
    hold(second, "two");
    move({.promotion = second, .from = S::kVerifying, .to = S::kRollingBack, .cause = Cause::kFailed});
    move(
        {.promotion = second, .from = S::kRollingBack, .to = S::kRolledBack, .reason = "health said no", .back = true});
    EXPECT_EQ(stage().promotion, first);
    EXPECT_EQ(stage().tree, someDigest("one"));
    EXPECT_EQ(store.records().lastReason(second), "health said no");
    expectWhole();
}

TEST_F(StageRecords, TheFirstRollbackGoesBackToNothing) {
    const std::int64_t first = open();
    intend(first);
    hold(first, "one");
    move({.promotion = first, .from = S::kVerifying, .to = S::kRollingBack});
    move({.promotion = first, .from = S::kRollingBack, .to = S::kRolledBack, .back = true});
    EXPECT_EQ(stage(), StageState{});
    expectWhole();
}

TEST_F(StageRecords, AnUndoBringsBackWhatWasThereBeforeTheUndone) {
    const std::int64_t first = promoted("one");
    const std::int64_t second = promoted("two", someDigest("one"));
    const std::int64_t undo = open(second);
    intend(undo, someDigest("two"));
    move({.promotion = undo, .from = S::kApplying, .to = S::kVerifying, .back = true});
    finish(undo);
    EXPECT_EQ(stage().promotion, first);
    EXPECT_EQ(stage().tree, someDigest("one"));
    expectWhole();
}

// One owner at a time, and the fence only grows.
TEST_F(StageRecords, ATargetHasOnePromotionAtWork) {
    GRADUS_CASES("I3");
    const std::int64_t first = open();
    const std::int64_t second = open();
    intend(first);
    EXPECT_EQ(store.records().atWorkOn("worktree 8:1/2"), first);
    EXPECT_THROW(intend(second), Error);
    EXPECT_EQ(store.records().promotion(second)->state, S::kChecking);
    hold(first, "one");
    finish(first);
    EXPECT_EQ(store.records().atWorkOn("worktree 8:1/2"), std::nullopt);
    intend(second, someDigest("one"));
    EXPECT_EQ(store.records().atWorkOn("worktree 8:1/2"), second);
    EXPECT_EQ(store.sql().number("select fence from target"), 2);
    expectWhole();
}

TEST_F(StageRecords, AStuckStageStaysClosedUntilItIsAdopted) {
    const std::int64_t first = open();
    intend(first);
    move({.promotion = first, .from = S::kApplying, .to = S::kRollingBack});
    move({.promotion = first, .from = S::kRollingBack, .to = S::kStuck});
    EXPECT_EQ(stage().stuck, first);
    EXPECT_EQ(store.records().takeable(climb.project, "staging").size(), 1U);
    store.write([&](Writer& w) {
        recordAdoption(w, {.project = climb.project, .stage = "staging", .tree = someDigest("as it is")}, climb.actor);
    });
    EXPECT_EQ(stage(), (StageState{std::nullopt, someDigest("as it is"), std::nullopt, std::nullopt}));
    expectWhole();
}

TEST_F(StageRecords, WhatWentBackTakesNoPlaceFromWhatCanBeTakenBack) {
    const std::int64_t first = promoted("one");
    const std::int64_t second = promoted("two", someDigest("one"));
    for (int i = 0; i < 25; ++i) {
        const std::int64_t failed = open();
        intend(failed, someDigest("two"));
        move({.promotion = failed, .from = S::kApplying, .to = S::kRollingBack, .cause = Cause::kFailed});
        move({.promotion = failed, .from = S::kRollingBack, .to = S::kRolledBack, .back = true});
    }
    const auto ids = [&] {
        std::vector<std::int64_t> all;
        for (const Promotion& promotion : store.records().takeable(climb.project, "staging"))
            all.push_back(promotion.id);
        return all;
    };
    EXPECT_EQ(ids(), (std::vector{first, second}));
    const std::int64_t undo = open(second);
    intend(undo, someDigest("two"));
    EXPECT_EQ(ids(), (std::vector{first, second, undo}));
    move({.promotion = undo, .from = S::kApplying, .to = S::kVerifying, .back = true});
    finish(undo);
    EXPECT_EQ(ids(), std::vector{first});
    EXPECT_EQ(store.records().checkpoints(), std::vector{someDigest("checkpoint")});
}

TEST_F(StageRecords, ACheckKeepsItsPhaseItsExecutionAndItsReason) {
    const std::int64_t id = open();
    store.write([&](Writer& w) {
        w.recordCheck({.promotion = id,
                       .check = "health",
                       .verdict = Cause::kFailed,
                       .evidence = someDigest("evidence"),
                       .wallMs = 15,
                       .phase = CheckPhase::kAfter,
                       .reason = "status 500"},
                      climb.actor);
    });
    const auto results = store.records().checkResults(id);
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].phase, CheckPhase::kAfter);
    EXPECT_EQ(results[0].reason, "status 500");
    EXPECT_EQ(results[0].execution, std::nullopt);
}

TEST_F(StageRecords, ARevisionIsStillKnownWhenANewerOneCame) {
    store.write([&](Writer& w) { w.revise(change, climb.actor, someSubmission("Fix it better")); });
    EXPECT_EQ(store.records().change(change, 1)->changeSet, someSubmission().changeSet);
    EXPECT_EQ(store.records().change(change, 2)->title, "Fix it better");
    EXPECT_EQ(store.records().change(change, 3), std::nullopt);
}

TEST_F(StageRecords, WhatMachinesSpentIsCountedFromAMomentOn) {
    GRADUS_CASES("I11");
    const auto spent = [&](Time since, std::int64_t most = 100) {
        return store.records().spentByMachines(climb.project, "staging", Records::Spent::kPromotions, since, most);
    };
    const auto rollbacks = [&](Time since) {
        return store.records().spentByMachines(climb.project, "staging", Records::Spent::kRollbacks, since, 100);
    };
    const Time begin = sample.clock.now();
    sample.clock.advance(Milliseconds(1000));
    const std::int64_t first = promoted("one");
    const Time firstEnd = sample.clock.now();
    sample.clock.advance(Milliseconds(1000));
    promoted("two");
    const Time secondEnd = sample.clock.now();
    EXPECT_EQ(spent(begin), (std::vector{secondEnd, firstEnd}));
    EXPECT_EQ(spent(begin, 1), std::vector{secondEnd});
    EXPECT_EQ(spent(firstEnd), std::vector{secondEnd});
    EXPECT_EQ(rollbacks(begin), std::vector<Time>{});

    sample.clock.advance(Milliseconds(1000));
    const std::int64_t undo = open(first);
    intend(undo);
    hold(undo, "nothing");
    finish(undo);
    EXPECT_EQ(spent(begin).size(), 2) << "what was taken back was spent all the same";
    EXPECT_EQ(rollbacks(begin), std::vector{sample.clock.now()});
    EXPECT_EQ(rollbacks(sample.clock.now()), std::vector<Time>{});
    EXPECT_TRUE(
        store.records().spentByMachines(climb.project, "production", Records::Spent::kPromotions, begin, 100).empty());
    expectWhole();
    EXPECT_EQ(spent(begin).size(), 2);
}

TEST_F(StageRecords, WhatAMachineHadAHandInIsItsOwn) {
    GRADUS_CASES("I11");
    const ActorId agent = climb.actor;
    ActorId person = 0;
    store.write([&](Writer& w) { person = w.actor({ActorKind::kPerson, "ana"}); });
    const Time begin = sample.clock.now();
    sample.clock.advance(Milliseconds(1000));
    const auto spent = [&] {
        return store.records()
            .spentByMachines(climb.project, "staging", Records::Spent::kPromotions, begin, 100)
            .size();
    };
    climb.actor = person;
    change = submit();
    promoted("made and promoted by a person");
    EXPECT_EQ(spent(), 0);
    climb.actor = agent;
    promoted("made by a person, promoted by an agent");
    EXPECT_EQ(spent(), 1);
    Submission merged = someSubmission("Merged");
    merged.patch = someSubmission().patch;
    store.write([&](Writer& w) { w.revise(change, agent, merged); });
    revision = 2;
    climb.actor = person;
    promoted("and merged by one: the patch is the same");
    EXPECT_EQ(spent(), 1);
    store.write([&](Writer& w) { w.revise(change, agent, someSubmission("Another patch")); });
    revision = 3;
    promoted("and patched by one");
    EXPECT_EQ(spent(), 2);
}

TEST_F(StageRecords, HowFarAPromotionIsWantedIsKept) {
    std::int64_t id = 0;
    ActorId other = 0;
    store.write([&](Writer& w) {
        id = w.openPromotion({.project = climb.project,
                              .change = change,
                              .stage = "staging",
                              .rules = someDigest("rules"),
                              .undoes = std::nullopt,
                              .goal = "production"},
                             climb.actor);
        w.movePromotion({id, S::kQueued, S::kWaiting}, climb.actor);
        other = w.actor({ActorKind::kPerson, "carl"});
    });
    EXPECT_EQ(store.records().promotion(id)->goal, "production");
    const auto mover = store.records().movedBy(id);
    store.write([&](Writer& w) { w.aimPromotion(id, "staging", other); });
    EXPECT_EQ(store.records().promotion(id)->goal, "staging");
    EXPECT_EQ(store.records().movedBy(id), mover) << "to want something is not to move it";
    expectWhole();
    EXPECT_EQ(store.records().promotion(id)->goal, "staging");
}

// A database of the schema before goals.
TEST_F(StageRecords, WhatWaitedBeforeGoalsWereKeptHasNone) {
    const std::int64_t id = open();
    store.sql().script(
        "drop index project_by_key; alter table project drop column key; alter table project drop column path_seq; "
        "drop table maker; drop table sandbox_worker; alter table promotion drop column paths; drop index "
        "promotion_by_end; drop index promotion_line; drop index "
        "promotion_active; alter table promotion "
        "drop "
        "column place; alter table promotion drop column goal; pragma user_version = 13");
    { const Store gone = std::move(store); }
    store = sample.open();
    ASSERT_TRUE(store.records().promotion(id));
    EXPECT_EQ(store.records().promotion(id)->goal, std::nullopt);
    EXPECT_EQ(store.check(), std::vector<std::string>{});
    expectWhole();
}

TEST_F(StageRecords, CheckpointsAreKeptWhileTheyMayBeGoneBackTo) {
    promoted("one");
    EXPECT_EQ(store.records().checkpoints(), std::vector{someDigest("checkpoint")});
    const Checkpoint checkpoint{"words", {someDigest("a"), someDigest("b")}};
    EXPECT_EQ(Checkpoint::decode(checkpoint.encode()), checkpoint);
    EXPECT_THROW(Checkpoint::decode(checkpoint.encode() + "x"), Error);
}

}  // namespace
}  // namespace gradus
