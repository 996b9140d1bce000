// The contract of a store, spoken to only through its public methods, so that another implementation can be held to it.
#include <gtest/gtest.h>

#include "store/audit_query.h"
#include "store/audit_verify.h"
#include "store/model/error.h"
#include "tests/support/case.h"
#include "tests/support/error_of.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;
using test::someDigest;
using test::someSubmission;

class StoreContract : public testing::Test {
  protected:
    SampleStore sample;
    Store store = sample.open();
    Climb climb = Climb::begin(store);

    std::int64_t submitOne(const std::string& title = "Fix the login") {
        std::int64_t id = 0;
        store.write([&](Writer& w) { id = w.submit(climb.project, climb.actor, someSubmission(title)); });
        return id;
    }
    std::int64_t openOne() {
        const std::int64_t change = submitOne();
        std::int64_t id = 0;
        store.write([&](Writer& w) {
            id = w.openPromotion({climb.project, change, 1, "staging", someDigest("rules"), std::nullopt}, climb.actor);
        });
        return id;
    }
    AuditVerdict verify() { return verifyAudit(store.sql(), store.anchor()); }
};

TEST_F(StoreContract, GivesBackWhatWasSubmitted) {
    const std::int64_t id = submitOne("Fix the login");
    const auto change = store.records().change(id);
    ASSERT_TRUE(change);
    EXPECT_EQ(change->title, "Fix the login");
    EXPECT_EQ(change->changeSet, someSubmission().changeSet);
    EXPECT_EQ(change->revision, 1);
    EXPECT_EQ(change->submittedAt, sample.clock.now());
    EXPECT_EQ(store.records().latestChange(climb.project), id);
    EXPECT_EQ(store.records().change(id + 1), std::nullopt);
}

TEST_F(StoreContract, ARevisionJoinsTheLineage) {
    const std::int64_t id = submitOne();
    store.write([&](Writer& w) { EXPECT_EQ(w.revise(id, climb.actor, someSubmission("Fix it better")), 2); });
    EXPECT_EQ(store.records().change(id)->revision, 2);
    EXPECT_EQ(store.records().change(id)->changeSet, someSubmission("Fix it better").changeSet);
    EXPECT_THROW(store.write([&](Writer& w) { w.revise(id + 9, climb.actor, someSubmission()); }), Error);
}

TEST_F(StoreContract, AnActorOrProjectIsRegisteredOnce) {
    store.write([&](Writer& w) {
        EXPECT_EQ(w.actor({ActorKind::kAgent, "fixer"}), climb.actor);
        EXPECT_NE(w.actor({ActorKind::kPerson, "fixer"}), climb.actor);
        EXPECT_EQ(w.project({"/srv/shop", 2049, 4711}, climb.actor), climb.project);
        EXPECT_NE(w.project({"/srv/shop", 2049, 4712}, climb.actor), climb.project);
    });
    EXPECT_EQ(store.records().actor(climb.actor)->name, "fixer");
    EXPECT_EQ(store.records().project(climb.project)->path, "/srv/shop");
}

TEST_F(StoreContract, APromotionWalksToItsEndAndKeepsItsChecks) {
    const std::int64_t change = submitOne();
    store.write([&](Writer& w) { climb.stage(w, change, "staging", PromotionState::kRolledBack); });
    const auto promotions = store.records().promotionsOf(change);
    ASSERT_EQ(promotions.size(), 1U);
    EXPECT_EQ(promotions[0].state, PromotionState::kRolledBack);
    const auto checks = store.records().checkResults(promotions[0].id);
    ASSERT_EQ(checks.size(), 1U);
    EXPECT_EQ(checks[0].verdict, Cause::kPassed);
    EXPECT_EQ(checks[0].log, someDigest("log"));
    EXPECT_TRUE(store.records().unfinished(climb.project).empty());
}

TEST_F(StoreContract, EveryStepOutsideTheTableIsRefusedByTheProgramAndByTheDatabase) {
    GRADUS_CASES("I2");
    int refused = 0;
    for (const auto& from : kPromotionStates) {
        for (const auto& to : kPromotionStates) {
            if (isLegal(from.value, to.value)) continue;
            ++refused;
            const std::int64_t id = 1;
            // By the table, not because this one happens to stand elsewhere.
            const auto move = [&](Writer& w) {
                w.movePromotion({id, from.value, to.value, Cause::kProceeded}, climb.actor);
            };
            EXPECT_TRUE(mentions(errorOf([&] { store.write(move); }), "never goes from"))
                << from.word << " to " << to.word;
            Sql scratch;
            scratch.script(
                "create table promotion_edge (from_state text, to_state text); create table promotion (id integer "
                "primary key, state text);");
            auto trigger = store.sql()("select sql from sqlite_schema where name = 'promotion_moves_along_edges'");
            ASSERT_TRUE(trigger.step());
            scratch.script(trigger.text(0));
            for (const Transition& edge : kTransitions)
                scratch.run("insert into promotion_edge values (?, ?)", nameOf(kPromotionStates, edge.from),
                            nameOf(kPromotionStates, edge.to));
            scratch.run("insert into promotion values (1, ?)", from.word);
            EXPECT_THROW(scratch.run("update promotion set state = ? where id = 1", to.word), Error)
                << from.word << " to " << to.word;
        }
    }
    EXPECT_EQ(refused, 15 * 15 - 18);
}

TEST_F(StoreContract, TheDatabasesEdgesAreTheProgramsEdges) {
    std::size_t rows = 0;
    auto edges = store.sql()("select from_state, to_state from promotion_edge");
    for (; edges.step(); ++rows)
        EXPECT_TRUE(isLegal(*fromName(kPromotionStates, edges.view(0)), *fromName(kPromotionStates, edges.view(1))));
    EXPECT_EQ(rows, kTransitions.size());
}

TEST_F(StoreContract, AStepFromAStateThatIsNoLongerTrueChangesNothing) {
    GRADUS_CASES("I2");
    const std::int64_t id = openOne();
    store.write([&](Writer& w) {
        w.movePromotion({id, PromotionState::kQueued, PromotionState::kWaiting}, climb.actor);
    });
    EXPECT_THROW(store.write([&](Writer& w) {
        w.movePromotion({id, PromotionState::kQueued, PromotionState::kWaiting}, climb.actor);
    }),
                 Error);
    EXPECT_EQ(store.records().promotion(id)->state, PromotionState::kWaiting);
}

TEST_F(StoreContract, AFailedTransactionLeavesNothingBehind) {
    const StoreCounts before = store.records().counts();
    EXPECT_THROW(store.write([&](Writer& w) {
        w.submit(climb.project, climb.actor, someSubmission());
        throw Error(ErrorCode::kUsage, "changed my mind");
    }),
                 Error);
    EXPECT_EQ(store.records().counts().events, before.events);
    EXPECT_EQ(store.records().counts().changes, before.changes);
    submitOne();
    EXPECT_EQ(verify().kind, Tampering::kNone);
}

TEST_F(StoreContract, ARefusedStepSpoilsTheTransactionEvenIfTheErrorIsSwallowed) {
    const std::int64_t id = openOne();
    const StoreCounts before = store.records().counts();
    EXPECT_THROW(store.write([&](Writer& w) {
        try {
            w.movePromotion({id, PromotionState::kSoaking, PromotionState::kPromoted}, climb.actor);
        } catch (const Error&) {
        }
    }),
                 Error);
    EXPECT_EQ(store.records().counts().events, before.events);
    EXPECT_EQ(verify().kind, Tampering::kNone);
}

TEST_F(StoreContract, TheLogVerifiesAndTheStateFollowsFromIt) {
    GRADUS_CASES("I13");
    store.write([&](Writer& w) { climb.whole(w, "Fix the login"); });
    const AuditVerdict verdict = verify();
    EXPECT_EQ(verdict.kind, Tampering::kNone) << verdict.detail;
    EXPECT_EQ(verdict.events, store.records().counts().events);
    EXPECT_EQ(verdict.notYetAnchored, 0);
}

TEST_F(StoreContract, RebuildingGivesTheSameState) {
    GRADUS_CASES("I13");
    const std::int64_t change = submitOne();
    store.write([&](Writer& w) {
        climb.stage(w, change, "staging", PromotionState::kRejected);
        w.trustRules(climb.project, climb.actor, someDigest("rules"), someDigest("files"));
    });
    store.rebuild();
    EXPECT_EQ(store.records().change(change)->title, "Fix the login");
    EXPECT_EQ(store.records().promotionsOf(change)[0].state, PromotionState::kRejected);
    const auto trusted = store.records().trustedRules(climb.project);
    EXPECT_TRUE(trusted && trusted->files == someDigest("files"));
    EXPECT_EQ(verify().kind, Tampering::kNone);
}

TEST_F(StoreContract, AnIndexThatIsGoneKeepsNobodyFromRebuildingIt) {
    submitOne();
    store.sql().script("delete from event_index; delete from clock_step");
    EXPECT_EQ(verify().kind, Tampering::kStateMismatch);
    Store again = sample.open();
    again.rebuild();
    EXPECT_EQ(verify().kind, Tampering::kNone);
    EXPECT_EQ(queryEvents(again.sql(), {.kind = EventKind::kChangeSubmitted}).size(), 1U);
}

TEST_F(StoreContract, RedactingTakesTheTextAndNothingElse) {
    GRADUS_CASES("DL10");
    const std::int64_t id = submitOne("my password is hunter2");
    const std::int64_t seq = store.records().counts().events;
    const Promotion before = *store.records().promotion(openOne());
    store.write([&](Writer& w) { w.redact(seq, climb.actor); });
    EXPECT_EQ(store.records().change(id)->title, std::nullopt);
    EXPECT_EQ(store.records().change(id)->changeSet, someSubmission("my password is hunter2").changeSet);
    EXPECT_EQ(store.records().promotion(before.id)->state, before.state);
    EXPECT_EQ(verify().kind, Tampering::kNone);
    EXPECT_EQ(verify().redacted, 1);
    EXPECT_THROW(store.write([&](Writer& w) { w.redact(seq, climb.actor); }), Error);
}

TEST_F(StoreContract, AnAuditRowCannotBeEditedOrDeletedByAnySql) {
    GRADUS_CASES("DL6");
    submitOne();
    EXPECT_THROW(store.sql().run("update event set at = 0 where seq = 2"), Error);
    EXPECT_THROW(store.sql().run("delete from event where seq = 2"), Error);
    EXPECT_THROW(store.sql().run("update payload set text = '' where seq = 2"), Error);
    EXPECT_THROW(store.sql().run("delete from payload where seq = 2"), Error);
    EXPECT_THROW(store.sql().run("replace into event select * from event where seq = 2"), Error);
    EXPECT_EQ(verify().kind, Tampering::kNone);
}

TEST_F(StoreContract, AClockThatGoesBackIsOnTheRecord) {
    GRADUS_CASES("CR10");
    sample.clock.advance(Milliseconds(-86'400'000));
    submitOne();
    const auto events = queryEvents(store.sql(), {.kind = EventKind::kClockWentBack});
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].fields.number("by-ms"), 86'400'000);
    EXPECT_EQ(verify().kind, Tampering::kNone);
}

TEST_F(StoreContract, ManyEventsAreSignedNowAndThen) {
    for (int i = 0; i < 40; ++i) store.write([&](Writer& w) { climb.whole(w, "change " + std::to_string(i)); });
    const AuditVerdict verdict = verify();
    EXPECT_EQ(verdict.kind, Tampering::kNone) << verdict.detail;
    EXPECT_EQ(verdict.signatures, 2);  // one in the database, its copy in the anchor
}

}  // namespace
}  // namespace gradus
