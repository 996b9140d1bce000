// Everything somebody with write access to the files could do to the log, and the name that verifyAudit gives it.
#include "tests/store/tamper_rig.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::SampleStore;
using test::someDigest;

struct TamperCase {
    std::string name;
    std::function<void(Tamperer&)> tamper;
    Tampering kind = Tampering::kNone;
    std::int64_t seq = 0;
};

std::ostream& operator<<(std::ostream& out, const TamperCase& row) { return out << row.name; }

std::function<void(Tamperer&)> script(const std::string& statements) {
    return [=](Tamperer& t) { t.run(statements); };
}

using enum Tampering;

const std::vector<TamperCase>& editedEvents() {
    static const std::vector<TamperCase> kCases{
        {"TimeEdited", script("update event set at = at + 1 where seq = 20"), kAltered, 20},
        {"BatchEdited", script("update event set batch = batch + 1 where seq = 20"), kAltered, 20},
        {"KindEdited", script("update event set kind = 'change.revised' where seq = 20"), kAltered, 20},
        {"ActorEdited", script("update event set actor = 2 where seq = 20"), kAltered, 20},
        {"ActorTakenAway", script("update event set actor = null where seq = 20"), kAltered, 20},
        {"ProjectEdited", script("update event set project = 2 where seq = 20"), kAltered, 20},
        {"ChangeEdited", script("update event set change = 7 where seq = 20"), kAltered, 20},
        {"PromotionAdded", script("update event set promotion = 1 where seq = 20"), kAltered, 20},
        {"PromotionEdited", script("update event set promotion = 2 where seq = 12"), kAltered, 12},
        {"StageEdited", script("update event set stage = 'production' where seq = 12"), kAltered, 12},
        {"StageEmptied", script("update event set stage = '' where seq = 20"), kAltered, 20},
        {"BodyEdited", script("update event set body = replace(body, 'passed', 'failed') where seq = 11"), kAltered,
         11},
        {"BodyOfTheFirstEdited", script("update event set body = body || ' ' where seq = 1"), kAltered, 1},
        {"BodyOfTheLastEdited", script("update event set body = body || ' ' where seq = 25"), kAltered, 25},
        {"PayloadDigestEdited", script("update event set payload_digest = zeroblob(32) where seq = 20"), kAltered, 20},
        {"PayloadDigestTakenAway", script("update event set payload_digest = null where seq = 20"), kAltered, 20},
        {"HashEdited", script("update event set hash = zeroblob(32) where seq = 20"), kAltered, 20},
        {"HashOfTheLastEdited", script("update event set hash = zeroblob(32) where seq = 25"), kAltered, 25},
        {"HashCutShort", script("update event set hash = zeroblob(5) where seq = 20"), kAltered, 20},
        {"HashOfTheLastCutShort", script("update event set hash = zeroblob(5) where seq = 25"), kAltered, 25},
        {"EditedWithItsOwnHashMadeToFit",
         [](Tamperer& t) {
             t.run("update event set at = at + 1 where seq = 20");
             t.rechain(20, 20);
         },
         kAltered, 20},
        {"EditedWithAFewHashesMadeToFit",
         [](Tamperer& t) {
             t.run("update event set at = at + 1 where seq = 20");
             t.rechain(20, 22);
         },
         kAltered, 20},
        {"LastOneRenumbered", script("update event set seq = 27 where seq = 25"), kAltered, 25},
        {"PayloadTextEdited", script("update payload set text = replace(text, 'change', 'Change') where seq = 20"),
         kAltered, 20},
        {"PayloadSaltEdited", script("update payload set salt = zeroblob(16) where seq = 20"), kAltered, 20},
        {"PayloadSaltCutShort", script("update payload set salt = zeroblob(3) where seq = 20"), kAltered, 20},
        {"RedactedPayloadReplaced", script("insert into payload values (16, zeroblob(16), '{\"title\":\"nothing\"}')"),
         kAltered, 16},
    };
    return kCases;
}

const std::vector<TamperCase>& movedEvents() {
    static const std::string kContent =
        "at, batch, kind, actor, project, change, promotion, stage, body, payload_digest";
    static const std::vector<TamperCase> kCases{
        {"OneDeleted", script("delete from event where seq = 20"), kDeleted, 20},
        {"SeveralDeleted", script("delete from event where seq between 19 and 21"), kDeleted, 19},
        {"SeveralDeletedHereAndThere", script("delete from event where seq in (10, 12, 20)"), kDeleted, 10},
        {"FirstDeleted", script("delete from event where seq = 1"), kDeleted, 1},
        {"OneDeletedAndTheRestRenumbered",
         [](Tamperer& t) {
             t.run("delete from event where seq = 20; delete from payload where seq = 20");
             t.renumber(21, -1);
         },
         kDeleted, 20},
        {"ManyDeletedAndTheRestRenumbered",
         [](Tamperer& t) {
             t.run("delete from event where seq between 5 and 15; delete from payload where seq between 5 and 15");
             t.renumber(16, -11);
         },
         kDeleted, 5},
        {"FirstDeletedAndTheRestRenumbered",
         [](Tamperer& t) {
             t.run("delete from event where seq = 1");
             t.renumber(2, -1);
         },
         kDeleted, 1},
        {"LastButOneDeletedAndTheLastRenumbered",
         [](Tamperer& t) {
             t.run("delete from event where seq = 24; delete from payload where seq = 24");
             t.renumber(25, -1);
         },
         kDeleted, 24},
        {"ContentsSwapped", [](Tamperer& t) { t.swap(20, 22, kContent); }, kReordered, 20},
        {"ContentsOfNeighboursSwapped", [](Tamperer& t) { t.swap(20, 21, kContent); }, kReordered, 20},
        {"ContentsOfTheLastTwoSwapped", [](Tamperer& t) { t.swap(24, 25, kContent); }, kReordered, 24},
        {"SwappedWithTheirHashes", [](Tamperer& t) { t.swap(20, 22, kContent + ", hash"); }, kReordered, 20},
        {"NeighboursSwappedWithTheirHashes", [](Tamperer& t) { t.swap(20, 21, kContent + ", hash"); }, kReordered, 20},
        {"LastTwoSwappedWithTheirHashes", [](Tamperer& t) { t.swap(24, 25, kContent + ", hash"); }, kReordered, 24},
        {"LastAndThirdLastSwappedWithTheirHashes", [](Tamperer& t) { t.swap(23, 25, kContent + ", hash"); }, kReordered,
         23},
        {"OneMovedToTheEnd", script("update event set seq = 26 where seq = 20"), kReordered, 20},
        {"InsertedInTheMiddle", [](Tamperer& t) { t.insertAt(20); }, kInserted, 20},
        {"TwoInsertedInTheMiddle",
         [](Tamperer& t) {
             t.insertAt(20);
             t.insertAt(20);
         },
         kInserted, 20},
        {"InsertedInTheMiddleWithAFittingHash",
         [](Tamperer& t) {
             t.insertAt(20);
             t.rechain(20, 20);
         },
         kInserted, 20},
        {"TwoInsertedInTheMiddleWithFittingHashes",
         [](Tamperer& t) {
             t.insertAt(20);
             t.insertAt(20);
             t.rechain(20, 21);
         },
         kInserted, 20},
        {"InsertedBeforeTheLast", [](Tamperer& t) { t.insertAt(25); }, kInserted, 25},
        {"InsertedAtTheFirstPlace", [](Tamperer& t) { t.insertAt(1); }, kInserted, 1},
        {"InsertedBeforeTheFirst", [](Tamperer& t) { t.addEvent(0); }, kInserted, 0},
        {"InsertedFarBeforeTheFirst", [](Tamperer& t) { t.addEvent(-7); }, kInserted, -7},
        {"AddedAtTheEndWithABadHash", [](Tamperer& t) { t.addEvent(26); }, kInserted, 26},
        {"SeveralAddedAtTheEndWithBadHashes",
         [](Tamperer& t) {
             for (std::int64_t seq = 26; seq < 30; ++seq) t.addEvent(seq);
         },
         kInserted, 26},
        {"AddedAtTheEndWithAGap", [](Tamperer& t) { t.addEvent(28); }, kInserted, 28},
        {"AddedAtTheEndWithAFittingHashAndMore",
         [](Tamperer& t) {
             t.addEvent(26);
             t.addEvent(27);
             t.rechain(26);
             t.rebuildState();
         },
         kUnanchoredSince, 26},
    };
    return kCases;
}

const std::vector<TamperCase>& rewrittenLogs() {
    static const std::vector<TamperCase> kCases{
        {"TailCut", script("delete from event where seq > 23; delete from payload where seq > 23"), kTruncated, 24},
        {"TailCutAndStateMadeToFit",
         [](Tamperer& t) {
             t.run("delete from event where seq > 23; delete from payload where seq > 23");
             t.rebuildState();
         },
         kTruncated, 24},
        {"LastOneCut", script("delete from event where seq = 25; delete from payload where seq = 25"), kTruncated, 25},
        {"Emptied", script("delete from event; delete from payload"), kTruncated, 1},
        {"RechainedAfterAnEdit",
         [](Tamperer& t) {
             t.run("update event set at = at + 1 where seq = 20");
             t.rechain();
         },
         kRewritten, 20},
        {"TailRechainedAfterAnEdit",
         [](Tamperer& t) {
             t.run("update event set at = at + 1 where seq = 20");
             t.rechain(20);
         },
         kRewritten, 20},
        // The anchor holds the last event of each commit: the first one that it can contradict is 15.
        {"RechainedAfterAnEditInsideACommit",
         [](Tamperer& t) {
             t.run("update event set body = replace(body, 'passed', 'failed') where seq = 11");
             t.rechain();
             t.rebuildState();
         },
         kRewritten, 15},
        {"RechainedAfterADeletion",
         [](Tamperer& t) {
             t.run("delete from event where seq = 20; delete from payload where seq = 20");
             t.renumber(21, -1);
             t.rechain();
         },
         kRewritten, 20},
        {"RechainedAfterAnInsertion",
         [](Tamperer& t) {
             t.insertAt(20);
             t.rechain();
         },
         kRewritten, 20},
        {"RechainedAfterASwap",
         [](Tamperer& t) {
             t.swap(20, 22, "at, batch, kind, actor, project, change, promotion, stage, body, payload_digest");
             t.rechain();
         },
         kRewritten, 20},
        {"RechainedWithAFirstEventThatMakesNoSense",
         [](Tamperer& t) {
             t.run("update event set body = '[1]' where seq = 1");
             t.rechain();
         },
         kRewritten, 1},
        {"RechainedWithAKeyThatIsANumber",
         [](Tamperer& t) {
             t.run("update event set body = '{\"store\":\"x\",\"public-key\":5}' where seq = 1");
             t.rechain();
         },
         kRewritten, 1},
        {"RechainedWithTheAnchorTakenAway",
         [](Tamperer& t) {
             t.run("update event set at = at + 1 where seq = 20");
             t.rechain();
             t.rebuildState();
             fs::remove(t.state().anchor());
         },
         kUnanchoredSince, 1},
        {"RechainedWithAKindThatNobodyKnows",
         [](Tamperer& t) {
             t.run("update event set kind = 'coffee.made' where seq = 20");
             t.rechain();
             fs::remove(t.state().anchor());
         },
         kStateMismatch, 20},
    };
    return kCases;
}

const std::vector<TamperCase>& editedState() {
    static const std::vector<TamperCase> kCases{
        {"ActorEdited", script("update actor set kind = 'person'"), kStateMismatch, 2},
        {"ActorMissing", script("delete from actor"), kStateMismatch, 2},
        {"ActorExtra", script("insert into actor values (2, 'person', 3)"), kStateMismatch, 3},
        {"ProjectEdited", script("update project set inode = inode + 1"), kStateMismatch, 3},
        {"StepAllowed", script("insert into promotion_edge values ('promoted', 'queued')"), kStateMismatch, 1},
        {"StepForbidden", script("delete from promotion_edge where from_state = 'checking'"), kStateMismatch, 1},
        {"ProjectKeyEdited", script("update project set key = 'i1b1'"), kStateMismatch, 3},
        {"ProjectMissing", script("delete from project"), kStateMismatch, 3},
        {"ProjectExtra", script("insert into project (id, device, inode, seq) values (2, 1, 1, 3)"), kStateMismatch, 3},
        {"TrustedRulesEdited", script("update trusted_rules set rules = zeroblob(32)"), kStateMismatch, 4},
        {"TrustedRulesMissing", script("delete from trusted_rules"), kStateMismatch, 4},
        {"TrustedRulesExtra", script("insert into trusted_rules values (2, zeroblob(32), zeroblob(32), 1, 4)"),
         kStateMismatch, 4},
        {"ChangeEdited", script("update change set actor = 2 where id = 2"), kStateMismatch, 6},
        {"ChangeMissing", script("delete from change where id = 2"), kStateMismatch, 6},
        {"ChangeExtra", script("insert into change values (12, 1, 1, null, 1, 25)"), kStateMismatch, 25},
        {"RevisionEdited", script("update revision set base = zeroblob(32) where change = 1 and number = 2"),
         kStateMismatch, 7},
        {"RevisionMissing", script("delete from revision where change = 1 and number = 2"), kStateMismatch, 7},
        {"RevisionExtra", script("insert into revision values (11, 2, zeroblob(32), zeroblob(32), zeroblob(32), 25)"),
         kStateMismatch, 25},
        {"PromotionEdited", script("update promotion set state = 'rejected'"), kStateMismatch, 15},
        {"PromotionCauseEdited", script("update promotion set cause = 'failed'"), kStateMismatch, 15},
        {"PromotionTimeEdited", script("update promotion set moved_at = moved_at + 1"), kStateMismatch, 15},
        {"PromotionReopened", script("update promotion set finished = 0"), kStateMismatch, 15},
        {"PromotionMissing", script("delete from promotion"), kStateMismatch, 15},
        {"PromotionExtra",
         script("insert into promotion (id, project, change, revision, stage, state, finished, cause, rules, undoes, "
                "opened_at, moved_at, seq) select 2, project, change, revision, stage, state, finished, cause, rules, "
                "undoes, "
                "opened_at, moved_at, seq from promotion"),
         kStateMismatch, 15},
        {"CheckResultEdited", script("update check_result set verdict = 'failed'"), kStateMismatch, 11},
        {"CheckResultLogTakenAway", script("update check_result set log = null"), kStateMismatch, 11},
        {"CheckResultMissing", script("delete from check_result"), kStateMismatch, 11},
        {"CheckResultExtra",
         script("insert into check_result (seq, promotion, name, verdict, evidence, exit_code, wall_ms, log) select "
                "12, promotion, name, verdict, evidence, exit_code, wall_ms, log "
                "from check_result"),
         kStateMismatch, 12},
        {"RedactionEdited", script("update redaction set by_event = 18"), kStateMismatch, 17},
        {"RedactionMissing", script("delete from redaction"), kStateMismatch, 17},
        {"RedactionExtra", script("insert into redaction values (20, 21)"), kStateMismatch, 21},
        {"IndexBitTakenAway", script("update event_index set bits = bits & ~(1 << 11) where word = 'kind'"),
         kStateMismatch, 1},
        {"IndexBitAdded", script("update event_index set bits = bits | (1 << 20) where word = 'stage'"), kStateMismatch,
         1},
        {"IndexRowMissing", script("delete from event_index where word = 'actor'"), kStateMismatch, 1},
        {"IndexRowExtra", script("insert into event_index values ('stage', 'nowhere', 0, 2)"), kStateMismatch, 1},
        {"IndexRowOfAnotherType", script("update event_index set value = '1' where word = 'change' and value = 1"),
         kStateMismatch, 1},
        {"ClockStepMissing",
         [](Tamperer& t) {
             t.run("update event set at = at - 5000 where seq = 24");
             t.rechain();
             t.rebuildState();
             fs::remove(t.state().anchor());
             t.run("delete from clock_step");
         },
         kStateMismatch, 24},
        {"ClockStepExtra", script("insert into clock_step values (20, 2, 1)"), kStateMismatch, 20},
    };
    return kCases;
}

const std::vector<TamperCase>& payloadsAndAnchors() {
    static const std::vector<TamperCase> kCases{
        {"NothingDone", [](Tamperer&) {}, kNone, 0},
        {"PayloadDeletedWithoutARedaction", script("delete from payload where seq = 20"), kDeleted, 20},
        {"PayloadDeletedWithAForgedRedaction",
         script("insert into redaction values (20, 17); delete from payload where seq = 20"), kDeleted, 20},
        {"PayloadDeletedWithARedactionFromTheFuture",
         script("insert into redaction values (20, 26); delete from payload where seq = 20"), kDeleted, 20},
        {"PayloadAddedToAnEventWithoutOne", script("insert into payload values (12, zeroblob(16), '{}')"), kInserted,
         12},
        {"PayloadAddedToNoEvent", script("insert into payload values (99, zeroblob(16), '{}')"), kInserted, 99},
        {"AnchorLost", [](Tamperer& t) { fs::remove(t.state().anchor()); }, kUnanchoredSince, 1},
        {"AnchorBehindByTwoCommits", [](Tamperer& t) { t.forgetNewestAnchorLines(2); }, kUnanchoredSince, 24},
        {"AnchorEmptied", [](Tamperer& t) { t.anchor({t.anchor().front()}); }, kUnanchoredSince, 1},
        {"AnchorLineEdited",
         [](Tamperer& t) {
             auto lines = t.anchor();
             std::string& line = lines[t.anchorLine(20)];
             line.back() = line.back() == '0' ? '1' : '0';
             t.anchor(lines);
         },
         kRewritten, 20},
        {"LastAnchorLineEdited",
         [](Tamperer& t) {
             auto lines = t.anchor();
             std::string& line = lines[t.anchorLine(kHead)];
             line.back() = line.back() == '0' ? '1' : '0';
             t.anchor(lines);
         },
         kRewritten, kHead},
        {"AnchorLineForAnEventThatNeverWas",
         [](Tamperer& t) {
             auto lines = t.anchor();
             lines.push_back("40 " + someDigest("made up").hex());
             t.anchor(lines);
         },
         kTruncated, 26},
        {"AnchorOfAnotherStore",
         [](Tamperer& t) {
             SampleStore other;
             other.random = test::FakeRandom(7);
             Store store = other.open();
             fillLog(store);
             fs::copy_file(other.state.anchor(), t.state().anchor(), fs::copy_options::overwrite_existing);
         },
         kRewritten, 1},
        {"AnchorWithAnotherStoresName",
         [](Tamperer& t) {
             auto lines = t.anchor();
             lines[0].back() = lines[0].back() == '0' ? '1' : '0';
             t.anchor(lines);
         },
         kRewritten, 1},
    };
    return kCases;
}

class TamperMatrix : public testing::TestWithParam<TamperCase> {};

TEST_P(TamperMatrix, IsNamedCorrectly) {
    GRADUS_CASES("I12", "DL6");
    const TamperedStore store(shortLog());
    const AuditVerdict verdict = store.tamperAndVerify(GetParam().tamper);
    EXPECT_EQ(nameOf(kTamperings, verdict.kind), nameOf(kTamperings, GetParam().kind)) << verdict.detail;
    EXPECT_EQ(verdict.seq, GetParam().seq) << verdict.detail;
    EXPECT_EQ(verdict.detail.empty(), verdict.kind == kNone);
}

std::string caseName(const testing::TestParamInfo<TamperCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(EditedEvents, TamperMatrix, testing::ValuesIn(editedEvents()), caseName);
INSTANTIATE_TEST_SUITE_P(MovedEvents, TamperMatrix, testing::ValuesIn(movedEvents()), caseName);
INSTANTIATE_TEST_SUITE_P(RewrittenLogs, TamperMatrix, testing::ValuesIn(rewrittenLogs()), caseName);
INSTANTIATE_TEST_SUITE_P(EditedState, TamperMatrix, testing::ValuesIn(editedState()), caseName);
INSTANTIATE_TEST_SUITE_P(PayloadsAndAnchors, TamperMatrix, testing::ValuesIn(payloadsAndAnchors()), caseName);

TEST(Tamper, ARedactionLeavesALogThatVerifies) {
    GRADUS_CASES("DL10");
    const TamperedStore store(shortLog());
    const AuditVerdict verdict = store.verify();
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.redacted, 1);
    EXPECT_EQ(verdict.events, kHead);
}

}  // namespace
}  // namespace gradus
