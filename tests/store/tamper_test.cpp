// Everything somebody with write access to the files could do to the log, and the name that verifyAudit gives it.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/stat.h>

#include <fstream>
#include <list>

#include "store/audit_log.h"
#include "store/audit_verify.h"
#include "store/model/error.h"
#include "store/projection.h"
#include "store/signing.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::Climb;
using test::SampleStore;
using test::someDigest;
using test::someSubmission;

/// The log every case starts from. A line is a commit:
///   1 log.started | 2 actor, 3 project | 4 rules.trusted | 5 submit c1 | 6 submit c2 | 7 revise c1 |
///   8..15 one promotion of c1 | 16 submit c3 | 17 redacts 16 | 18..25 submit c4..c11, a commit each
constexpr std::int64_t kHead = 25;

void fillLog(Store& store) {
    const Climb climb = Climb::begin(store);
    store.write([&](Writer& w) { w.trustRules(climb.project, climb.actor, someDigest("rules"), someDigest("files")); });
    const auto submit = [&](const std::string& title) {
        store.write([&](Writer& w) { w.submit(climb.project, climb.actor, someSubmission(title)); });
    };
    submit("first");
    submit("second");
    store.write([&](Writer& w) { w.revise(1, climb.actor, someSubmission("first, better")); });
    store.write([&](Writer& w) { climb.stage(w, 1, "staging", PromotionState::kPromoted); });
    submit("a secret");
    store.write([&](Writer& w) { w.redact(16, climb.actor); });
    for (int i = 4; i <= 11; ++i) submit("change " + std::to_string(i));
}

std::vector<std::string> linesOf(const fs::path& path) {
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

void writeLines(const fs::path& path, const std::vector<std::string>& lines) {
    std::ofstream out(path, std::ios::trunc);
    for (const std::string& line : lines) out << line << '\n';
}

/// A hand on the files: a connection of its own, with every guard of the schema taken away.
class Tamperer {
  public:
    explicit Tamperer(const StateDirectory& state) : state_(state), sql_(state.database(), Sql::Mode::kReadWrite) {
        sql_.script("pragma foreign_keys = off; pragma ignore_check_constraints = on; pragma synchronous = off");
        std::vector<std::string> triggers;
        {
            auto rows = sql_("select name from sqlite_schema where type = 'trigger'");
            while (rows.step()) triggers.push_back(rows.text(0));
        }
        for (const std::string& name : triggers) sql_.script("drop trigger " + name);
    }

    void run(const std::string& script) { sql_.script(script); }
    Sql& sql() { return sql_; }
    /// The first row's first column, if there is a row; empty if it is null.
    std::optional<std::string> read(const std::string& select) {
        auto row = sql_(texts_.emplace_back(select));
        if (!row.step()) return std::nullopt;
        return row.isNull(0) ? std::string() : row.text(0);
    }
    const StateDirectory& state() const { return state_; }

    /// Makes the chain whole again from event `from` to event `to`, whatever stands there.
    void rechain(std::int64_t from = 1, std::int64_t to = std::int64_t{1} << 40) {
        Digest previous;
        if (auto row = sql_("select hash from event where seq < ? order by seq desc limit 1", from); row.step())
            previous = row.digest(0);
        ChainHasher hasher;
        for (std::int64_t seq = from; seq <= to && rechainOne(hasher, seq, previous); ++seq) {
        }
    }

    /// Moves the numbers of all events from `from` on; through far ones, because a number may be taken only once.
    void renumber(std::int64_t from, std::int64_t by) {
        for (const char* table : {"event", "payload"}) {
            run(fmt::format("update {} set seq = seq + 1000000 where seq >= {}", table, from));
            run(fmt::format("update {} set seq = seq - 1000000 + ({}) where seq >= 1000000", table, by));
        }
    }

    void swap(std::int64_t a, std::int64_t b, const std::string& columns) {
        run("create temp table kept as select * from event");
        const auto copy = [&](std::int64_t to, std::int64_t from) {
            run(fmt::format("update event set ({0}) = (select {0} from kept where seq = {1}) where seq = {2}", columns,
                            from, to));
        };
        copy(a, b);
        copy(b, a);
        run("drop table kept");
    }

    /// An event that never happened, with room made for it.
    void insertAt(std::int64_t seq) {
        renumber(seq, 1);
        addEvent(seq);
    }
    void addEvent(std::int64_t seq) {
        run(
            fmt::format("insert into event (seq, at, batch, kind, body, hash) values ({}, 1772366400000, 0, "
                        "'clock.went-back', '{{\"by-ms\":5000}}', zeroblob(32))",
                        seq));
    }

    void rebuildState() {
        for (const std::string_view table : kStateTables) run(fmt::format("delete from {}", table));
        replay(sql_, sql_, 1, std::int64_t{1} << 40);
    }

    std::vector<std::string> anchor() const { return linesOf(state_.anchor()); }
    void anchor(const std::vector<std::string>& lines) const { writeLines(state_.anchor(), lines); }
    /// Which line vouches for that event.
    std::size_t anchorLine(std::int64_t seq) const {
        const auto lines = anchor();
        for (std::size_t i = 0; i < lines.size(); ++i)
            if (lines[i].starts_with(std::to_string(seq) + " ")) return i;
        ADD_FAILURE() << "the anchor has no line for event " << seq;
        return 0;
    }
    void forgetNewestAnchorLines(std::size_t count) const {
        auto lines = anchor();
        lines.resize(lines.size() - count);
        anchor(lines);
    }

  private:
    bool rechainOne(ChainHasher& hasher, std::int64_t seq, Digest& previous) {
        {
            auto row = sql_(
                "select seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash "
                "from event where seq = ?",
                seq);
            if (!row.step()) return false;
            previous = hasher.link(previous, chainedFields(row));
        }
        sql_.run("update event set hash = ? where seq = ?", previous, seq);
        return true;
    }

    StateDirectory state_;
    std::list<std::string> texts_;  // a connection borrows the text of its statements
    Sql sql_;
};

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
        {"ProjectMissing", script("delete from project"), kStateMismatch, 3},
        {"ProjectExtra", script("insert into project values (2, 1, 1, 3)"), kStateMismatch, 3},
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
         script(
             "insert into promotion select 2, project, change, revision, stage, state, finished, cause, rules, undoes, "
             "opened_at, moved_at, seq from promotion"),
         kStateMismatch, 15},
        {"CheckResultEdited", script("update check_result set verdict = 'failed'"), kStateMismatch, 11},
        {"CheckResultLogTakenAway", script("update check_result set log = null"), kStateMismatch, 11},
        {"CheckResultMissing", script("delete from check_result"), kStateMismatch, 11},
        {"CheckResultExtra",
         script("insert into check_result select 12, promotion, name, verdict, evidence, exit_code, wall_ms, log "
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

/// The log is made once; each case works on a copy of its directory.
class TamperedStore {
  public:
    explicit TamperedStore(const StateDirectory& original) : state{directory_ / "state"} {
        fs::copy(original.root, state.root, fs::copy_options::recursive);
    }

    AuditVerdict tamperAndVerify(const std::function<void(Tamperer&)>& tamper) const {
        Tamperer tamperer(state);
        tamper(tamperer);
        return verify();
    }
    AuditVerdict verify() const {
        Sql sql(state.database(), Sql::Mode::kReadOnly);
        return verifyAudit(sql, FileAnchor(state.anchor()));
    }

  private:
    test::ScratchDirectory directory_;

  public:
    StateDirectory state;
};

const StateDirectory& shortLog() {
    static SampleStore sample;
    static const bool kFilled = [] {
        Store store = sample.open();
        fillLog(store);
        EXPECT_EQ(store.records().counts().events, kHead);
        store.sql().script("pragma wal_checkpoint(truncate)");
        return true;
    }();
    EXPECT_TRUE(kFilled);
    return sample.state;
}

class TamperMatrix : public testing::TestWithParam<TamperCase> {};

TEST_P(TamperMatrix, IsNamedCorrectly) {
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

TEST(Tamper, AnAnchorThatLagsByTheLastCommitIsWhatACrashLeaves) {
    const TamperedStore store(shortLog());
    const AuditVerdict verdict = store.tamperAndVerify([](Tamperer& t) { t.forgetNewestAnchorLines(1); });
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.notYetAnchored, 1);
}

TEST(Tamper, AnAnchorThatLagsByACommitOfSeveralEventsIsWhatACrashLeaves) {
    SampleStore sample;
    Store store = sample.open();
    const Climb climb = Climb::begin(store);
    store.write([&](Writer& w) { climb.whole(w, "Fix the login"); });
    Tamperer(sample.state).forgetNewestAnchorLines(1);
    const AuditVerdict verdict = verifyAudit(store.sql(), store.anchor());
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.notYetAnchored, 33);
}

TEST(Tamper, ARedactionLeavesALogThatVerifies) {
    const TamperedStore store(shortLog());
    const AuditVerdict verdict = store.verify();
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.redacted, 1);
    EXPECT_EQ(verdict.events, kHead);
}

TEST(Tamper, ALineTornByACrashOnlyMakesTheAnchorLag) {
    const TamperedStore store(shortLog());
    fs::resize_file(store.state.anchor(), fs::file_size(store.state.anchor()) - 5);
    const AuditVerdict verdict = store.verify();
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.notYetAnchored, 1);
}

TEST(Tamper, ZerosLeftAtTheAnchorsEndByAPowerCutAreCutOff) {
    SampleStore sample;
    Climb::begin(*std::make_unique<Store>(sample.open()));
    std::ofstream(sample.state.anchor(), std::ios::app) << std::string(4000, '\0');
    Store store = sample.open();
    const Climb climb = Climb::begin(store);
    store.write([&](Writer& w) { climb.whole(w, "Fix the login"); });
    const AuditVerdict verdict = verifyAudit(store.sql(), store.anchor());
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.notYetAnchored, 0);
}

struct BadAnchor {
    std::string name;
    std::function<void(const fs::path&)> make;
    std::string message;  ///< after the path
};
std::ostream& operator<<(std::ostream& out, const BadAnchor& row) { return out << row.name; }

std::function<void(const fs::path&)> appendToAnchor(const std::string& text) {
    return [=](const fs::path& path) { std::ofstream(path, std::ios::app) << text; };
}

const std::vector<BadAnchor>& badAnchors() {
    static const std::vector<BadAnchor> kRows{
        {"Garbage",
         [](const fs::path& path) {
             writeLines(path, {"hello", "world"});
         },
         ":1: this is not an anchor file of gradus"},
        {"Empty", [](const fs::path& path) { writeLines(path, {}); }, ":1: the anchor file has no header"},
        {"GarbageLine", appendToAnchor("hello world\n"), ":19: the line is not an anchor point"},
        {"NumberTooLarge", appendToAnchor("99999999999999999999 " + std::string(64, 'a') + "\n"), ":19: "},
        {"NegativeNumber", appendToAnchor("-4 " + std::string(64, 'a') + "\n"), ":19: "},
        {"ShortHash", appendToAnchor("26 abcdef\n"), ":19: "},
        {"UpperCaseHash", appendToAnchor("26 " + std::string(64, 'A') + "\n"), ":19: "},
        {"GoesBack", appendToAnchor("20 " + std::string(64, 'a') + "\n"),
         ":19: the line is not an anchor point, or goes back"},
        {"ShortSignature", appendToAnchor("signed 25 " + std::string(64, 'a') + " ab cd\n"), ":19: "},
        {"Directory",
         [](const fs::path& path) {
             fs::remove(path);
             fs::create_directory(path);
         },
         " is a directory, not a file"},
        {"NamedPipe",
         [](const fs::path& path) {
             fs::remove(path);
             ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
         },
         " is a named pipe, not a file"},
        {"LinkToItself",
         [](const fs::path& path) {
             fs::remove(path);
             fs::create_symlink(path, path);
         },
         ": Too many levels of symbolic links"},
    };
    return kRows;
}

class TamperedAnchor : public testing::TestWithParam<BadAnchor> {};

TEST_P(TamperedAnchor, IsAnErrorThatNamesTheFileAndTheLine) {
    const TamperedStore store(shortLog());
    GetParam().make(store.state.anchor());
    try {
        store.verify();
        FAIL() << "verified";
    } catch (const Error& e) {
        const std::string text = e.what();
        EXPECT_NE(text.find(store.state.anchor().native() + GetParam().message), std::string::npos) << text;
    }
}

INSTANTIATE_TEST_SUITE_P(Bad, TamperedAnchor, testing::ValuesIn(badAnchors()),
                         [](const testing::TestParamInfo<BadAnchor>& row) { return row.param.name; });

// --- Signed checkpoints: a log long enough to have one. ---

void fillLongLog(Store& store) {
    const Climb climb = Climb::begin(store);
    for (int i = 0; i < 8; ++i)
        store.write([&](Writer& w) {
            for (int k = 0; k < 4; ++k) climb.whole(w, fmt::format("change {}.{}", i, k));
        });
}

class TamperedSignature : public testing::Test {
  protected:
    static const StateDirectory& longLog() {
        static SampleStore sample;
        static const bool kFilled = [] {
            Store store = sample.open();
            fillLongLog(store);
            return true;
        }();
        EXPECT_TRUE(kFilled);
        return sample.state;
    }
    TamperedStore store{longLog()};
    static constexpr std::int64_t kSigned = 1059;  // 3 events of Climb::begin, then 8 commits of 132

    void expectRewritten(const std::function<void(Tamperer&)>& tamper, std::int64_t seq = kSigned) {
        const AuditVerdict verdict = store.tamperAndVerify(tamper);
        EXPECT_EQ(nameOf(kTamperings, verdict.kind), "rewritten") << verdict.detail;
        EXPECT_EQ(verdict.seq, seq) << verdict.detail;
    }
    /// The line of the anchor that holds the signature.
    static std::size_t signedLine(const Tamperer& t) {
        const auto lines = t.anchor();
        for (std::size_t i = 0; i < lines.size(); ++i)
            if (lines[i].starts_with("signed ")) return i;
        ADD_FAILURE() << "no signed line";
        return 0;
    }
    static void rechainAfterAnEdit(Tamperer& t) {
        t.run("update event set at = at + 1 where seq = 20");
        t.rechain();
        t.rebuildState();
    }
};

TEST_F(TamperedSignature, IsGenuineAtFirst) {
    const AuditVerdict verdict = store.verify();
    EXPECT_EQ(verdict.kind, kNone) << verdict.detail;
    EXPECT_EQ(verdict.signatures, 2);
}

TEST_F(TamperedSignature, WithAnEditedSignatureIsFound) {
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set signature = zeroblob(64)"); });
}

TEST_F(TamperedSignature, WithAnEditedHashIsFound) {
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set hash = zeroblob(32)"); });
}

TEST_F(TamperedSignature, WithAnEditedKeyIsFound) {
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set public_key = zeroblob(32)"); });
}

TEST_F(TamperedSignature, MovedToAnotherEventIsFound) {
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set seq = 5"); }, 5);
}

TEST_F(TamperedSignature, CutShortIsFound) {
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set signature = zeroblob(3)"); });
    expectRewritten([](Tamperer& t) { t.run("update signed_checkpoint set hash = zeroblob(3)"); });
}

TEST_F(TamperedSignature, MadeWithAnotherKeyIsFound) {
    expectRewritten([&](Tamperer& t) {
        const SigningKey forger = SigningKey::create(store.state.root / "forger.key");
        const auto id = FileAnchor(store.state.anchor()).read()->storeId;
        AnchorPoint point{kSigned, {}};
        {
            auto row = t.sql()("select hash from event where seq = ?", kSigned);
            ASSERT_TRUE(row.step());
            point.hash = row.digest(0);
        }
        const SignedPoint forged = forger.sign(id, point);
        auto update = t.sql()("update signed_checkpoint set public_key = ?, signature = ?");
        update.bindBlob(forged.publicKey).bindBlob(forged.signature).run();
    });
}

TEST_F(TamperedSignature, EditedInTheAnchorIsFound) {
    expectRewritten([](Tamperer& t) {
        auto lines = t.anchor();
        std::string& line = lines[signedLine(t)];
        line.back() = line.back() == '0' ? '1' : '0';
        t.anchor(lines);
    });
}

TEST_F(TamperedSignature, ContradictsARewrittenLogWhoseAnchorIsGone) {
    expectRewritten([](Tamperer& t) {
        rechainAfterAnEdit(t);
        fs::remove(t.state().anchor());
    });
}

TEST_F(TamperedSignature, InTheAnchorContradictsALogRewrittenTogetherWithItsPoints) {
    expectRewritten([](Tamperer& t) {
        rechainAfterAnEdit(t);
        t.run("delete from signed_checkpoint");
        auto lines = t.anchor();
        t.anchor({lines.front(), lines[signedLine(t)]});
    });
}

TEST_F(TamperedSignature, OfADeletionOfMoreThanAScreenfulIsStillCalledADeletion) {
    const AuditVerdict verdict = store.tamperAndVerify([](Tamperer& t) {
        t.run("delete from event where seq between 100 and 299; delete from payload where seq between 100 and 299");
        t.renumber(300, -200);
    });
    EXPECT_EQ(nameOf(kTamperings, verdict.kind), "deleted") << verdict.detail;
    EXPECT_EQ(verdict.seq, 100);
}

// --- Whatever is edited, it is found. ---

struct RandomEdit {
    std::int64_t seq = 0;
    std::string column;
};

rc::Gen<RandomEdit> anyEdit() {
    return rc::gen::build<RandomEdit>(
        rc::gen::set(&RandomEdit::seq, rc::gen::inRange<std::int64_t>(1, kHead + 1)),
        rc::gen::set(&RandomEdit::column,
                     rc::gen::element<std::string>("at", "batch", "kind", "actor", "project", "change", "promotion",
                                                   "stage", "body", "payload_digest", "hash", "salt", "text")));
}

bool isOfThePayload(const RandomEdit& edit) { return edit.column == "salt" || edit.column == "text"; }

bool isBlob(const std::string& column) { return column == "payload_digest" || column == "hash" || column == "salt"; }

bool isText(const std::string& column) {
    return column == "kind" || column == "stage" || column == "body" || column == "text";
}

/// Another value than the one that is there: one bit of it turned around, or something where there was nothing.
void applyEdit(Tamperer& t, const RandomEdit& edit, unsigned bit) {
    const std::string table = isOfThePayload(edit) ? "payload" : "event";
    const auto old = t.read(fmt::format("select {} from {} where seq = {}", edit.column, table, edit.seq));
    RC_PRE(old.has_value());
    std::string value = *old;
    if (!isBlob(edit.column) && !isText(edit.column))
        return t.run(fmt::format("update event set {0} = coalesce({0}, -1) + {1} where seq = {2}", edit.column,
                                 1U << (bit % 20), edit.seq));
    if (value.empty())
        value.assign(isBlob(edit.column) ? 32 : 1, 'a');
    else if (isBlob(edit.column))
        value[bit / 8 % value.size()] ^= static_cast<char>(1U << (bit % 8));
    else
        value[bit % value.size()] ^= 1;  // the lowest bit: stays ASCII
    std::string quoted = "x'";
    for (const char c : value) quoted += fmt::format("{:02x}", static_cast<unsigned char>(c));
    quoted += "'";
    if (isText(edit.column)) quoted = "cast(" + quoted + " as text)";
    t.run(fmt::format("update {} set {} = {} where seq = {}", table, edit.column, quoted, edit.seq));
}

TEST(TamperProperty, AnySingleEditIsFoundAndNamedPrecisely) {
    const int wanted = std::getenv("GRADUS_LONG") != nullptr ? 2000 : 200;
    const char* given = std::getenv("RC_PARAMS");
    ::setenv("RC_PARAMS", fmt::format("{} max_success={}", given != nullptr ? given : "seed=2026", wanted).c_str(), 1);
    int found = 0;
    const bool held = rc::check([&] {
        const RandomEdit edit = *anyEdit();
        const unsigned bit = *rc::gen::arbitrary<unsigned>();
        const TamperedStore store(shortLog());
        const AuditVerdict verdict = store.tamperAndVerify([&](Tamperer& t) { applyEdit(t, edit, bit); });
        RC_LOG() << edit.column << " of event " << edit.seq << ": " << verdict.detail;
        RC_ASSERT(verdict.kind == kAltered);
        RC_ASSERT(verdict.seq == edit.seq);
        ++found;
    });
    EXPECT_TRUE(held);
    EXPECT_GE(found, wanted);
}

}  // namespace
}  // namespace gradus
