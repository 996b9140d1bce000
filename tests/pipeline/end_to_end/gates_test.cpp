// What people say and what then may pass, with the real program: approvals, windows, holds, vetoes, halts, overrides.
#include <algorithm>
#include <ctime>

#include "tests/pipeline/end_to_end/climbing_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;

/// A work tree and a production that asks for consent; alice makes and promotes, ben and others consent.
class Gates : public ClimbingProgram {
  protected:
    void trusted(const std::string& policy, const std::string& rest = {}, const std::string& checks = "\"unit\"") {
        edit("gradus.toml",
             fmt::format("[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"production\"]\n"
                         "[check.unit]\nrun = \"./check production\"\n[stage.sandbox]\nchecks = [\"unit\"]\n"
                         "[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\nchecks = [{}]\n"
                         "[role.sre]\nmembers = [\"ben\", \"sue\"]\n[role.override]\nmembers = [\"olga\"]\n"
                         "[policy.production]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n{}\n{}\n",
                         production.native(), checks, policy, rest));
        commitAll("rules");
        const Ended ended = as("person:alice", {"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
    void begin(const std::string& policy, const std::string& rest = {}) {
        repository();
        trusted(policy, rest);
        variables["GRADUS_ACTOR"] = "person:alice";
    }
    std::string inProduction() {
        return std::filesystem::exists(production / "current/app.txt") ? bytesOf(production / "current/app.txt") : "";
    }
    /// The gate of the last decision that a command told of.
    static Json gateOf(const Json& gates, const std::string& name) {
        for (const Json& gate : gates)
            if (gate["gate"] == name) return gate;
        return {{"state", "not told"}, {"reason", ""}, {"rule", ""}, {"unblock", Json::array()}};
    }
    Json gate(const std::string& what, const std::string& name) {
        const Json json = gradusJson({"why", what});
        return gateOf(json["data"].value("gates", Json::array()), name);
    }
    std::int64_t count(const std::string& kind) {
        const std::string lines = gradus({"audit", "query", "--event", kind, "--ndjson"}).out;
        return std::count(lines.begin(), lines.end(), '\n');
    }
};
INSTANTIATE_TEST_SUITE_P(Users, Gates, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

constexpr const char* kOneYes = "approvals = [{ count = 1, role = \"sre\", expires = \"12h\" }]";

TEST_P(Gates, WhatNeedsAnApprovalWaitsAndEntersWhenItIsGiven) {
    GRADUS_CASES("I21");
    begin(kOneYes);
    const std::string change = changed("echo v2 > app.txt");
    const Ended waits = gradus({"promote", change, "--json"});
    EXPECT_EQ(waits.exit, 8) << waits.out << waits.err;
    EXPECT_EQ(inProduction(), "");
    const Json why = gate(change, "approvals");
    EXPECT_EQ(why["state"], "closed") << why.dump();
    EXPECT_TRUE(has(why.value("rule", ""), "gradus.toml:"));
    EXPECT_TRUE(has(why["unblock"].dump(), "role sre"));
    EXPECT_TRUE(has(waits.json()["next"].dump(), "gradus approve " + change));
    const Ended yes = as("person:ben", {"approve", change, "--reason", "looks right", "--json"});
    ASSERT_EQ(yes.exit, 0) << yes.out << yes.err;
    EXPECT_FALSE(yes.json()["data"]["approval"]["evidence"].is_null()) << "it is bound to what was proven";
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
    EXPECT_EQ(inProduction(), "v2\n");
    EXPECT_EQ(count("approval.used"), 1);
    expectWhole();
}

TEST_P(Gates, AnEarlyApprovalIsKept) {
    GRADUS_CASES("I21");
    begin(kOneYes);
    const std::string change = changed("echo v2 > app.txt");
    const Ended early = as("person:ben", {"approve", change, "--to", "production", "--json"});
    ASSERT_EQ(early.exit, 0) << early.out << early.err;
    EXPECT_TRUE(early.json()["data"]["approval"]["evidence"].is_null());
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
    EXPECT_EQ(inProduction(), "v2\n");
    expectWhole();
}

TEST_P(Gates, AnApprovalIsUsedOnce) {
    GRADUS_CASES("I9");
    begin(kOneYes);
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(as("person:ben", {"approve", change, "--to", "production"}).exit, 0);
    ASSERT_EQ(gradus({"promote", change}).exit, 0);
    ASSERT_EQ(gradus({"rollback", "production"}).exit, 0);
    const Ended again = gradus({"promote", change, "--json"});
    EXPECT_EQ(again.exit, 8) << again.out << again.err;
    EXPECT_EQ(inProduction(), "");
    EXPECT_TRUE(has(gradus({"why", change}).out, "was used by p"));
    expectWhole();
}

TEST_P(Gates, AnApprovalExpires) {
    GRADUS_CASES("I9");
    begin("approvals = [{ count = 1, expires = \"2h\" }]");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(as("person:ben", {"approve", change, "--to", "production"}).exit, 0);
    if (const std::string cannot = clockOff("+121m"); !cannot.empty()) GTEST_SKIP() << cannot;
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    EXPECT_EQ(inProduction(), "");
    EXPECT_TRUE(has(gradus({"why", change}).out, "expired")) << gradus({"why", change}).out;
    ASSERT_EQ(as("person:ben", {"approve", change, "--to", "production"}).exit, 0);
    clockOff("+240m");
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
    EXPECT_EQ(inProduction(), "v2\n");
    expectWhole();
}

TEST_P(Gates, NeitherTheAuthorNorAMachineNorAStrangerToTheRoleApproves) {
    GRADUS_CASES("I10");
    begin(kOneYes);
    const std::string change = changed("echo v2 > app.txt");
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    const std::int64_t recorded = events();
    for (const char* actor : {"person:alice", "agent:ben", "daemon:ben", "ci:ben", "person:carl"}) {
        const Ended no = as(actor, {"approve", change, "--json"});
        EXPECT_EQ(no.exit, 4) << actor << no.out << no.err;
        EXPECT_EQ(no.json()["error"]["code"], "not-allowed");
    }
    EXPECT_EQ(events(), recorded);
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    EXPECT_EQ(inProduction(), "");
}

TEST_P(Gates, TheSponsorOfAnAgentApprovesUnlessThePolicySaysNot) {
    GRADUS_CASES("I10");
    begin("approvals = [{ count = 1 }]");
    variables["GRADUS_ACTOR"] = "agent:fixer";
    const std::string sandbox = sandboxWith("echo v2 > app.txt");
    const Json json = gradusJson({"submit", "--from-sandbox", sandbox, "--sponsor", "sue"});
    const std::string change = json["data"]["change"].value("id", "c0");
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    EXPECT_EQ(as("agent:fixer", {"approve", change}).exit, 4);
    EXPECT_EQ(as("person:sue", {"approve", change}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
    EXPECT_EQ(inProduction(), "v2\n");

    trusted("approvals = [{ count = 1, not = [\"sponsor\"] }]");
    variables["GRADUS_ACTOR"] = "agent:fixer";
    const std::string other = sandboxWith("echo v3 > lib/util.txt");
    const Json second = gradusJson({"submit", "--from-sandbox", other, "--sponsor", "sue"});
    const std::string next = second["data"]["change"].value("id", "c0");
    EXPECT_EQ(gradus({"promote", next}).exit, 8);
    EXPECT_EQ(as("person:sue", {"approve", next}).exit, 4);
    EXPECT_EQ(as("person:ben", {"approve", next}).exit, 0);
    EXPECT_EQ(gradus({"promote", next}).exit, 0);
    EXPECT_EQ(bytesOf(production / "current/lib/util.txt"), "v3\n");
    expectWhole();
}

TEST_P(Gates, WhenTheChangeMovedTheApprovalIsForSomethingElse) {
    GRADUS_CASES("I9");
    begin(kOneYes);
    edit("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    commitAll("a longer file");
    const std::string change = changed("sed -i s/2/two/ long.txt");
    ASSERT_EQ(as("person:ben", {"approve", change, "--to", "production"}).exit, 0);
    edit("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    ASSERT_EQ(gradus({"rebase", change}).exit, 0);
    EXPECT_EQ(as("person:ben", {"approve", change + ".1", "--to", "production"}).exit, 4);
    const Ended waits = gradus({"promote", change, "--json"});
    EXPECT_EQ(waits.exit, 8) << waits.out << waits.err;
    EXPECT_TRUE(has(gradus({"why", change}).out, "another revision"));
    EXPECT_EQ(inProduction(), "");
    expectWhole();
}

TEST_P(Gates, ANoEndsWhatWaitsAndMachinesDoNotTryAgain) {
    begin(kOneYes);
    variables["GRADUS_ACTOR"] = "agent:fixer";
    const std::string change = changed("echo v2 > app.txt");
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    EXPECT_EQ(as("agent:fixer", {"reject", change}).exit, 4);
    const Ended no = as("person:ben", {"reject", change, "--reason", "not now", "--json"});
    ASSERT_EQ(no.exit, 0) << no.out << no.err;
    EXPECT_EQ(no.json()["data"]["promotion"]["state"], "rejected");
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    EXPECT_EQ(gate(change, "hold")["state"], "closed");
    EXPECT_TRUE(has(gate(change, "hold").value("reason", ""), "not now"));
    expectWhole();
}

TEST_P(Gates, AnApprovalCanBeTakenBack) {
    begin(kOneYes);
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(as("person:ben", {"approve", change, "--to", "production"}).exit, 0);
    ASSERT_EQ(as("person:ben", {"approve", change, "--to", "production", "--withdraw"}).exit, 0);
    EXPECT_EQ(as("person:ben", {"approve", change, "--to", "production", "--withdraw"}).exit, 2);
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    expectWhole();
}

/// `deny` that is on now and ends in so long; no window is shorter than a minute.
std::string closedFor(std::chrono::seconds more) {
    const std::time_t end = std::time(nullptr) + more.count();
    const std::time_t begin = std::min(end - 60, std::time(nullptr)) / 60 * 60;
    std::tm parts{};
    ::gmtime_r(&begin, &parts);
    return fmt::format(
        "[[window]]\nstages = [\"production\"]\ndeny = {{ cron = \"{} {} * * *\", for = \"{}s\", timezone = \"UTC\" "
        "}}\n",
        parts.tm_min, parts.tm_hour, end - begin);
}

TEST_P(Gates, AClosedWindowOpensByItself) {
    begin("");
    const std::string change = changed("echo v2 > app.txt");
    trusted("", closedFor(std::chrono::seconds(10)));
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    const Json window = gate(change, "window");
    EXPECT_EQ(window["state"], "closed");
    EXPECT_TRUE(window.contains("next")) << window.dump();
    const Ended ended = gradus({"promote", change, "--wait", "--for", "60s"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.err, "waits for window"));
    EXPECT_EQ(inProduction(), "v2\n");
    expectWhole();
}

TEST_P(Gates, WaitingIsBoundedAndNotDoneForPeople) {
    begin("", closedFor(std::chrono::hours(1)));
    const std::string change = changed("echo v2 > app.txt");
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(gradus({"promote", change, "--wait", "--for", "1s"}).exit, 8);
    trusted(kOneYes);
    EXPECT_EQ(gradus({"promote", change, "--wait"}).exit, 8) << "only ben opens it";
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
    EXPECT_EQ(inProduction(), "");
}

TEST_P(Gates, AnInterruptWhileWaitingLeavesEverythingAsItWas) {
    begin("", closedFor(std::chrono::hours(1)));
    const std::string change = changed("echo v2 > app.txt");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", change, "--wait"});
    awaitState("p2", "waiting");
    running->send(SIGINT);
    EXPECT_EQ(running->wait().exit, 130);
    EXPECT_EQ(stateOf("p2"), "waiting");
    EXPECT_EQ(gradus({"cancel", "p2"}).exit, 0) << "nobody holds it";
    EXPECT_EQ(inProduction(), "");
    expectWhole();
}

TEST_P(Gates, ARollbackRunsThroughAClosedWindowAHaltAndAHold) {
    GRADUS_CASES("I17");
    begin("");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    trusted(kOneYes, closedFor(std::chrono::hours(1)));
    variables["GRADUS_ACTOR"] = "person:alice";
    ASSERT_EQ(gradus({"halt", "--reason", "fire"}).exit, 0);
    ASSERT_EQ(gradus({"hold", "production"}).exit, 0);
    ASSERT_EQ(gradus({"pin", "production"}).exit, 0);
    const Ended back = gradus({"rollback", "production", "--json"});
    EXPECT_EQ(back.exit, 0) << back.out << back.err;
    EXPECT_EQ(inProduction(), "");
    expectWhole();
}

TEST_P(Gates, AHaltStopsEverythingButRollbackUntilWorkIsResumed) {
    begin("");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(as("agent:watcher", {"halt", "--reason", "disk"}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    EXPECT_EQ(gate(change, "halt")["state"], "closed");
    EXPECT_TRUE(has(gradus({"status"}).out, "halted by agent:watcher"));
    EXPECT_EQ(gradus({"promote", change, "--override", "window", "--reason", "x"}).exit, 8);
    EXPECT_EQ(as("agent:watcher", {"resume"}).exit, 4);
    EXPECT_EQ(gradus({"resume"}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
    EXPECT_EQ(gradus({"resume"}).exit, 2) << "nothing is halted";
    expectWhole();
}

TEST_P(Gates, AHoldLastsUntilItIsLiftedOrEnds) {
    begin("");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"hold", "production", "--reason", "audit"}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    EXPECT_TRUE(has(gradus({"why", "production"}).out, "audit"));
    EXPECT_EQ(as("agent:fixer", {"unhold", "production"}).exit, 4);
    ASSERT_EQ(gradus({"unhold", "production"}).exit, 0);
    ASSERT_EQ(gradus({"hold", change, "--stage", "production", "--for", "2s"}).exit, 0);
    const Ended ended = gradus({"promote", change, "--wait", "--for", "60s"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(inProduction(), "v2\n");
    EXPECT_EQ(gradus({"unhold", "sandbox"}).exit, 2);
    expectWhole();
}

TEST_P(Gates, AfterARollbackMachinesAreHeldUntilAPersonLiftsIt) {
    GRADUS_CASES("I20");
    begin("");
    test::writeBytes(scratch / "health", "exit 1\n");
    trusted("",
            fmt::format("[check.health]\nrun = [\"sh\", \"{}\"]\non = \"host\"\nwhen = \"after\"\nretries = 0\n",
                        (scratch / "health").native()),
            "\"unit\", \"health\"");
    variables["GRADUS_ACTOR"] = "agent:fixer";
    const std::string change = changed("echo v2 > app.txt");
    EXPECT_EQ(gradus({"promote", change}).exit, 5);
    test::writeBytes(scratch / "health", "exit 0\n");
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    // The same patch as another change is no way around it.
    const std::string again = changed("echo v2 > app.txt");
    EXPECT_EQ(gradus({"promote", again}).exit, 8);
    EXPECT_EQ(as("agent:fixer", {"unhold", change, "--stage", "production"}).exit, 4);
    ASSERT_EQ(as("person:alice", {"unhold", change, "--stage", "production"}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
    EXPECT_EQ(inProduction(), "v2\n");
    expectWhole();
}

TEST_P(Gates, ARebaseOfAVetoedPatchIsBlocked) {
    begin("");
    edit("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    commitAll("a longer file");
    const std::string change = changed("sed -i s/2/two/ long.txt");
    ASSERT_EQ(gradus({"veto", change, "--reason", "leaks"}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    edit("long.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    commitAll("it moved");
    const std::string other = changed("sed -i s/2/two/ long.txt");
    ASSERT_NE(other, change);
    const Ended blocked = gradus({"promote", other, "--json"});
    EXPECT_EQ(blocked.exit, 8) << blocked.out << blocked.err;
    EXPECT_TRUE(has(gate(other, "veto").value("reason", ""), "the same patch")) << gate(other, "veto").dump();
    EXPECT_EQ(as("agent:fixer", {"unveto", change}).exit, 4);
    ASSERT_EQ(gradus({"unveto", other}).exit, 0);
    EXPECT_EQ(gradus({"promote", other}).exit, 0);
    expectWhole();
}

TEST_P(Gates, AVetoInOneStageRevokesWhatItVerified) {
    begin("");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change, "--to", "sandbox"}).exit, 0);
    ASSERT_EQ(gradus({"veto", change, "--stage", "sandbox"}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    const Json plan = gradusJson({"plan", change, "--to", "production"});
    EXPECT_TRUE(has(plan.dump(), "sandbox took its yes back (it was vetoed there)")) << plan.dump(2);
    EXPECT_EQ(inProduction(), "");
}

TEST_P(Gates, APinnedStageTakesNothingElse) {
    begin("");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    ASSERT_EQ(gradus({"pin", "production", "--reason", "the sale"}).exit, 0);
    const std::string change = changed("echo v3 > lib/util.txt");
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    EXPECT_EQ(inProduction(), "v2\n");
    EXPECT_TRUE(has(gate(change, "pin").value("reason", ""), "the sale"));
    ASSERT_EQ(gradus({"unpin", "production"}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
    EXPECT_EQ(bytesOf(production / "current/lib/util.txt"), "v3\n");
    expectWhole();
}

TEST_P(Gates, AnOverrideIsRecordedAndCountsOnce) {
    begin("", closedFor(std::chrono::hours(1)));
    const std::string change = changed("echo v2 > app.txt");
    EXPECT_EQ(gradus({"promote", change, "--override", "window"}).exit, 2) << "a reason is needed";
    EXPECT_EQ(gradus({"promote", change, "--override", "halt", "--reason", "x"}).exit, 2) << "never overridden";
    EXPECT_EQ(gradus({"promote", change, "--override", "window", "--reason", "fire"}).exit, 4) << "alice may not";
    EXPECT_EQ(as("agent:olga", {"promote", change, "--override", "window", "--reason", "fire"}).exit, 4);
    EXPECT_EQ(count("gate.overridden"), 0);
    const Ended ended = as("person:olga", {"promote", change, "--override", "window", "--reason", "fire", "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(inProduction(), "v2\n");
    EXPECT_EQ(count("gate.overridden"), 1);
    EXPECT_EQ(as("person:olga", {"promote", changed("echo v3 > lib/util.txt")}).exit, 8) << "it was for one promotion";
    EXPECT_EQ(inProduction(), "v2\n");
    expectWhole();
}

// The rules that judge a change are the trusted ones: weakening them in the change changes nothing for it.
TEST_P(Gates, AChangeThatWeakensItsOwnRulesIsJudgedByTheOldOnes) {
    GRADUS_CASES("I16", "CA13");
    begin(kOneYes);
    variables["GRADUS_ACTOR"] = "agent:fixer";
    const std::string change = changed("sed -i '/^approvals/d' gradus.toml; echo v2 > app.txt");
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    EXPECT_EQ(inProduction(), "");
    EXPECT_EQ(gate(change, "approvals")["state"], "closed");
    EXPECT_EQ(gate(change, "rules")["state"], "closed");
    ASSERT_EQ(as("person:ben", {"approve", change}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
    // And what comes after it is still judged by what a person trusted.
    const std::string next = changed("echo v3 > lib/util.txt");
    EXPECT_EQ(gradus({"promote", next}).exit, 8);
    EXPECT_EQ(gate(next, "approvals")["state"], "closed");
    expectWhole();
}

TEST_P(Gates, APromotionWithRebaseIsPutOntoWhatIsThereNow) {
    begin("");
    edit("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    commitAll("a longer file");
    const std::string change = changed("sed -i s/2/two/ long.txt");
    edit("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    const Ended ended = gradus({"promote", change, "--to", "sandbox", "--rebase", "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(ended.json()["data"]["promotion"]["change"], change + ".2");
    edit("long.txt", "1\nzwei\n3\n4\n5\n6\n7\n8\nnine\n");
    const Ended conflict = gradus({"promote", change, "--rebase", "--json"});
    EXPECT_EQ(conflict.exit, 1) << conflict.out << conflict.err;
    EXPECT_TRUE(has(conflict.out, "long.txt"));
}

TEST_P(Gates, WordsSaidDryChangeNothing) {
    begin("");
    const std::string change = changed("echo v2 > app.txt");
    const std::int64_t recorded = events();
    for (const test::Words& words :
         {test::Words{"hold", change}, test::Words{"veto", change}, test::Words{"halt"},
          test::Words{"pin", "production", change}, test::Words{"reject", change, "--to", "production"}}) {
        test::Words dry = words;
        dry.emplace_back("--dry-run");
        const Ended ended = gradus(dry);
        EXPECT_EQ(ended.exit, 0) << words.front() << ended.err;
        EXPECT_TRUE(has(ended.out, "would say"));
    }
    EXPECT_EQ(as("person:ben", {"approve", change, "--to", "production", "--dry-run"}).exit, 0);
    EXPECT_EQ(events(), recorded);
}

TEST_P(Gates, WhoamiSaysWhoAndWhichRoles) {
    begin("");
    const Json ben = as("person:ben", {"whoami", "--json"}).json()["data"];
    EXPECT_EQ(ben["name"], "ben");
    EXPECT_EQ(ben["declared"], true);
    EXPECT_EQ(ben["roles"], Json({"sre"}));
    EXPECT_EQ(ben["may_approve"], true);
    EXPECT_EQ(as("agent:ben", {"whoami", "--json"}).json()["data"]["may_approve"], false);
}

TEST_P(Gates, BlameSaysWhichChangeByWhomAndWhoAllowedIt) {
    begin(kOneYes);
    for (const char* script : {"echo v2 > app.txt", "echo v3 > lib/util.txt"}) {
        const std::string change = changed(script);
        ASSERT_EQ(gradus({"promote", change}).exit, 8);
        ASSERT_EQ(as("person:ben", {"approve", change}).exit, 0);
        ASSERT_EQ(gradus({"promote", change}).exit, 0);
    }
    const Json newest = gradusJson({"blame", "production"})["data"];
    EXPECT_EQ(newest["change"]["id"], "c2");
    const Json of = gradusJson({"blame", "production", "app.txt"})["data"];
    EXPECT_EQ(of["change"]["id"], "c1");
    EXPECT_EQ(of["by"], Json({"person:alice"}));
    EXPECT_EQ(of["approvals"][0]["by"], "person:ben");
    EXPECT_EQ(of["proofs"][0]["check"], "unit");
    EXPECT_EQ(gradus({"blame", "production", "nothing"}).exit, 2);
    EXPECT_EQ(gradus({"blame", "nowhere"}).exit, 2);
}

TEST_P(Gates, APlanLooksAheadAndRecordsNothing) {
    begin(kOneYes);
    const std::string change = changed("echo v2 > app.txt");
    const std::int64_t recorded = events();
    const Json plan = gradusJson({"plan", change})["data"]["plan"];
    ASSERT_EQ(plan.size(), 2U);
    EXPECT_EQ(gateOf(plan[1]["gates"], "approvals")["state"], "closed");
    EXPECT_EQ(events(), recorded);
}

TEST_P(Gates, WhyTellsOfEveryGateOfAnExecutionAndOfAChangeThatNobodyPromoted) {
    begin(kOneYes);
    const std::string change = changed("echo v2 > app.txt");
    const Json before = gradusJson({"why", change});
    EXPECT_EQ(before["data"]["stage"], "sandbox");
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    const Json why = gradusJson({"why", "p2"});
    EXPECT_GE(why["data"]["gates"].size(), 9U);
    const std::string execution = why["data"]["checks"][0].value("execution", "");
    ASSERT_FALSE(execution.empty()) << why.dump(2);
    EXPECT_EQ(gradusJson({"why", execution})["data"]["promotion"]["id"], "p2");
    EXPECT_EQ(gradus({"why", "e99999"}).exit, 2);
    EXPECT_TRUE(has(gradus({"why", "p2"}).out, "people are asked now"));
}

}  // namespace
}  // namespace gradus
