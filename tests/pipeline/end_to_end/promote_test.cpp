// Changes that climb, with the real program, real git and real sandboxes: what lands, what is stopped, what comes back.
#include <fstream>

#include "tests/pipeline/end_to_end/climbing_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;
using test::writeBytes;

class Promote : public ClimbingProgram {};
INSTANTIATE_TEST_SUITE_P(Users, Promote, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Promote, AGoodChangeClimbsToProduction) {
    GRADUS_CASES("TX1");
    given();
    const std::string change = changed("echo v2 > app.txt");
    const Ended ended = gradus({"promote", change, "--json"});
    ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    const Json data = ended.json()["data"];
    ASSERT_EQ(data["stages"].size(), 4U);
    for (const Json& stage : data["stages"]) EXPECT_EQ(stage["promotion"]["state"], "promoted") << stage.dump(2);
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
    EXPECT_EQ(bytesOf(staging / "current/app.txt"), "v2\n");
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n");
    expectWhole();
}

class Stopped : public ClimbingProgram {
  protected:
    void expectStoppedAt(const std::string& stage) {
        GRADUS_CASES("TX3", "I6");
        given();
        const std::string change = changed("echo no-" + stage + " > app.txt");
        const auto before = fingerprints(stage);
        const Ended ended = gradus({"promote", change, "--json"});
        EXPECT_EQ(ended.exit, 1) << ended.out << ended.err;
        const Json last = ended.json()["data"]["stages"].back();
        EXPECT_EQ(last["promotion"]["state"], "rejected");
        EXPECT_EQ(last["promotion"]["cause"], "failed");
        EXPECT_EQ(last["promotion"]["stage"], stage);
        EXPECT_EQ(fingerprints(stage), before);
        expectWhole();
    }
};
INSTANTIATE_TEST_SUITE_P(Users, Stopped, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);
TEST_P(Stopped, InTheSandboxNothingIsTouched) { expectStoppedAt("sandbox"); }
TEST_P(Stopped, BeforeTheWorkTreeItIsNotTouched) { expectStoppedAt("local"); }
TEST_P(Stopped, BeforeStagingItIsNotTouched) { expectStoppedAt("staging"); }
TEST_P(Stopped, BeforeProductionItIsNotTouched) { expectStoppedAt("production"); }

TEST_P(Promote, ANoAfterTheSwitchIsTakenBackAndHeld) {
    GRADUS_CASES("I5", "I20");
    given();
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const std::string release = target(production);
    const auto before = fingerprint(production / "current/");
    const std::string change = changed("echo unhealthy > app.txt");
    const Ended ended = gradus({"promote", change, "--json"});
    EXPECT_EQ(ended.exit, 5) << ended.out << ended.err;
    const Json last = ended.json()["data"]["stages"].back();
    EXPECT_EQ(last["promotion"]["state"], "rolled-back");
    EXPECT_EQ(last["promotion"]["stage"], "production");
    EXPECT_EQ(target(production), release);
    EXPECT_EQ(fingerprint(production / "current/"), before);
    EXPECT_EQ(bytesOf(staging / "current/app.txt"), "unhealthy\n");
    // A machine does not get a second try, a person may.
    variables["GRADUS_ACTOR"] = "agent:fixer";
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    variables.erase("GRADUS_ACTOR");
    EXPECT_EQ(gradus({"promote", change}).exit, 5);
    expectWhole();
}

TEST_P(Promote, TheFirstPromotionGoesBackToNothing) {
    GRADUS_CASES("I22");
    given();
    const Ended ended = gradus({"promote", changed("echo unhealthy > app.txt"), "--json"});
    EXPECT_EQ(ended.exit, 5) << ended.err;
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(production / "current")));
    EXPECT_TRUE(!std::filesystem::exists(production / "releases") ||
                std::filesystem::is_empty(production / "releases"));
    expectWhole();
}

TEST_P(Promote, AnUndoBringsTheWorkTreeBack) {
    GRADUS_CASES("I7", "TX15");
    given();
    const auto before = workTree();
    const std::string change =
        changed("echo v2 > app.txt; rm lib/util.txt; mkdir new; echo n > new/file; ln -s app.txt link");
    ASSERT_EQ(gradus({"promote", change, "--to", "local"}).exit, 0);
    EXPECT_NE(workTree(), before);
    const Ended ended = gradus({"undo", "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(workTree(), before);
    EXPECT_EQ(gradus({"undo"}).exit, 4) << "there is no rollback of a rollback";
    expectWhole();
}

TEST_P(Promote, AnUndoKeepsWhatTheUserEditedSince) {
    GRADUS_CASES("DL1");
    given();
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt; echo u2 > lib/util.txt"), "--to", "local"}).exit, 0);
    edit("lib/util.txt", "mine\n");
    const Ended ended = gradus({"undo", "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(ended.json()["data"]["kept"][0]["path"], "lib/util.txt");
    EXPECT_EQ(bytesOf(project / "lib/util.txt"), "mine\n");
    EXPECT_EQ(bytesOf(project / "app.txt"), "v1\n");
    expectWhole();
}

TEST_P(Promote, AUsersEditOfTheSameLinesIsNeverOverwritten) {
    GRADUS_CASES("CA12", "ST8");
    given();
    const std::string change = changed("echo v2 > app.txt");
    edit("app.txt", "mine\n");
    const Ended ended = gradus({"promote", change, "--to", "local", "--json"});
    EXPECT_EQ(ended.exit, 1) << ended.out << ended.err;
    EXPECT_EQ(ended.json()["data"]["stages"].back()["promotion"]["state"], "stale");
    EXPECT_TRUE(has(ended.out, "app.txt"));
    EXPECT_EQ(bytesOf(project / "app.txt"), "mine\n");
    expectWhole();
}

TEST_P(Promote, AnEditElsewhereInTheFileIsMergedAndRecordedAsARevision) {
    GRADUS_CASES("CA11");
    given();
    edit("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    commitAll("a longer file");
    const std::string change = changed("sed -i s/2/two/ long.txt");
    edit("long.txt", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    const Ended ended = gradus({"promote", change, "--to", "local", "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(project / "long.txt"), "1\ntwo\n3\n4\n5\n6\n7\n8\nnine\n");
    EXPECT_EQ(ended.json()["data"]["stages"].back()["promotion"]["change"], change + ".2");
    EXPECT_EQ(gradus({"undo"}).exit, 0);
    EXPECT_EQ(bytesOf(project / "long.txt"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    expectWhole();
}

TEST_P(Promote, ADryRunTouchesAndRecordsNothing) {
    GRADUS_CASES("TX11");
    given();
    const std::string change = changed("echo v2 > app.txt");
    const auto before = workTree();
    const std::int64_t recorded = events();
    const Ended ended = gradus({"promote", change, "--dry-run", "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(ended.json()["data"]["plan"].size(), 4U);
    EXPECT_EQ(workTree(), before);
    EXPECT_EQ(events(), recorded);
    EXPECT_FALSE(std::filesystem::exists(production / "current"));
}

TEST_P(Promote, RulesThatNobodyTrustedPromoteNothing) {
    repository();
    edit("gradus.toml", pipeline());
    const Ended ended = gradus({"promote", "--json"});
    EXPECT_EQ(ended.exit, 4) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "gradus trust"));
}

TEST_P(Promote, AChangeIsNotPromotedTwice) {
    GRADUS_CASES("ST9");
    given();
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change, "--to", "staging"}).exit, 0);
    const std::string release = target(staging);
    const Ended again = gradus({"promote", change, "--to", "staging", "--json"});
    EXPECT_EQ(again.exit, 0) << again.err;
    EXPECT_EQ(again.json()["data"]["stages"].back()["already"], true);
    EXPECT_EQ(target(staging), release);
}

TEST_P(Promote, ARollbackOfAStageBringsBackWhatItHeldBefore) {
    given();
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt"), "--to", "staging"}).exit, 0);
    ASSERT_EQ(gradus({"promote", changed("echo v3 > app.txt"), "--to", "staging"}).exit, 0);
    EXPECT_EQ(bytesOf(staging / "current/app.txt"), "v3\n");
    ASSERT_EQ(gradus({"rollback", "staging"}).exit, 0);
    EXPECT_EQ(bytesOf(staging / "current/app.txt"), "v2\n");
    ASSERT_EQ(gradus({"rollback", "staging"}).exit, 0);
    EXPECT_FALSE(std::filesystem::exists(staging / "current"));
    EXPECT_NE(gradus({"rollback", "staging"}).exit, 0);
    expectWhole();
}

// A way back that leads nowhere is not taken: what runs stays.
TEST_P(Promote, ARollbackToWhatIsGoneOrDamagedIsRefusedBeforeAnythingIsTouched) {
    given();
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt"), "--to", "staging"}).exit, 0);
    const auto old = std::filesystem::canonical(staging / "current");
    ASSERT_EQ(gradus({"promote", changed("echo v3 > app.txt"), "--to", "staging"}).exit, 0);
    const auto refused = [&] {
        EXPECT_EQ(gradus({"rollback", "staging", "--dry-run"}).exit, 4);
        const Ended ended = gradus({"rollback", "staging"});
        EXPECT_EQ(ended.exit, 4) << ended.out << ended.err;
        EXPECT_TRUE(has(ended.err, "nothing was touched")) << ended.err;
        EXPECT_EQ(bytesOf(staging / "current/app.txt"), "v3\n");
    };
    shell("echo other > '" + (old / "app.txt").native() + "'");
    refused();
    std::filesystem::remove_all(old);
    refused();
    EXPECT_EQ(gradus({"promote", changed("echo v4 > app.txt"), "--to", "staging"}).exit, 0);
    EXPECT_EQ(bytesOf(staging / "current/app.txt"), "v4\n");
    expectWhole();
}

TEST_P(Promote, WithoutAFileApplyWritesIntoTheWorkTree) {
    repository();
    const std::string sandbox = sandboxWith("echo v2 > app.txt");
    const Ended ended = gradus({"apply", sandbox, "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
    EXPECT_EQ(gradus({"undo"}).exit, 0);
    EXPECT_EQ(bytesOf(project / "app.txt"), "v1\n");
}

// Two stores on one target: the second is refused, with the words what to do.
TEST_P(Promote, ASecondStoreOnTheSameTargetIsRefused) {
    GRADUS_CASES("I3");
    given();
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt"), "--to", "staging"}).exit, 0);
    variables["GRADUS_HOME"] = scratch / "other-state";
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const std::string change = changed("echo v3 > app.txt");
    const Ended ended = gradus({"promote", change, "--to", "staging", "--json"});
    EXPECT_EQ(ended.exit, 4) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(staging / "current/app.txt"), "v2\n");
}

TEST_P(Promote, SomethingUntrackedInTheWayIsNeverReplaced) {
    GRADUS_CASES("ST8", "CA12", "DL2");
    given();
    const std::string change = changed("echo theirs > notes.txt");
    edit("notes.txt", "mine\n");
    const Ended ended = gradus({"promote", change, "--to", "local", "--json"});
    EXPECT_EQ(ended.exit, 1) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(project / "notes.txt"), "mine\n");
    expectWhole();
}

TEST_P(Promote, ErroredIsNotFailed) {
    given(R"(
[check.unit]
run = "./check"
requires = ["separate-kernel"]
retries = 0
)");
    const std::string change = changed("echo v2 > app.txt");
    const Ended ended = gradus({"promote", change, "--to", "local", "--json"});
    EXPECT_EQ(ended.exit, 6) << ended.out << ended.err;
    const Json last = ended.json()["data"]["stages"].back();
    EXPECT_EQ(last["promotion"]["state"], "rejected");
    EXPECT_EQ(last["promotion"]["cause"], "errored");
    EXPECT_EQ(ended.json()["error"]["retryable"], true);
    EXPECT_EQ(bytesOf(project / "app.txt"), "v1\n");
}

TEST_P(Promote, ACheckThatTakesTooLongIsTimedOut) {
    given(R"(
[check.unit]
run = "sleep 60"
timeout = "300ms"
retries = 0
)");
    const Ended ended = gradus({"promote", changed("echo v2 > app.txt"), "--to", "local", "--json"});
    EXPECT_EQ(ended.exit, 1) << ended.out << ended.err;
    EXPECT_EQ(ended.json()["data"]["stages"].back()["promotion"]["cause"], "timed-out");
}

TEST_P(Promote, AnInterruptWhileCheckingEndsItAndTouchesNothing) {
    GRADUS_CASES("I24");
    given(R"(
[check.unit]
run = "sleep 60"
)");
    const auto before = workTree();
    const std::string change = changed("echo v2 > app.txt");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", change});
    awaitState("p1", "checking");
    running->send(SIGINT);
    EXPECT_EQ(running->wait().exit, 130);
    EXPECT_EQ(stateOf("p1"), "cancelled");
    EXPECT_EQ(workTree(), before);
    expectWhole();
}

TEST_P(Promote, CancelStopsWhatAnotherProcessDrives) {
    GRADUS_CASES("I24");
    given(R"(
[check.unit]
run = "sleep 60"
)");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", changed("echo v2 > app.txt")});
    awaitState("p1", "checking");
    EXPECT_EQ(gradus({"cancel", "p1"}).exit, 0);
    running->wait();
    EXPECT_EQ(stateOf("p1"), "cancelled");
}

// Whatever instant it is killed at, one end and a whole target.
TEST_P(Promote, KilledWhileCheckingItIsOverAfterRecovery) {
    GRADUS_CASES("I1", "CR1");
    given(R"(
[check.unit]
run = "sleep 60"
)");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", changed("echo v2 > app.txt")});
    awaitState("p1", "checking");
    running->stop(SIGKILL);
    const Ended status = gradus({"status", "--json"});
    EXPECT_EQ(status.json()["data"]["need_recovery"], 1);
    EXPECT_EQ(stateOf("p1"), "checking") << "reading verbs never recover";
    EXPECT_EQ(gradus({"recover"}).exit, 0);
    EXPECT_EQ(stateOf("p1"), "cancelled");
    EXPECT_EQ(bytesOf(project / "app.txt"), "v1\n");
    expectWhole();
}

TEST_P(Promote, KilledWhileVerifyingItGoesOnAfterRecovery) {
    GRADUS_CASES("I1", "CR1");
    given(R"(
[check.unit]
run = "./check"
)",
          "sleep 60");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", changed("echo v2 > app.txt")});
    awaitState("p4", "verifying");
    running->stop(SIGKILL);
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n");
    writeBytes(scratch / "health", "true\n");
    const Ended ended = gradus({"recover", "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(stateOf("p4"), "promoted");
    expectWhole();
}

TEST_P(Promote, WhyAndLogsTellWhatHappened) {
    given();
    const Ended ended = gradus({"promote", changed("echo no-sandbox > app.txt")});
    EXPECT_EQ(ended.exit, 1);
    EXPECT_TRUE(has(ended.out, "unit")) << ended.out;
    EXPECT_TRUE(has(gradus({"why", "p1"}).out, "rejected"));
    EXPECT_TRUE(has(gradus({"logs", "p1"}).out, "the answer is no"));
    EXPECT_TRUE(has(gradus({"status"}).out, "p1 rejected"));
}

}  // namespace
}  // namespace gradus
