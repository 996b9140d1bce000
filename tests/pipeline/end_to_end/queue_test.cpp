// Several that want into one stage, and what is looked at afterwards, with the real program.
#include <algorithm>

#include "tests/pipeline/end_to_end/climbing_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;

/// A sandbox and a production whose health is what a file beside it says.
class Queue : public ClimbingProgram {
  protected:
    void begin(const std::string& stage = {}, const std::string& policy = {}) {
        repository();
        edit("gradus.toml",
             fmt::format("[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"production\"]\n"
                         "[check.unit]\nrun = [\"sh\", \"-c\", \"true\"]\n"
                         "[check.health]\nrun = [\"sh\", \"{}\"]\non = \"host\"\nwhen = \"after\"\nretries = 0\n"
                         "interval = \"100ms\"\n"
                         "[stage.sandbox]\nchecks = [\"unit\"]\n"
                         "[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\nchecks = [\"unit\", "
                         "\"health\"]\n{}\n"
                         "[policy.production]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n{}\n",
                         (scratch / "health").native(), production.native(), stage, policy));
        health("exit 0");
        commitAll("rules");
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
    /// What the after check does from now on.
    void health(const std::string& script) { test::writeBytes(scratch / "health", script + "\n"); }
    /// It takes until release() before its after check ends: somebody is at work there.
    std::unique_ptr<Running> busy(const std::string& change) {
        health(fmt::format("while ! test -e '{}'; do sleep 0.05; done", (scratch / "go").native()));
        auto running = startCommand({GRADUS_PROGRAM, "promote", change, "--json"});
        awaitLine("verifying");
        return running;
    }
    void release() { test::writeBytes(scratch / "go", ""); }
    /// Of production, by state.
    void awaitLine(const std::string& wanted, std::size_t count = 1) {
        std::size_t seen = 0;
        for (int i = 0; i < 600 && seen != count; ++i) {
            seen = 0;
            for (const Json& one : line()) seen += one["state"] == wanted ? 1 : 0;
            if (seen != count) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        ASSERT_EQ(seen, count) << wanted;
    }
    Json line() { return gradusJson({"status"})["data"]["stages"][1]["queue"]; }
    std::string change(const std::string& name) { return changed(fmt::format("echo {0} > {0}.txt", name)); }
    static Json last(const Ended& ended) { return ended.json()["data"]["stages"].back(); }
    /// Changes in the order in which they came into production.
    std::vector<std::string> landed() {
        std::vector<std::string> changes;
        const std::string lines = gradus({"audit", "query", "--event", "promotion.moved", "--ndjson"}).out;
        for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
            const Json event = Json::parse(lines.substr(at, lines.find('\n', at) - at));
            const Json& fields = event.contains("fields") ? event["fields"] : event["body"];
            if (event["stage"] == "production" && fields["to"] == "promoted") changes.push_back(event["change"]);
        }
        return changes;
    }
};
INSTANTIATE_TEST_SUITE_P(Users, Queue, testing::Values(test::As::kSelf), test::nameOfUser);

TEST_P(Queue, ThreeThatWantIntoOneStageLandInTheOrderInWhichTheyCame) {
    GRADUS_CASES("I15");
    begin();
    const std::string first = change("first");
    const std::string second = change("second");
    const std::string third = change("third");
    const auto one = busy(first);
    const auto two = startCommand({GRADUS_PROGRAM, "promote", second, "--wait", "--json"});
    awaitLine("waiting", 1);
    const auto three = startCommand({GRADUS_PROGRAM, "promote", third, "--wait", "--json"});
    awaitLine("waiting", 2);
    const Json queue = line();
    ASSERT_EQ(queue.size(), 3U) << queue.dump(2);
    EXPECT_EQ(queue[1]["change"], second);
    EXPECT_TRUE(has(queue[1].value("reason", ""), "before it: p2")) << queue.dump(2);
    EXPECT_EQ(queue[2]["change"], third);
    EXPECT_FALSE(queue[2]["expires_at"].is_null());
    EXPECT_TRUE(has(gradus({"status"}).out, second + " into production: waiting for "));
    EXPECT_TRUE(has(gradus({"why", third}).out, "before it: p2, p4")) << gradus({"why", third}).out;
    release();
    for (const auto& running : {one.get(), two.get(), three.get()}) {
        const Ended ended = running->wait();
        EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
    EXPECT_EQ(landed(), (std::vector{first, second, third}));
    for (const char* name : {"first", "second", "third"})
        EXPECT_EQ(bytesOf(production / "current" / (std::string(name) + ".txt")), std::string(name) + "\n");
    EXPECT_TRUE(line().empty());
    expectWhole();
}

TEST_P(Queue, WithoutWaitingItKeepsItsPlaceAndTheNextCommandDrivesIt) {
    begin();
    const std::string first = change("first");
    const std::string second = change("second");
    const std::string third = change("third");
    const auto one = busy(first);
    const Ended waits = gradus({"promote", second, "--json"});
    EXPECT_EQ(waits.exit, 8) << waits.out << waits.err;
    EXPECT_EQ(last(waits)["promotion"]["state"], "waiting");
    release();
    EXPECT_EQ(one->wait().exit, 0);
    const Ended next = gradus({"promote", third, "--json"});
    EXPECT_EQ(next.exit, 0) << next.out << next.err;
    EXPECT_EQ(next.json()["data"]["others"][0]["promotion"]["state"], "promoted") << next.out;
    EXPECT_EQ(landed(), (std::vector{first, second, third}));
    expectWhole();
}

TEST_P(Queue, AFullQueueRefusesAndARollbackIsNot) {
    GRADUS_CASES("I17");
    begin("", "queue = 2\napprovals = [{ count = 1, role = \"sre\" }]\n[role.sre]\nmembers = [\"ben\"]");
    const std::string good = change("good");
    variables["GRADUS_ACTOR"] = "person:ben";
    ASSERT_EQ(gradus({"approve", good, "--to", "production"}).exit, 0);
    variables["GRADUS_ACTOR"] = "person:alice";
    ASSERT_EQ(gradus({"promote", good}).exit, 0);
    for (const char* name : {"second", "third"}) EXPECT_EQ(gradus({"promote", change(name)}).exit, 8);
    const Ended full = gradus({"promote", change("fourth"), "--json"});
    EXPECT_EQ(full.exit, 7) << full.out << full.err;
    const Json error = full.json()["error"];
    EXPECT_TRUE(has(error.value("message", ""), "the queue of production is full: 2 wait or are under way"));
    EXPECT_TRUE(has(error.value("message", ""), "gradus.toml:"));
    EXPECT_TRUE(has(error.value("hint", ""), "gradus cancel p")) << full.out;
    EXPECT_EQ(line().size(), 2U);
    const Ended back = gradus({"rollback", "production"});
    EXPECT_EQ(back.exit, 0) << back.out << back.err;
    EXPECT_FALSE(std::filesystem::exists(production / "current/good.txt"));
    expectWhole();
}

TEST_P(Queue, WhatIsReplacedNamesWhatTookItsPlace) {
    GRADUS_CASES("I14");
    begin("", "approvals = [{ count = 1, role = \"sre\" }]\n[role.sre]\nmembers = [\"ben\"]");
    edit("lines.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    commitAll("lines");
    const std::string one = changed("sed -i s/2/two/ lines.txt");
    ASSERT_EQ(gradus({"promote", one}).exit, 8);
    edit("lines.txt", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    commitAll("the ground moves");
    const Ended rebased = gradus({"promote", one, "--rebase", "--json"});
    EXPECT_EQ(rebased.exit, 8) << rebased.out << rebased.err;
    const Json now = last(rebased)["promotion"];
    EXPECT_NE(now["change"], one + ".1");
    const Json old = gradusJson({"why", "p2"})["data"]["promotion"];
    EXPECT_EQ(old["state"], "superseded") << old.dump(2);
    EXPECT_EQ(old["reason"], fmt::format("{} took its place with {}", now.value("change", ""), now.value("id", "")));
    expectWhole();
}

TEST_P(Queue, TimeInWhichTheProcessWasStoppedIsSoakedAgain) {
    begin("soak = \"4s\"");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", change("first"), "--json"});
    awaitLine("soaking");
    running->send(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(3500));
    running->send(SIGCONT);
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    const std::string lines = gradus({"audit", "query", "--event", "promotion.watched", "--ndjson"}).out;
    EXPECT_TRUE(has(lines, "\"gap-ms\":3")) << lines;
    const std::string told = gradus({"audit", "timeline"}).out;
    EXPECT_TRUE(has(told, "do not count")) << told;
    expectWhole();
}

TEST_P(Queue, KilledWhileItSoaksTheNextCommandGoesOn) {
    GRADUS_CASES("CR1");
    begin("soak = \"2s\"");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", change("first"), "--json"});
    awaitLine("soaking");
    running->stop(SIGKILL);
    EXPECT_EQ(gradusJson({"status"})["data"]["need_recovery"], 1);
    const Ended ended = gradus({"recover", "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(ended.json()["data"]["recovered"][0]["was"], "soaking") << ended.out;
    EXPECT_EQ(stateOf("p2"), "promoted");
    expectWhole();
}

TEST_P(Queue, WhatFailsLongAfterItWasPromotedIsTakenBackByANewPromotion) {
    GRADUS_CASES("I2", "I20", "I23");
    begin("monitor = \"24h\"");
    ASSERT_EQ(gradus({"promote", change("good")}).exit, 0);
    ASSERT_EQ(gradus({"promote", change("bad")}).exit, 0);
    const Ended well = gradus({"monitor", "production", "--for", "1s", "--json"});
    EXPECT_EQ(well.exit, 0) << well.out << well.err;
    EXPECT_GT(well.json()["data"]["monitored"][0].value("counted_ms", 0), 500) << well.out;
    EXPECT_FALSE(gradusJson({"status"})["data"]["stages"][1]["monitor"].is_null());
    health("echo the disk is full; exit 1");
    const Ended failed = gradus({"monitor", "--json"});
    EXPECT_EQ(failed.exit, 5) << failed.out << failed.err;
    const Json back = failed.json()["data"]["taken_back"][0]["promotion"];
    EXPECT_EQ(back["undoes"], "p4") << failed.out;
    EXPECT_EQ(back["state"], "promoted");
    EXPECT_TRUE(has(back.value("reason", ""), "it was well here for")) << failed.out;
    EXPECT_EQ(stateOf("p4"), "promoted") << "an end is final";
    EXPECT_FALSE(std::filesystem::exists(production / "current/bad.txt"));
    EXPECT_EQ(bytesOf(production / "current/good.txt"), "good\n");
    EXPECT_TRUE(has(gradus({"status"}).out, "held")) << gradus({"status"}).out;
    const Ended nothing = gradus({"monitor", "--json"});
    EXPECT_EQ(nothing.exit, 0) << "what came back is not taken back as well: " << nothing.out;
    EXPECT_EQ(bytesOf(production / "current/good.txt"), "good\n");
    expectWhole();
}

TEST_P(Queue, SixHoursAfterItWasPromotedWhoeverComesNextFindsItFailing) {
    GRADUS_CASES("I20", "I23");
    begin("monitor = \"24h\"");
    ASSERT_EQ(gradus({"promote", change("good")}).exit, 0);
    ASSERT_EQ(gradus({"promote", change("bad")}).exit, 0);
    const std::string next = change("next");
    health("test ! -e bad.txt");
    if (const std::string cannot = clockOff("+6h"); !cannot.empty()) GTEST_SKIP() << cannot;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until the next look is due
    const Ended ended = gradus({"promote", next});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.err, "p4 failed in production and was taken back by p")) << ended.err;
    EXPECT_FALSE(std::filesystem::exists(production / "current/bad.txt"));
    EXPECT_EQ(bytesOf(production / "current/good.txt"), "good\n");
    EXPECT_EQ(bytesOf(production / "current/next.txt"), "next\n");
    expectWhole();
}

// The clock is set, the machine counts on: what is waited for and soaked is measured by what it counts.
TEST_P(Queue, AClockThatIsSetShortensNothingAndLosesNothing) {
    GRADUS_CASES("CR10", "I18");
    begin("", "wait-limit = \"1h\"\napprovals = [{ count = 1, role = \"sre\" }]\n[role.sre]\nmembers = [\"ben\"]");
    const std::string waits = change("first");
    ASSERT_EQ(gradus({"promote", waits}).exit, 8);
    if (const std::string cannot = clockOff("+3650d"); !cannot.empty()) GTEST_SKIP() << cannot;
    EXPECT_TRUE(gradus({"recover", "--json"}).json()["data"]["expired"].empty()) << "not an hour has passed";
    EXPECT_EQ(stateOf("p2"), "waiting");
    const std::string second = change("second");
    ASSERT_EQ(gradus({"promote", second}).exit, 8);
    clockOff("-1d");
    ASSERT_EQ(as("person:ben", {"approve", waits, "--to", "production"}).exit, 0);
    EXPECT_EQ(gradus({"promote", waits}).exit, 0);
    EXPECT_EQ(bytesOf(production / "current/first.txt"), "first\n");
    EXPECT_TRUE(has(gradus({"audit", "query"}).out, "clock.went-back")) << gradus({"audit", "query"}).out;
    expectWhole();
}

TEST_P(Queue, WhoBringsSomethingInLooksFirst) {
    begin("monitor = \"24h\"");
    ASSERT_EQ(gradus({"promote", change("good")}).exit, 0);
    ASSERT_EQ(gradus({"promote", change("bad")}).exit, 0);
    const std::string next = change("next");
    health("test ! -e bad.txt");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until the next look is due
    const Ended ended = gradus({"promote", next});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.err, "p4 failed in production and was taken back by p")) << ended.err;
    EXPECT_FALSE(std::filesystem::exists(production / "current/bad.txt"));
    EXPECT_EQ(bytesOf(production / "current/next.txt"), "next\n");
    expectWhole();
}

TEST_P(Queue, WhatWaitedTooLongIsExpired) {
    begin("", "wait-limit = \"1s\"\napprovals = [{ count = 1, role = \"sre\" }]\n[role.sre]\nmembers = [\"ben\"]");
    ASSERT_EQ(gradus({"promote", change("first")}).exit, 8);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    const Ended ended = gradus({"recover", "--json"});
    EXPECT_EQ(ended.json()["data"]["expired"][0], "p2") << ended.out << ended.err;
    EXPECT_EQ(stateOf("p2"), "expired");
    expectWhole();
}

}  // namespace
}  // namespace gradus
