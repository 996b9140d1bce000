// What people said: through the store's public methods only, but for the tests that edit the tables behind its back.
#include <gtest/gtest.h>

#include "store/audit_verify.h"
#include "store/model/error.h"
#include "store/word_writer.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;
using test::someDigest;
using test::someSubmission;
using S = PromotionState;

class WordRecordsTest : public testing::Test {
  protected:
    SampleStore sample;
    Store store = sample.open();
    Climb climb = Climb::begin(store);
    std::int64_t change = submit("Fix the login");
    ActorId ben = person("ben");

    ActorId person(const std::string& name) {
        ActorId id = 0;
        store.write([&](Writer& w) { id = w.actor({ActorKind::kPerson, name}); });
        return id;
    }
    std::int64_t submit(const std::string& title) {
        std::int64_t id = 0;
        store.write([&](Writer& w) { id = w.submit(climb.project, climb.actor, someSubmission(title)); });
        return id;
    }
    std::int64_t open() {
        std::int64_t id = 0;
        store.write([&](Writer& w) {
            id = w.openPromotion({climb.project, change, 1, "staging", someDigest("rules"), {}}, climb.actor);
            w.movePromotion({id, S::kQueued, S::kWaiting}, climb.actor);
        });
        return id;
    }
    void say(const std::function<void(WordWriter&)>& what) {
        store.write([&](Writer& w) {
            WordWriter words(w, ben, 1000);
            what(words);
        });
    }
    Approval draft() const {
        Approval approval;
        approval.project = climb.project;
        approval.change = change;
        approval.stage = "staging";
        approval.rules = someDigest("rules");
        approval.base = someDigest("tree");
        approval.evidence = someDigest("proof");
        approval.roles = {"ops", "sre"};
        approval.reason = "looks right";
        return approval;
    }
    Approval approved() {
        std::int64_t id = 0;
        say([&](WordWriter& w) { id = w.approve(draft()); });
        return store.records().words().approval(id).value();
    }
    WordRecords words() const { return store.records().words(); }
    /// The log verifies, the tables follow from it, and still do once they were made anew.
    void expectWhole() {
        EXPECT_EQ(verifyAudit(store.sql(), store.anchor()).detail, "");
        store.rebuild();
        EXPECT_EQ(verifyAudit(store.sql(), store.anchor()).kind, Tampering::kNone);
    }
    void expectMismatch(const std::string& edit) {
        store.sql().script("pragma foreign_keys = off; pragma ignore_check_constraints = on");
        store.sql().script(edit);
        EXPECT_EQ(verifyAudit(store.sql(), store.anchor()).kind, Tampering::kStateMismatch) << edit;
        store.rebuild();
    }
    /// One of each kind.
    void sayEverything() {
        const std::int64_t promotion = open();
        const Approval used = approved();
        approved();
        say([&](WordWriter& w) {
            w.use(used, promotion);
            w.hold({.project = climb.project, .stage = "production", .reason = "an audit"});
            w.pin({.project = climb.project, .stage = "staging", .change = change, .revision = 1});
            w.veto({.project = climb.project,
                    .change = change,
                    .changeSet = someDigest("set"),
                    .patch = someDigest("patch"),
                    .reason = "never"});
            w.halt(climb.project, "fire");
            w.overrideGate({.promotion = promotion, .gate = "window", .roles = {"override"}, .reason = "fire"});
        });
    }
};

TEST_F(WordRecordsTest, AnApprovalKeepsAllThatItIsBoundTo) {
    const Approval given = approved();
    EXPECT_EQ(given.by, ben);
    EXPECT_EQ(given.at, sample.clock.now());
    EXPECT_EQ(given.rules, someDigest("rules"));
    EXPECT_EQ(given.base, someDigest("tree"));
    EXPECT_EQ(given.evidence, someDigest("proof"));
    EXPECT_EQ(given.roles, (std::vector<std::string>{"ops", "sre"}));
    EXPECT_EQ(given.reason, "looks right");
    EXPECT_EQ(given.usedBy, std::nullopt);
    EXPECT_EQ(words().approvals(change, "staging").size(), 1U);
    EXPECT_TRUE(words().approvals(change, "production").empty());
    expectWhole();
}

TEST_F(WordRecordsTest, AnEarlyApprovalHasNoEvidence) {
    say([&](WordWriter& w) {
        Approval early = draft();
        early.evidence.reset();
        w.approve(early);
    });
    EXPECT_EQ(words().approvals(change, "staging").front().evidence, std::nullopt);
    expectWhole();
}

// I9
TEST_F(WordRecordsTest, AnApprovalIsUsedOnce) {
    const std::int64_t first = open();
    const std::int64_t second = open();
    const Approval given = approved();
    say([&](WordWriter& w) { w.use(given, first); });
    EXPECT_EQ(words().approval(given.id)->usedBy, first);
    EXPECT_THROW(say([&](WordWriter& w) { w.use(given, second); }), Error);
    EXPECT_THROW(say([&](WordWriter& w) { w.withdraw(given); }), Error);
    EXPECT_EQ(words().approval(given.id)->usedBy, first);
    expectWhole();
}

TEST_F(WordRecordsTest, AWithdrawnApprovalIsGoneAndCannotBeUsed) {
    const std::int64_t promotion = open();
    const Approval given = approved();
    say([&](WordWriter& w) { w.withdraw(given); });
    EXPECT_TRUE(words().approvals(change, "staging").empty());
    EXPECT_THROW(say([&](WordWriter& w) { w.use(given, promotion); }), Error);
    EXPECT_THROW(say([&](WordWriter& w) { w.withdraw(given); }), Error);
    expectWhole();
}

TEST_F(WordRecordsTest, AnApprovalOfAnotherChangeIsNotUsed) {
    const Approval given = approved();
    Approval wrong = given;
    wrong.change = submit("another");
    const std::int64_t promotion = open();
    EXPECT_THROW(say([&](WordWriter& w) { w.use(wrong, promotion); }), Error);
}

TEST_F(WordRecordsTest, ARejectionTakesEveryYesBackAndHoldsMachines) {
    const std::int64_t promotion = open();
    approved();
    say([&](WordWriter& w) { w.reject({change, 1, "staging", promotion, "not now"}); });
    EXPECT_TRUE(words().approvals(change, "staging").empty());
    const auto holds = words().holds(climb.project);
    ASSERT_EQ(holds.size(), 1U);
    EXPECT_TRUE(holds[0].onlyMachines);
    EXPECT_EQ(holds[0].by, ben);
    EXPECT_EQ(holds[0].reason, "not now");
    EXPECT_EQ(holds[0].patch, someSubmission("Fix the login").patch);
    expectWhole();
}

TEST_F(WordRecordsTest, AHoldOfAChangeCarriesItsPatchOfThatTime) {
    say([&](WordWriter& w) { w.hold({.project = climb.project, .change = change, .reason = "wait"}); });
    store.write([&](Writer& w) { w.revise(change, climb.actor, someSubmission("another patch")); });
    ASSERT_EQ(words().holds(climb.project).size(), 1U);
    EXPECT_EQ(words().holds(climb.project)[0].patch, someSubmission("Fix the login").patch);
    EXPECT_FALSE(words().holds(climb.project)[0].onlyMachines);
    expectWhole();
}

TEST_F(WordRecordsTest, AHoldAfterAFailureCarriesThePatchThatFailed) {
    const std::int64_t promotion = open();
    store.write([&](Writer& w) { w.revise(change, climb.actor, someSubmission("another patch")); });
    say([&](WordWriter& w) {
        w.hold({.project = climb.project, .stage = "staging", .change = change, .promotion = promotion});
    });
    EXPECT_EQ(words().holds(climb.project)[0].patch, someSubmission("Fix the login").patch);
    EXPECT_TRUE(words().holds(climb.project)[0].onlyMachines);
    expectWhole();
}

TEST_F(WordRecordsTest, HoldsOfDifferentScopesAreToldApart) {
    const auto hold = [&](std::optional<std::string> stage, std::optional<std::int64_t> held, const char* reason) {
        say([&](WordWriter& w) {
            w.hold({.project = climb.project, .stage = stage, .change = held, .reason = reason});
        });
    };
    hold("staging", std::nullopt, "stage");
    hold(std::nullopt, change, "change");
    hold("staging", change, "both");
    hold("staging", change, "both, again");
    EXPECT_EQ(words().holds(climb.project).size(), 3U);
    say([&](WordWriter& w) { w.release(climb.project, change, "staging"); });
    EXPECT_EQ(words().holds(climb.project).size(), 2U);
    say([&](WordWriter& w) { w.release(climb.project, std::nullopt, "staging"); });
    ASSERT_EQ(words().holds(climb.project).size(), 1U);
    EXPECT_EQ(words().holds(climb.project)[0].reason, "change");
    EXPECT_THROW(say([&](WordWriter& w) { w.release(climb.project, std::nullopt, "staging"); }), Error);
    expectWhole();
}

TEST_F(WordRecordsTest, AHoldMayEndByItself) {
    const Time end = sample.clock.now() + std::chrono::hours(1);
    say([&](WordWriter& w) { w.hold({.project = climb.project, .stage = "staging", .until = end}); });
    EXPECT_EQ(words().holds(climb.project)[0].until, end);
    expectWhole();
}

TEST_F(WordRecordsTest, APinLastsUntilItIsTakenOutOrReplaced) {
    say([&](WordWriter& w) { w.pin({.project = climb.project, .stage = "staging", .change = change, .revision = 1}); });
    say([&](WordWriter& w) {
        w.pin({.project = climb.project, .stage = "staging", .change = change, .reason = "any of them"});
    });
    ASSERT_EQ(words().pins(climb.project).size(), 1U);
    EXPECT_EQ(words().pins(climb.project)[0].revision, std::nullopt);
    EXPECT_EQ(words().pins(climb.project)[0].reason, "any of them");
    expectWhole();
    say([&](WordWriter& w) { w.unpin(climb.project, "staging"); });
    EXPECT_TRUE(words().pins(climb.project).empty());
    EXPECT_THROW(say([&](WordWriter& w) { w.unpin(climb.project, "staging"); }), Error);
    expectWhole();
}

TEST_F(WordRecordsTest, AVetoNamesTheBytesAndThePatch) {
    say([&](WordWriter& w) {
        w.veto({.project = climb.project, .change = change, .changeSet = someDigest("s"), .patch = someDigest("p")});
    });
    const auto vetoes = words().vetoes(climb.project);
    ASSERT_EQ(vetoes.size(), 1U);
    EXPECT_EQ(vetoes[0].changeSet, someDigest("s"));
    EXPECT_EQ(vetoes[0].patch, someDigest("p"));
    expectWhole();
    say([&](WordWriter& w) { w.unveto(vetoes[0]); });
    EXPECT_TRUE(words().vetoes(climb.project).empty());
    EXPECT_THROW(say([&](WordWriter& w) { w.unveto(vetoes[0]); }), Error);
    expectWhole();
}

TEST_F(WordRecordsTest, AHaltIsForOneProjectOrForAll) {
    say([&](WordWriter& w) { w.halt(climb.project, "fire"); });
    EXPECT_EQ(words().halt(climb.project)->reason, "fire");
    EXPECT_EQ(words().halt(climb.project + 1).has_value(), false);
    say([&](WordWriter& w) { w.halt(std::nullopt, "flood"); });
    EXPECT_EQ(words().halt(climb.project + 1)->reason, "flood");
    say([&](WordWriter& w) { w.resume(climb.project); });
    EXPECT_EQ(words().halt(climb.project)->reason, "flood");
    EXPECT_THROW(say([&](WordWriter& w) { w.resume(climb.project); }), Error);
    say([&](WordWriter& w) { w.resume(std::nullopt); });
    EXPECT_FALSE(words().halt(climb.project));
    expectWhole();
}

TEST_F(WordRecordsTest, AnOverrideIsForOnePromotion) {
    const std::int64_t promotion = open();
    say([&](WordWriter& w) {
        w.overrideGate({.promotion = promotion, .gate = "window", .roles = {"override"}, .reason = "fire"});
    });
    const auto found = words().overrides(promotion);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].gate, "window");
    EXPECT_EQ(found[0].roles, std::vector<std::string>{"override"});
    EXPECT_EQ(found[0].reason, "fire");
    EXPECT_TRUE(words().overrides(open()).empty());
    EXPECT_THROW(say([&](WordWriter& w) { w.overrideGate({.promotion = 99, .gate = "window"}); }), Error);
    expectWhole();
}

// I10: the lineage is everyone whose patch it is or was; putting the same patch onto other ground makes nobody its
// author.
TEST_F(WordRecordsTest, TheMakersAreThoseOfEveryRevisionThatIsAnotherPatch) {
    const ActorId anna = person("anna");
    store.write([&](Writer& w) {
        Submission other = someSubmission("another patch");
        other.sponsor = anna;
        w.revise(change, ben, other);
        w.revise(change, anna, other);
    });
    EXPECT_EQ(words().makers(change),
              (std::vector<RevisionMaker>{{climb.actor, std::nullopt}, {ben, std::optional(anna)}}));
}

TEST_F(WordRecordsTest, AWaitingPromotionKnowsWhatPeopleAreAskedAbout) {
    const std::int64_t id = open();
    store.write([&](Writer& w) {
        w.movePromotion({id, S::kWaiting, S::kChecking}, climb.actor);
        w.movePromotion({.promotion = id,
                         .from = S::kChecking,
                         .to = S::kWaiting,
                         .base = someDigest("tree"),
                         .evidence = someDigest("proof")},
                        climb.actor);
    });
    EXPECT_EQ(store.records().promotion(id)->base, someDigest("tree"));
    EXPECT_EQ(store.records().promotion(id)->evidence, someDigest("proof"));
    expectWhole();
}

TEST_F(WordRecordsTest, AReasonCanBeRedactedAndTheWordStays) {
    say([&](WordWriter& w) { w.halt(climb.project, "a name nobody should read"); });
    const std::int64_t seq = store.records().counts().events;
    store.write([&](Writer& w) { w.redact(seq, ben); });
    ASSERT_TRUE(words().halt(climb.project));
    EXPECT_EQ(words().halt(climb.project)->reason, std::nullopt);
    expectWhole();
}

// I13
TEST_F(WordRecordsTest, AnEditOfWhatWasSaidIsFound) {
    sayEverything();
    expectWhole();
    for (const char* edit : {"update approval set used_by = null",
                             "update approval set withdrawn = 1 where used_by is null",
                             "update approval set actor = 1",
                             "update approval set roles = 'root'",
                             "delete from approval",
                             "update approval set base = zeroblob(32)",
                             "update approval set evidence = null",
                             "update approval set rules = zeroblob(32)",
                             "update approval set given_at = given_at + 1",
                             "delete from hold",
                             "update hold set ends_at = 5",
                             "update hold set only_machines = 1",
                             "delete from stage_pin",
                             "update stage_pin set revision = null",
                             "delete from veto",
                             "update veto set patch = zeroblob(32)",
                             "delete from halt",
                             "update halt set project = null",
                             "delete from gate_override",
                             "update gate_override set gate = 'hold'",
                             "update gate_override set roles = ''",
                             "insert into halt (seq, project, actor, halted_at) values (99, null, 1, 5)"})
        expectMismatch(edit);
    EXPECT_EQ(verifyAudit(store.sql(), store.anchor()).kind, Tampering::kNone);
}

// A database of the schema before this one: its holds come along, as rebuilding would make them.
TEST_F(WordRecordsTest, HoldsOfAnOlderSchemaComeAlong) {
    const std::int64_t promotion = open();
    say([&](WordWriter& w) {
        w.hold(
            {.project = climb.project, .stage = "staging", .change = change, .promotion = promotion, .reason = "no"});
    });
    const std::int64_t seq = store.records().counts().events;
    store.sql().script(
        "pragma foreign_keys = off; drop table maker; drop table sandbox_worker; "
        "alter table promotion drop column paths; drop index promotion_by_end; drop index "
        "promotion_line; drop index "
        "promotion_active; "
        "drop index project_by_key; alter table project drop column key; alter table project drop column path_seq; "
        "alter table promotion drop column place; alter table promotion drop column goal; alter table "
        "sandbox drop column system; "
        "alter table execution drop column services; alter table execution drop column network; "
        "alter table execution drop column side_effects; alter table execution drop column finished_seq; "
        "drop table step; drop index check_result_by_origin; alter table promotion drop column steps; "
        "alter table check_result drop column outputs; alter table check_result drop column built_of; "
        "drop index promotion_by_stage; drop index "
        "check_result_by_question; alter table "
        "check_result drop column asked; alter table check_result drop column definition; alter table check_result "
        "drop column reused; drop table watch; alter table promotion drop column opened_boot; alter table promotion "
        "drop column opened_uptime; drop table race; drop table approval; drop table "
        "stage_pin; drop table veto; drop "
        "table halt; "
        "drop table gate_override; drop table hold; alter table promotion drop column base; "
        "alter table promotion drop column evidence; pragma user_version = 4; "
        "create table change_hold (change integer not null references change (id), stage text not null, promotion "
        "integer references promotion (id), seq integer not null, primary key (change, stage)) strict, without rowid");
    store.sql().run("insert into change_hold (change, stage, promotion, seq) values (?, 'staging', ?, ?)", change,
                    promotion, seq);
    { const Store gone = std::move(store); }
    store = sample.open();
    ASSERT_EQ(words().holds(climb.project).size(), 1U);
    EXPECT_EQ(words().holds(climb.project)[0].promotion, promotion);
    EXPECT_EQ(words().holds(climb.project)[0].reason, "no");
    EXPECT_EQ(store.check(), std::vector<std::string>{});
    expectWhole();
}

}  // namespace
}  // namespace gradus
