// The audit verbs: what happened, whether the log is whole, and what may be done to it on the record.

#include <chrono>
#include <functional>
#include <thread>

#include "pipeline/service/project.h"
#include "store/store.h"
#include "tests/pipeline/end_to_end/program.h"
#include "tests/support/case.h"
#include "tests/support/sample_store.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Audit : public ProgramTest {
  protected:
    /// Two changes that climbed, one yesterday and one a week before, beside the trusted rules of the project.
    void history() {
        FakeClock clock;
        SystemRandom random;
        const SystemClock today;
        clock.set(today.now() - std::chrono::hours(24 * 8));
        Store store = Store::openForWriting(stateDirectory(), {.clock = clock, .random = random});
        Climb climb;
        store.write([&](Writer& w) {
            climb.actor = w.actor({ActorKind::kAgent, "fixer"});
            climb.project = w.project(identify(fs::canonical(project)), climb.actor);
            climb.whole(w, "An old change");
        });
        clock.set(today.now() - std::chrono::hours(24));
        store.write([&](Writer& w) { climb.whole(w, "A \x1b[31mnew change"); });
    }

    Words query(const Words& flags) {
        Words words{"audit", "query"};
        words.insert(words.end(), flags.begin(), flags.end());
        return words;
    }
    std::size_t count(const Words& flags) { return runJson(query(flags))["data"]["events"].size(); }

    void expectVerdict(std::string_view kind, std::int64_t seq) {
        const Ended ended = run({"audit", "verify", "--json"});
        EXPECT_EQ(ended.exit, 1) << ended.out;
        const Json answer = ended.json();
        EXPECT_EQ(answer["ok"], false);
        EXPECT_EQ(answer["error"]["code"], kind) << answer;
        EXPECT_NE(answer["error"]["hint"], "");
        EXPECT_EQ(answer["data"]["kind"], kind);
        EXPECT_EQ(answer["data"]["first_bad_seq"], seq) << answer;
        const Ended text = run({"audit", "verify"});
        EXPECT_EQ(text.exit, 1);
        EXPECT_TRUE(has(text.err, std::string(kind) + " at event " + std::to_string(seq)));
    }
};

// --- verify ---

TEST_F(Audit, VerifyOfNothingIsNoProof) {
    const Ended ended = run({"audit", "verify", "--json"});
    EXPECT_EQ(ended.exit, 2);
    EXPECT_EQ(ended.json()["ok"], false);
    EXPECT_FALSE(fs::exists(state));
}

TEST_F(Audit, AWriteThatIsNotAnchoredSaysSo) {
    trusted();
    fs::remove(state / "anchor");
    const Ended ended = run({"audit", "redact", "3"});
    EXPECT_EQ(ended.exit, 0);
    EXPECT_TRUE(has(ended.err, "warning: the newest events are not anchored")) << ended.err;
}

TEST_F(Audit, NothingIsWrittenUnderAKeyOrAnAnchorOfAnotherLog) {
    trusted();
    const std::string key = bytesOf(state / "audit.key");
    writeBytes(state / "audit.key", "gradus-audit-key 1 " + std::string(64, 'a') + "\n");
    EXPECT_EQ(run({"audit", "redact", "3"}).exit, 6);
    writeBytes(state / "audit.key", key);
    std::string anchor = bytesOf(state / "anchor");
    anchor.replace(16, 32, std::string(32, '0'));
    writeBytes(state / "anchor", anchor);
    const Ended ended = run({"audit", "redact", "3"});
    EXPECT_EQ(ended.exit, 6);
    EXPECT_TRUE(has(ended.err, "belongs to another log")) << ended.err;
}

TEST_F(Audit, AWholeAnchorIsNotReplaced) {
    trusted();
    EXPECT_EQ(run({"audit", "reanchor"}).exit, 4);
    EXPECT_EQ(run({"audit", "verify"}).exit, 0);
}

TEST_F(Audit, VerifyOfAWholeLogIsOk) {
    trusted();
    const Ended ended = run({"audit", "verify", "--json"});
    EXPECT_EQ(ended.exit, 0);
    EXPECT_EQ(ended.json()["data"]["kind"], "ok");
    EXPECT_EQ(ended.json()["data"]["first_bad_seq"], nullptr);
    EXPECT_TRUE(has(run({"audit", "verify"}).out, "ok  4 events"));
}

TEST_F(Audit, VerifyNamesAnAlteredEvent) {
    GRADUS_CASES("DL6", "I12");
    trusted();
    edit("update event set at = at + 1 where seq = 3");
    expectVerdict("altered", 3);
}

TEST_F(Audit, VerifyNamesAnAlteredText) {
    trusted();
    edit("update payload set text = replace(text, 'shop', 'shup') where seq = 3");
    expectVerdict("altered", 3);
}

TEST_F(Audit, VerifyNamesADeletedEvent) {
    GRADUS_CASES("DL6", "I12");
    trusted();
    edit("delete from payload where seq = 2; delete from event where seq = 2");
    expectVerdict("deleted", 2);
}

TEST_F(Audit, VerifyNamesADeletedText) {
    trusted();
    edit("delete from payload where seq = 3");
    expectVerdict("deleted", 3);
}

TEST_F(Audit, VerifyNamesReorderedEvents) {
    GRADUS_CASES("DL6", "I12");
    trusted();
    edit(
        "update event set seq = 1000 where seq = 2; update event set seq = 2 where seq = 3;"
        "update event set seq = 3 where seq = 1000;"
        "update payload set seq = 1000 where seq = 2; update payload set seq = 2 where seq = 3;"
        "update payload set seq = 3 where seq = 1000");
    expectVerdict("reordered", 2);
}

TEST_F(Audit, VerifyNamesAnInsertedEvent) {
    GRADUS_CASES("DL6");
    trusted();
    edit(
        "update event set seq = 5 where seq = 4;"
        "insert into event (seq, at, batch, kind, body, hash)"
        " values (4, 1772366400000, 0, 'clock.went-back', '{\"by-ms\":5000}', zeroblob(32))");
    expectVerdict("inserted", 4);
}

TEST_F(Audit, VerifyNamesACutTail) {
    GRADUS_CASES("I12");
    trusted();
    edit("delete from event where seq = 4; delete from trusted_rules");
    expectVerdict("truncated", 4);
}

TEST_F(Audit, VerifyNamesALogThatIsWholeButAnotherOne) {
    GRADUS_CASES("I12");
    trusted();
    variables["GRADUS_HOME"] = scratch / "other";
    trusted();
    variables["GRADUS_HOME"] = state;
    for (const char* file : {"state.db", "state.db-wal", "state.db-shm"}) {
        fs::remove(state / file);
        if (fs::exists(scratch / "other" / file)) fs::copy(scratch / "other" / file, state / file);
    }
    expectVerdict("rewritten", 1);
}

TEST_F(Audit, VerifyNamesAnEditedTableAndRebuildCuresIt) {
    GRADUS_CASES("I13");
    trusted();
    edit("update trusted_rules set rules = zeroblob(32)");
    expectVerdict("state-mismatch", 4);
    EXPECT_EQ(run({"store", "rebuild"}).exit, 0);
    EXPECT_EQ(run({"audit", "verify"}).exit, 0);
    EXPECT_EQ(runJson({"status"})["data"]["rules"], "trusted");
}

TEST_F(Audit, VerifyNamesALostAnchorAndReanchorIsOnTheRecord) {
    trusted();
    fs::remove(stateDirectory().anchor());
    expectVerdict("unanchored-since", 1);
    EXPECT_EQ(run({"audit", "reanchor"}).exit, 0);
    EXPECT_EQ(run({"audit", "verify"}).exit, 0);
    EXPECT_EQ(count({"--event", "log.reanchored"}), 1U);
}

TEST_F(Audit, VerifyNamesTheLineOfAnAnchorThatMakesNoSense) {
    trusted();
    writeBytes(stateDirectory().anchor(), "rubbish\n");
    const Ended ended = run({"audit", "verify"});
    EXPECT_EQ(ended.exit, 6) << ended.err;
    EXPECT_TRUE(has(ended.err, stateDirectory().anchor().native()));
}

TEST_F(Audit, ALostDatabaseIsNoEmptyLog) {
    trusted();
    for (const char* file : {"state.db", "state.db-wal", "state.db-shm"}) fs::remove(state / file);
    for (const Words& words : {Words{"audit", "verify"}, Words{"status"}, Words{"trust", "--yes"},
                               Words{"audit", "query"}, Words{"audit", "reanchor"}}) {
        const Ended ended = run(words);
        EXPECT_EQ(ended.exit, 6) << words[0] << ended.out;
        EXPECT_TRUE(has(ended.err, "state.db is gone"));
        EXPECT_TRUE(has(ended.err, "help: restore the database"));
    }
    EXPECT_FALSE(fs::exists(state / "state.db"));
}

// --- query ---

TEST_F(Audit, QueryOfNothingMatchesNothing) {
    const Ended ended = run({"audit", "query"});
    EXPECT_EQ(ended.exit, 0);
    EXPECT_EQ(ended.out, "no event matches\n");
    EXPECT_EQ(run(query({"--ndjson"})).out, "");
    EXPECT_EQ(count({}), 0U);
}

TEST_F(Audit, QueryTakesAgesAndMoments) {
    history();
    const std::size_t all = count({"--limit", "1000"});
    const std::size_t one = count({"--limit", "1000", "--change", "c2"});
    EXPECT_EQ(count({"--limit", "1000", "--since", "2d"}), one);
    EXPECT_EQ(count({"--limit", "1000", "--until", "2d"}), all - one);
    EXPECT_EQ(count({"--limit", "1000", "--since", "9d", "--until", "2d"}), all - one);
    EXPECT_EQ(count({"--since", "1h"}), 0U);
    EXPECT_EQ(count({"--limit", "1000", "--since", "1970-01-01T00:00:00Z"}), all);
    EXPECT_EQ(count({"--limit", "1000", "--until", "2001-02-03T04:05:06+02:00"}), 0U);
}

TEST_F(Audit, QueryNarrowsByEveryFlag) {
    history();
    trusted();
    for (const auto& [flag, value, field, wanted] :
         {std::tuple{"--actor", "fixer", "actor", "agent:fixer"}, std::tuple{"--stage", "local", "stage", "local"},
          std::tuple{"--change", "c1", "change", "c1"},
          std::tuple{"--event", "check.finished", "event", "check.finished"}}) {
        const Json events = runJson(query({flag, value}))["data"]["events"];
        EXPECT_FALSE(events.empty()) << flag;
        for (const Json& event : events) EXPECT_EQ(event[field], wanted) << event;
    }
    const Json events = runJson(query({"--project", "."}))["data"]["events"];
    for (const Json& event : events) EXPECT_EQ(event["project"], fs::canonical(project).native());
    EXPECT_EQ(count({"--stage", "local", "--event", "check.finished"}), 2U);
}

TEST_F(Audit, QueryKeepsTheNewest) {
    history();
    const Json events = runJson(query({"-n", "3"}))["data"]["events"];
    ASSERT_EQ(events.size(), 3U);
    EXPECT_EQ(events[2]["seq"].get<std::int64_t>(), this->events());
    EXPECT_LT(events[0]["seq"], events[1]["seq"]);
}

TEST_F(Audit, QueryAsLinesIsOneObjectEach) {
    history();
    const std::string out = run(query({"--ndjson", "--limit", "5"})).out;
    std::istringstream lines(out);
    int seen = 0;
    for (std::string line; std::getline(lines, line); ++seen)
        EXPECT_TRUE(Json::parse(line, nullptr, false).contains("seq"));
    EXPECT_EQ(seen, 5);
}

TEST_F(Audit, QueryShowsNoTextThatATerminalWouldObey) {
    history();
    const Ended ended = run(query({"--event", "change.submitted"}));
    EXPECT_EQ(ended.out.find('\x1b'), std::string::npos);
    EXPECT_TRUE(has(ended.out, "A \\x1b[31mnew change"));
}

TEST_F(Audit, QueryExplainsEveryValueItDoesNotUnderstand) {
    history();
    for (const Words& flags : {Words{"--since", "banana"},
                               Words{"--since", ""},
                               Words{"--since", "2026-03-01"},
                               Words{"--since", "-2d"},
                               Words{"--until", "2026-13-01T00:00:00Z"},
                               Words{"--limit", "0"},
                               Words{"--limit", "-1"},
                               Words{"--limit", "1e3"},
                               Words{"--limit", "99999999999999999999"},
                               Words{"--event", "rules.trustd"},
                               Words{"--change", "x"},
                               Words{"--change", "c0"},
                               Words{"--change", "p1"},
                               Words{"--change", "c99"},
                               Words{"--actor", "nobody"},
                               Words{"--since", "1d", "--until", "2d"},
                               Words{"--frm"},
                               Words{"--stage"},
                               Words{"--project", "/no/such/place"},
                               Words{"stray"}}) {
        const Ended ended = run(query(flags));
        EXPECT_EQ(ended.exit, 2) << flags[0] << " " << flags.back() << ended.err;
        EXPECT_TRUE(has(ended.err, "error: ")) << flags[0];
        EXPECT_TRUE(has(ended.err, "help: ")) << flags[0] << " " << flags.back();
        EXPECT_EQ(ended.out, "") << flags[0];
    }
}

bool within(std::chrono::seconds patience, const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!holds()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(20ms);
    }
    return true;
}

TEST_F(Audit, FollowPicksUpWhatHappensNext) {
    trusted();
    const auto follower = startGradus(query({"--follow", "--ndjson", "--event", "rules.trusted"}));
    ASSERT_TRUE(within(20s, [&] { return has(follower->outSoFar(), "rules.trusted"); }));
    rules(std::string(kGoodRules) + "# a remark\n");
    ASSERT_EQ(run({"trust", "--yes"}).exit, 0);
    EXPECT_TRUE(within(20s, [&] { return std::ranges::count(follower->outSoFar(), '\n') == 2; }))
        << follower->outSoFar();
}

TEST_F(Audit, FollowMayStartBeforeThereIsAnything) {
    const auto follower = startGradus(query({"--follow"}));
    trusted();
    EXPECT_TRUE(within(20s, [&] { return has(follower->outSoFar(), "rules.trusted"); })) << follower->outSoFar();
}

// --- redact, reanchor ---

TEST_F(Audit, RedactTakesTheTextAndLeavesALogThatVerifies) {
    GRADUS_CASES("DL10");
    trusted();
    EXPECT_TRUE(has(run({"audit", "query"}).out, project.filename().native()));
    ASSERT_EQ(run({"audit", "redact", "3"}).exit, 0);
    const Json event = runJson(query({"--event", "project.registered"}))["data"]["events"][0];
    EXPECT_EQ(event["redacted"], true);
    EXPECT_EQ(event["payload"], nullptr);
    const Json verdict = runJson({"audit", "verify"})["data"];
    EXPECT_EQ(verdict["kind"], "ok");
    EXPECT_EQ(verdict["redacted"], 1);
    for (const auto& file : fs::directory_iterator(state))
        EXPECT_EQ((file.is_directory() ? "" : bytesOf(file)).find(fs::canonical(project).native()), std::string::npos)
            << file.path();
}

TEST_F(Audit, RedactRefusesWhatIsNoEventWithText) {
    trusted();
    const std::int64_t before = events();
    for (const char* seq : {"0", "-3", "x", "3x", "", "99", "1", "99999999999999999999", "3.0", "+3"}) {
        const Ended ended = run({"audit", "redact", "--", seq});
        EXPECT_EQ(ended.exit, 2) << seq << ended.err;
        EXPECT_TRUE(has(ended.err, "help: ")) << seq;
    }
    EXPECT_EQ(run({"audit", "redact"}).exit, 2);
    EXPECT_EQ(events(), before);
}

TEST_F(Audit, RedactTwiceSaysThatItIsGone) {
    trusted();
    ASSERT_EQ(run({"audit", "redact", "3"}).exit, 0);
    const std::int64_t before = events();
    EXPECT_EQ(run({"audit", "redact", "3"}).exit, 2);
    EXPECT_EQ(events(), before);
}

TEST_F(Audit, RedactAndReanchorAreNotForAgents) {
    trusted();
    const std::int64_t before = events();
    variables["GRADUS_ACTOR"] = "agent:fixer";
    EXPECT_EQ(run({"audit", "redact", "3"}).exit, 4);
    EXPECT_EQ(run({"audit", "reanchor"}).exit, 4);
    EXPECT_EQ(events(), before);
}

TEST_F(Audit, RedactAndReanchorMakeNoStoreOfTheirOwn) {
    for (const Words& words : {Words{"audit", "redact", "3"}, Words{"audit", "reanchor"}, Words{"store", "rebuild"},
                               Words{"store", "check"}, Words{"store", "stats"}, Words{"store", "backup", "copy"}}) {
        const Ended ended = run(words);
        EXPECT_EQ(ended.exit, 2) << words[1] << ended.err;
        EXPECT_TRUE(has(ended.err, "there is no store at " + state.native()));
        EXPECT_TRUE(has(ended.err, "help: "));
    }
    EXPECT_FALSE(fs::exists(state));
}

}  // namespace
}  // namespace gradus::test
