// A promotion that is stopped or rejected on its way, a project that moves under its checks, and who may answer for a
// change and for how long: with the real program.
#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;

class Stopping : public ClimbingProgram {
  protected:
    /// One check in the sandbox stage; production is a release directory, with what `production` says.
    void begin(const std::string& check, const std::string& inProduction = {}, const std::string& policy = {}) {
        repository();
        edit(".gitignore", "*.log\n");
        edit("go.log", "wait\n");
        edit("gradus.toml",
             fmt::format("[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"production\"]\n{}\n"
                         "[stage.sandbox]\nchecks = [\"unit\"]\n"
                         "[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\nchecks = [\"unit\"]\n{}\n"
                         "[policy.production]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n"
                         "evidence-reuse = \"1h\"\n{}\n",
                         check, production.native(), inProduction, policy));
        commitAll("rules");
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
    static std::string command(const std::string& script, const std::string& more = {}) {
        return fmt::format("[check.unit]\nrun = [\"sh\", \"-c\", \"\"\"{}\"\"\"]\n{}", script, more);
    }
    /// Waits in a sandbox for a text in a file of the project, ten seconds at most.
    static std::string until(const std::string& text, const std::string& file) {
        return fmt::format("i=0; until grep -q {} {} || [ $i -ge 400 ]; do i=$((i+1)); sleep 0.025; done; ", text,
                           file);
    }
    void awaitProcess(const std::string& name) {
        for (int i = 0; i < 1200; ++i) {
            const std::string all = startCommand({"ps", "-eo", "args"})->wait().out;
            if (all.find(name) != std::string::npos) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(25));
        }
        FAIL() << "no process " << name;
    }
};

INSTANTIATE_TEST_SUITE_P(Users, Stopping, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

// It reads a file that somebody edits and puts back meanwhile. Over the project itself it would build the edit; the
// second time it sees a copy that stands still.
TEST_P(Stopping, WhatIsBuiltOfAnEditThatWasPutBackReachesNoStage) {
    const std::string name = "phase" + std::to_string(::getpid());
    begin(
        command("i=0; until grep -q edited lib/util.txt || grep -q go go.log || [ $i -ge 400 ]; do i=$((i+1)); "
                "sleep 0.025; done; cp lib/util.txt built; grep -q go go.log || sh -c '" +
                    until("u1", "lib/util.txt") + "' " + name,
                "outputs = [\"built\"]\n"));
    const std::string change = changed("echo v2 > app.txt");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", change, "--json"});
    awaitState("p1", "checking");
    edit("lib/util.txt", "edited\n");
    awaitProcess(name);
    edit("go.log", "go\n");
    edit("lib/util.txt", "u1\n");
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(production / "current/built"), "u1\n");
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n");
    expectWhole();
}

// The other way round: a no that is about the edit is no no to the change.
TEST_P(Stopping, ANoToAnEditThatWasPutBackIsNoNoToTheChange) {
    const std::string name = "phase" + std::to_string(::getpid());
    begin(
        command("i=0; until grep -q edited lib/util.txt || grep -q go go.log || [ $i -ge 400 ]; do i=$((i+1)); "
                "sleep 0.025; done; if grep -q edited lib/util.txt; then sh -c '" +
                until("u1", "lib/util.txt") + "' " + name + "; exit 1; fi"));
    const std::string change = changed("echo v2 > app.txt");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", change, "--to", "sandbox"});
    awaitState("p1", "checking");
    edit("lib/util.txt", "edited\n");
    awaitProcess(name);
    edit("go.log", "go\n");
    edit("lib/util.txt", "u1\n");
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(stateOf("p1"), "promoted");
    expectWhole();
}

TEST_P(Stopping, ARejectionWhileItIsCheckedIsItsEnd) {
    begin(command(until("go", "go.log")));
    const std::string change = changed("echo v2 > app.txt");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", change});
    awaitState("p1", "checking");
    const Ended no = as("person:ben", {"reject", change, "--reason", "not today"});
    EXPECT_EQ(no.exit, 0) << no.out << no.err;
    EXPECT_TRUE(has(no.out, "p1 is checking: it ends as rejected")) << no.out;
    edit("go.log", "go\n");
    EXPECT_EQ(running->wait().exit, 3);
    EXPECT_EQ(stateOf("p1"), "rejected");
    EXPECT_FALSE(fs::exists(production / "current"));
    expectWhole();
}

TEST_P(Stopping, AStopWhileItIsAppliedTakesItBackAndBlamesNobody) {
    begin("[check.unit]\nrun = \"true\"\n", "activate = [\"sh\", \"-c\", \"! test -e signal || { touch '" +
                                                (scratch / "activating").native() + "'; sleep 60; }\"]\n");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const std::string before = target(production);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        SCOPED_TRACE(signal);
        const std::string change = changed("echo " + std::to_string(signal) + " > signal");
        const auto running = startCommand({GRADUS_PROGRAM, "promote", change, "--json"});
        for (int i = 0; i < 1200 && !fs::exists(scratch / "activating"); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(25));
        ASSERT_TRUE(fs::exists(scratch / "activating"));
        shell("rm '" + (scratch / "activating").native() + "'");
        running->send(signal);
        const Ended ended = running->wait();
        EXPECT_EQ(ended.exit, 5) << ended.out << ended.err;
        const Json last = ended.json()["data"]["stages"].back()["promotion"];
        EXPECT_EQ(last["state"], "rolled-back") << last.dump();
        EXPECT_EQ(last["cause"], "cancelled") << last.dump();
        EXPECT_EQ(target(production), before);
    }
    expectWhole();
}

TEST_P(Stopping, WhatWasAppliedAndTakenOutIsAppliedAgain) {
    begin("[check.unit]\nrun = \"true\"\n");
    edit("gradus.toml",
         "[pipeline]\nname = \"shop\"\nstages = [\"local\"]\n[stage.local]\ndriver = \"worktree\"\n"
         "[policy.local]\nextends = \"none\"\nalone = [\"person\"]\n");
    commitAll("local");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const std::string sandbox = sandboxWith("echo v2 > app.txt; rm lib/util.txt; echo new > new.txt");
    const auto before = workTree();
    for (int round = 0; round < 2; ++round) {
        const Ended applied = gradus({"apply", sandbox});
        ASSERT_EQ(applied.exit, 0) << round << applied.out << applied.err;
        EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
        ASSERT_EQ(gradus({"undo"}).exit, 0);
        EXPECT_EQ(bytesOf(project / "app.txt"), "v1\n");
        EXPECT_TRUE(fs::exists(project / "lib/util.txt"));
        EXPECT_FALSE(fs::exists(project / "new.txt"));
    }
    // What was edited since is still somebody's edit.
    edit("app.txt", "mine\n");
    EXPECT_NE(gradus({"apply", sandbox}).exit, 0);
    EXPECT_EQ(bytesOf(project / "app.txt"), "mine\n");
    expectWhole();
}

TEST_P(Stopping, AnotherSpellingOfTheAuthorsNameApprovesNothing) {
    begin("[check.unit]\nrun = \"true\"\n", "", "approvals = [{ count = 1 }]");
    variables["GRADUS_ACTOR"] = "person:alice";
    const std::string change = changed("echo v2 > app.txt");
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    for (const char* actor : {"person:Alice", "person:\uff41lice", "person:alice.", "person:ALICE", "person:-alice"})
        EXPECT_EQ(as(actor, {"approve", change}).exit, 4) << actor;
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    EXPECT_FALSE(fs::exists(production / "current"));
    EXPECT_EQ(as("person:ben", {"approve", change}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
}

TEST_P(Stopping, ASetBackClockMakesNoApprovalYoungAgain) {
    begin("[check.unit]\nrun = \"true\"\n", "", "approvals = [{ count = 1, expires = \"2h\" }]");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(as("person:ben", {"approve", change, "--to", "production"}).exit, 0);
    if (const std::string cannot = clockOff("+121m"); !cannot.empty()) GTEST_SKIP() << cannot;
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    clockOff("+1m");
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    EXPECT_FALSE(fs::exists(production / "current"));
    ASSERT_EQ(as("person:ben", {"approve", change, "--to", "production"}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
}

TEST_P(Stopping, AnOldStateDirectoryThatWasPutBackIsRefused) {
    begin("[check.unit]\nrun = \"true\"\n");
    const std::string old = (scratch / "old").native();
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    shell("cp -a '" + state.native() + "' '" + old + "'");
    ASSERT_EQ(gradus({"promote", changed("echo more > more.txt")}).exit, 0);
    shell("rm -rf '" + state.native() + "' && cp -a '" + old + "' '" + state.native() + "'");
    const std::string before = target(production);
    const Ended promoted = gradus({"promote", changed("echo other > other.txt")});
    EXPECT_EQ(promoted.exit, 6) << promoted.out;
    EXPECT_TRUE(has(promoted.err, "was last written by p4")) << promoted.err;
    EXPECT_TRUE(has(promoted.err, "put the newest copy")) << promoted.err;
    EXPECT_EQ(gradus({"rollback", "production"}).exit, 6);
    EXPECT_EQ(target(production), before);
}

TEST_P(Stopping, APinNamesItsStage) {
    begin("[check.unit]\nrun = \"true\"\n");
    const std::string change = changed("echo v2 > app.txt");
    const Ended ended = gradus({"pin", change});
    EXPECT_EQ(ended.exit, 2) << ended.out;
    EXPECT_TRUE(has(ended.err, "gradus pin production " + change)) << ended.err;
    EXPECT_EQ(gradus({"pin", "production", change}).exit, 0);
    EXPECT_EQ(gradus({"unpin", "production"}).exit, 0);
    expectWhole();
}

TEST_P(Stopping, AnAgentPausesBeforeItRunsFailingChecksForTheFourthTime) {
    begin("[check.unit]\nrun = \"false\"\n");
    variables["GRADUS_ACTOR"] = "agent:fixer";
    const std::string change = changed("echo v2 > app.txt");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(gradus({"promote", change}).exit, 1) << i;
    const Ended fourth = gradus({"promote", change});
    EXPECT_EQ(fourth.exit, 8) << fourth.out;
    EXPECT_TRUE(has(fourth.out + fourth.err, "its checks failed 3 times here")) << fourth.out << fourth.err;
    EXPECT_EQ(as("person:ben", {"retry", change}).exit, 1) << "a person may";
    expectWhole();
}

TEST_P(Stopping, AChangeIsNotBlamedWhereTheServiceWasDownBefore) {
    given("", "! test -e '" + (scratch / "down").native() + "'");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    edit((scratch / "down").native(), "");
    const std::string change = changed("echo v3 > app.txt");
    const Ended ended = gradus({"promote", change});
    EXPECT_EQ(ended.exit, 5) << ended.out;
    EXPECT_TRUE(has(ended.out, "the surroundings fail")) << ended.out;
    EXPECT_FALSE(has(gradus({"status"}).out, "held")) << gradus({"status"}).out;
    shell("rm '" + (scratch / "down").native() + "'");
    EXPECT_EQ(as("agent:fixer", {"promote", change}).exit, 0) << "a machine may try it again";
    expectWhole();
}

}  // namespace
}  // namespace gradus
