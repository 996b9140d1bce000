// What agents and people do with sandboxes by hand: files in and out, figures, a failed check gone into.

#include "tests/pipeline/end_to_end/climbing_program.h"
#include "tests/pipeline/end_to_end/room_program.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class Room : public RoomProgram {};
INSTANTIATE_TEST_SUITE_P(Users, Room, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

TEST_P(Room, QuietVerbsSayHandlesOnly) {
    const std::string sandbox = made();
    EXPECT_EQ(sandbox, "s1");
    const Ended forked = gradus({"sandbox", "fork", "-q", sandbox, "-n", "2"});
    EXPECT_EQ(forked.out, "s2\ns3\n");
    EXPECT_EQ(forked.err, "");
    EXPECT_EQ(gradus({"sandbox", "list", "-q"}).out, "s1\ns2\ns3\n");
    const Ended kept = tried("echo x > new; echo out", {"-q"});
    EXPECT_EQ(kept.out, "out\n");
    EXPECT_EQ(kept.err, "s4\n");
    const Ended both = tried("echo x > new", {"--name", "gone", "--discard"});
    EXPECT_EQ(both.exit, 2);
    EXPECT_TRUE(has(both.err, "--name and --discard exclude each other")) << both.err;
}

TEST_P(Room, TheVariableStandsInForTheSandboxAndInsideNamesIt) {
    const std::string sandbox = made();
    variables["GRADUS_SANDBOX"] = sandbox;
    EXPECT_EQ(gradus({"sandbox", "exec", "--", "sh", "-c", "echo $GRADUS_SANDBOX; echo x > f"}).out, sandbox + "\n");
    EXPECT_TRUE(has(gradus({"sandbox", "diff"}).out, "A f"));
    EXPECT_EQ(gradus({"sandbox", "snapshot", "one"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "exec", "--", "rm", "f"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "restore", "one"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "get", "f", "-"}).out, "x\n");
    EXPECT_EQ(gradus({"sandbox", "rm"}).exit, 2) << "what is removed is named";
    variables.erase("GRADUS_SANDBOX");
    EXPECT_EQ(gradus({"sandbox", "diff"}).exit, 2);
    EXPECT_TRUE(has(triedJson("echo $GRADUS_SANDBOX", {"--discard"})["execution"]["stdout"], "s2\n"));
}

TEST_P(Room, PutWritesAsACommandInsideWould) {
    const std::string before = fingerprint();
    const std::string sandbox = made();
    const fs::path file = outside("fixture", "from outside\n");
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, file.native(), "src/deep/er/f"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, file.native(), "src"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, file.native(), "README.md"}).exit, 0);
    EXPECT_EQ(exec(sandbox, "cat src/deep/er/f src/fixture README.md src/main.c; stat -c %u src/fixture").out,
              "from outside\nfrom outside\nfrom outside\nint main(void) { return 0; }\n" +
                  std::to_string(GetParam() == As::kOrdinaryUser ? kOrdinaryUid : ::geteuid()) + "\n");
    EXPECT_NE(gradus({"sandbox", "put", sandbox, outside("src", "no directory\n").native(), "."}).exit, 0);
    EXPECT_EQ(diff(sandbox).at("README.md"), "modified");
    EXPECT_EQ(diff(sandbox).at("src/fixture"), "added");
    EXPECT_EQ(fingerprint(), before);
}

// A deletion is lifted for what is put there, and for nothing else.
TEST_P(Room, PutAndGetRespectDeletionsAndReplacedDirectories) {
    const std::string sandbox = made();
    const fs::path file = outside("fixture", "new\n");
    exec(sandbox, "rm -r src README.md; rm link; mkdir link");
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "src/main.c", "-"}).exit, 2) << "deleted inside";
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, file.native(), "src/only"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, file.native(), "README.md"}).exit, 0);
    EXPECT_EQ(exec(sandbox, "ls src; cat README.md").out, "only\nnew\n");
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "src/main.c", "-"}).exit, 2) << "still deleted";
    EXPECT_EQ(gradus({"sandbox", "snapshot", sandbox, "one"}).exit, 0);
    exec(sandbox, "rm -r src; mkdir src; echo again > src/again");
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "src/only", "-"}).exit, 2) << "the directory was replaced";
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "src/again", "-"}).out, "again\n");
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, file.native(), "src/more"}).exit, 0);
    EXPECT_EQ(exec(sandbox, "ls src").out, "again\nmore\n");
}

TEST_P(Room, WhatWasPutIsSharedWithForksAndSnapshots) {
    const std::string sandbox = made();
    const fs::path file = outside("fixture", "put\n");
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, file.native(), "f"}).exit, 0);
    gradus({"sandbox", "fork", sandbox, "--name", "copy"});
    EXPECT_EQ(exec("copy", "cat f").out, "put\n");
    EXPECT_TRUE(has(gradus({"audit", "query"}).out, "sandbox.written"));
    EXPECT_EQ(gradusJson({"audit", "verify"})["data"]["kind"], "ok");
    EXPECT_EQ(gradus({"store", "check"}).exit, 0);
}

TEST_P(Room, NoLinkIsFollowedInOrOut) {
    const std::string sandbox = made();
    const fs::path secret = outside("secret", "hush\n");
    const fs::path file = outside("fixture", "put\n");
    exec(sandbox, "ln -s " + secret.native() + " s; ln -s " + (scratch / "outside").native() +
                      " d; mkdir t; "
                      "ln -s ../../../../../../etc/passwd t/out; ln -s f t/in; echo f > t/f");
    for (const char* path : {"s", "d/secret"}) {
        const Ended ended = gradus({"sandbox", "get", sandbox, path, "-"});
        EXPECT_NE(ended.exit, 0) << path;
        EXPECT_FALSE(has(ended.out, "hush"));
    }
    EXPECT_NE(gradus({"sandbox", "put", sandbox, file.native(), "d/written"}).exit, 0);
    EXPECT_FALSE(fs::exists(scratch / "outside/written"));
    const fs::path target = scratch / "outside/taken";
    const Json data = gradusJson({"sandbox", "get", sandbox, "t", target.native()})["data"];
    EXPECT_EQ(data["left_out"].size(), 1) << data.dump();
    EXPECT_EQ(bytesOf(target / "in"), "f\n");
    EXPECT_FALSE(fs::is_symlink(fs::symlink_status(target / "out")));
    // A link out here, in the place of the target, is not written through.
    fs::create_symlink(secret, scratch / "outside/trap");
    EXPECT_NE(gradus({"sandbox", "get", sandbox, "t/f", "--force", (scratch / "outside/trap").native()}).exit, 0);
    EXPECT_EQ(bytesOf(secret), "hush\n");
}

TEST_P(Room, PathsThatLeadOutAreRefused) {
    const std::string sandbox = made();
    const fs::path file = outside("fixture", "put\n");
    for (const char* path : {"../out", "/etc/passwd", "a/../../b", ".."})
        for (const Words& words : std::vector<Words>{{"sandbox", "put", sandbox, file.native(), path},
                                                     {"sandbox", "get", sandbox, path, "-"},
                                                     {"sandbox", "path", sandbox, path}})
            EXPECT_EQ(gradus(words).exit, 2) << words[1] << ' ' << path;
}

TEST_P(Room, GetReplacesOnlyWhenTold) {
    const std::string sandbox = made();
    exec(sandbox, "echo inside > f");
    const fs::path target = outside("f", "mine\n");
    EXPECT_NE(gradus({"sandbox", "get", sandbox, "f", target.native()}).exit, 0);
    EXPECT_EQ(bytesOf(target), "mine\n");
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "-f", "f", target.native()}).exit, 0);
    EXPECT_EQ(bytesOf(target), "inside\n");
    fs::create_symlink("f", target.parent_path() / "link");
    const Ended link = gradus({"sandbox", "get", sandbox, "-f", "f", (target.parent_path() / "link").native()});
    EXPECT_EQ(link.exit, 4);
    EXPECT_TRUE(has(link.err, "is there already, a link")) << link.err;
    EXPECT_FALSE(has(link.err, "--force")) << link.err;
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "f", (state / "f").native()}).exit, 4) << "Gradus's own";
    EXPECT_FALSE(fs::exists(state / "f"));
}

TEST_P(Room, WholeTreesGoInAndOut) {
    const std::string sandbox = made();
    outside("tree/a/one", "1\n");
    outside("tree/two", "2\n");
    fs::create_symlink("two", scratch / "outside/tree/link");
    EXPECT_EQ(gradusJson({"sandbox", "put", sandbox, (scratch / "outside/tree").native(), "."})["data"]["files"], 3);
    EXPECT_EQ(exec(sandbox, "cd tree; cat a/one link; readlink link").out, "1\n2\ntwo\n");
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "tree", (scratch / "outside/back").native()}).exit, 0);
    EXPECT_EQ(shell("diff -r " + (scratch / "outside/tree").native() + " " + (scratch / "outside/back").native()).out,
              "");
}

TEST_P(Room, ABusySandboxIsRefusedOrWaitedFor) {
    const std::string sandbox = made();
    const fs::path file = outside("fixture", "put\n");
    auto running = startCommand({GRADUS_PROGRAM, "sandbox", "exec", sandbox, "--", "sh", "-c", "echo up; sleep 1"});
    waitForUp(*running);
    EXPECT_EQ(gradus({"sandbox", "put", sandbox, file.native(), "f"}).exit, 7);
    EXPECT_EQ(gradus({"sandbox", "get", sandbox, "README.md", "-"}).exit, 7);
    EXPECT_EQ(gradus({"sandbox", "put", "--wait", "20s", sandbox, file.native(), "f"}).exit, 0);
    EXPECT_EQ(running->wait().exit, 0);
}

TEST_P(Room, PathSaysWhereAFileLiesNow) {
    const std::string sandbox = made();
    exec(sandbox, "echo changed > README.md; rm run.sh");
    const Json own = gradusJson({"sandbox", "path", sandbox, "README.md"})["data"];
    EXPECT_EQ(own["where"], "own");
    EXPECT_EQ(bytesOf(own["path"].get<std::string>()), "changed\n");
    const Json base = gradusJson({"sandbox", "path", sandbox, "src/main.c"})["data"];
    EXPECT_EQ(base["where"], "base");
    EXPECT_EQ(base["path"], (project / "src/main.c").native());
    gradus({"sandbox", "snapshot", sandbox, "one"});
    EXPECT_EQ(gradusJson({"sandbox", "path", sandbox, "README.md"})["data"]["where"], "frozen");
    const Ended gone = gradus({"sandbox", "path", sandbox, "run.sh"});
    EXPECT_EQ(gone.exit, 1);
    EXPECT_TRUE(has(gone.err, "no such file"));
}

TEST_P(Room, StatsShowWhatTheCommandUsesAndFollowItToItsEnd) {
    const std::string sandbox = made();
    EXPECT_TRUE(has(gradus({"sandbox", "stats", sandbox}).out, "at rest"));
    const std::string script =
        "head -c 3000000 /dev/urandom > big; echo up; "
        "python3 -c 'b = bytearray(50 << 20)\nimport time\nt = time.time()\nwhile time.time() - t < 2: pass'";
    auto running = startCommand({GRADUS_PROGRAM, "sandbox", "exec", sandbox, "--", "sh", "-c", script});
    waitForUp(*running);
    Json seen;
    for (int i = 0; i < 300; ++i) {
        seen = gradusJson({"sandbox", "stats", sandbox})["data"];
        if (seen["memory_bytes"] > 40 << 20 && seen["cpu_ms"] > 100) break;
        ::usleep(10'000);
    }
    EXPECT_EQ(seen["running"], true) << seen.dump();
    EXPECT_GT(seen["memory_bytes"], 40 << 20) << seen.dump();
    EXPECT_LT(seen["memory_bytes"], 300 << 20) << seen.dump();
    EXPECT_GT(seen["cpu_ms"], 100) << seen.dump();
    EXPECT_GE(seen["tasks"], 2) << seen.dump();
    EXPECT_GE(seen["disk_bytes"], 3'000'000) << seen.dump();
    EXPECT_EQ(seen["execution"]["id"], "e1");
    const Ended followed = gradus({"sandbox", "stats", "-f", "--interval", "100ms", "--json", sandbox});
    EXPECT_EQ(followed.exit, 0);
    EXPECT_GE(std::count(followed.out.begin(), followed.out.end(), '\n'), 2) << followed.out;
    EXPECT_EQ(running->wait().exit, 0);
}

TEST_P(Room, ASnapshotIsTakenBeforeTheCommand) {
    const std::string sandbox = made();
    exec(sandbox, "echo one > f");
    EXPECT_EQ(gradus({"sandbox", "exec", sandbox, "--snapshot", "before", "--", "rm", "f"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "restore", sandbox, "before"}).exit, 0);
    EXPECT_EQ(exec(sandbox, "cat f").out, "one\n");
}

TEST_P(Room, AnUntrustedCommandSeesNothing) {
    writeBytes(home / ".cargo/bin/tool", "#!/bin/sh\n");
    if (GetParam() == As::kOrdinaryUser) start({"chown", "-R", "41235", home.native()})->wait();
    variables["SECRET"] = "hush";
    variables["LANGUAGE"] = "xx";
    const std::string before = fingerprint();
    const Ended ended = gradus({"try", "--untrusted", "--", "sh", "-c",
                                "ls -A; ls -A $HOME; env | cut -d= -f1 | sort | tr '\\n' ' '; id -u; ls " +
                                    project.native() + " 2>/dev/null; echo x > f"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    const std::string uid = std::to_string(::geteuid() == 0 && GetParam() == As::kSelf ? 65534
                                           : GetParam() == As::kOrdinaryUser           ? kOrdinaryUid
                                                                                       : ::geteuid());
    EXPECT_EQ(ended.out.find("README"), std::string::npos) << ended.out;
    EXPECT_EQ(ended.out.find(".cargo"), std::string::npos) << ended.out;
    EXPECT_EQ(ended.out.find("SECRET"), std::string::npos) << ended.out;
    EXPECT_EQ(ended.out.find("LANGUAGE"), std::string::npos) << ended.out;
    EXPECT_TRUE(has(ended.out, uid + "\n"));
    EXPECT_TRUE(has(ended.err, "guarantees  no-network, read-only-host, private-processes, kernel-filter"));
    EXPECT_TRUE(has(ended.err, "A f"));
    EXPECT_TRUE(has(gradus({"sandbox", "list"}).out, "no kept sandbox")) << "always discarded";
    EXPECT_EQ(fingerprint(), before);
    EXPECT_EQ(gradus({"try", "--untrusted", "--keep", "--", "true"}).exit, 2);
    EXPECT_EQ(gradus({"try", "--untrusted", "--service", "db", "--", "true"}).exit, 2);
    EXPECT_FALSE(has(gradus({"try", "--untrusted", "-q", "--", "true"}).err, "guarantees"));
    EXPECT_EQ(gradus({"try", "--untrusted", "--system", "--", "true"}).exit, 2);
    EXPECT_NE(gradus({"try", "--untrusted", "--network", "host", "--", "true"}).exit, 0);
}

TEST_P(Room, AnUntrustedCommandDoesNotSeeTheProjectWhereverItLies) {
    // Not where every sandbox has a place of its own.
    const std::filesystem::path elsewhere = "/opt/gradus-room-" + std::to_string(::getpid());
    if (::geteuid() != 0) GTEST_SKIP() << "only root can write to /opt";
    ASSERT_TRUE(std::filesystem::create_directories(elsewhere));
    writeBytes(elsewhere / "secret", "hush\n");
    if (GetParam() == As::kOrdinaryUser) start({"chown", "-R", "41235", elsewhere.native()})->wait();
    const std::string secret = (elsewhere / "secret").native();
    EXPECT_EQ(gradus({"-C", elsewhere.native(), "try", "--discard", "--", "cat", secret}).out, "hush\n");
    const Ended ended = gradus({"-C", elsewhere.native(), "try", "--untrusted", "--", "cat", secret});
    std::filesystem::remove_all(elsewhere);
    EXPECT_EQ(ended.exit, 1) << ended.err;
    EXPECT_EQ(ended.out, "");
}

// Whoever reads its output may go away; what the command did is kept all the same.
TEST_P(Room, WorkIsKeptWhereItsOutputIsNot) {
    for (const char* reader : {"| head -n 1", "> /dev/full"}) {
        const std::string name = std::string("kept-") + (*reader == '|' ? "pipe" : "full");
        startCommand(
            {"sh", "-c",
             fmt::format("'{}' try --name {} -- sh -c 'echo work > done; for i in 1 2 3; do echo $i; sleep 0.2; "
                         "done; echo end >> done' {}",
                         GRADUS_PROGRAM, name, reader)})
            ->wait();
        EXPECT_EQ(gradus({"sandbox", "exec", name, "--", "cat", "done"}).out, "work\nend\n") << reader;
    }
}

// 125 says that a command never ran
TEST_P(Room, ACommandWhoseOutputIsLostIsSaidToHaveRun) {
    for (const char* reader : {">&-", "> /dev/full"}) {
        const Ended ended =
            command({"sh", "-c", fmt::format("'{}' try --discard -- echo text {}", GRADUS_PROGRAM, reader)});
        EXPECT_EQ(ended.exit, 6) << reader;
        EXPECT_TRUE(has(ended.err, "the command ran (exit code 0)")) << ended.err;
    }
}

constexpr std::string_view kFailing = R"([pipeline]
name = "shop"
stages = ["sandbox", "local"]

[check.unit]
run = ["sh", "-c", "echo found > evidence; rm README.md; exit 3"]
)";

TEST_P(Room, AFailedCheckIsGoneIntoAsItWasLeft) {
    writeBytes(project / "gradus.toml", kFailing);
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const std::string before = fingerprint();
    const Ended failed = gradus({"check"});
    EXPECT_EQ(failed.exit, 1);
    EXPECT_TRUE(has(failed.err, "next: gradus reopen e1")) << failed.err;
    const Ended reopened = gradus({"reopen", "e1"});
    EXPECT_EQ(reopened.exit, 0) << reopened.err;
    EXPECT_TRUE(has(reopened.out, "reopened-e1"));
    EXPECT_EQ(exec("reopened-e1", "cat evidence; test ! -e README.md && echo gone").out, "found\ngone\n");
    EXPECT_EQ(diff("reopened-e1"),
              (std::map<std::string, std::string>{{"evidence", "added"}, {"README.md", "deleted"}}));
    EXPECT_EQ(gradus({"reopen", "-q", "e1", "--name", "again"}).exit, 0) << "as often as one likes";
    EXPECT_EQ(gradus({"reopen", "e99"}).exit, 2);
    EXPECT_EQ(gradus({"reopen", "s1"}).exit, 2);
    EXPECT_EQ(fingerprint(), before);
}

TEST_P(Room, AFailedCheckOfAChangeIsLeftWithTheChange) {
    writeBytes(project / "gradus.toml", kFailing);
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const std::string sandbox = made();
    exec(sandbox, "echo part of the change > added");
    EXPECT_EQ(gradus({"promote", sandbox}).exit, 1);
    const Json list = gradusJson({"sandbox", "list"})["data"]["sandboxes"];
    ASSERT_EQ(list.size(), 2) << list.dump();
    const std::string name = list[1]["name"];
    EXPECT_TRUE(has(name, "failed-e"));
    EXPECT_EQ(exec(name, "cat added evidence").out, "part of the change\nfound\n");
}

TEST_P(Room, OnlySoManyFailuresAreKeptAndNoneWhereThePolicySaysSo) {
    writeBytes(project / "gradus.toml", kFailing);
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    for (int i = 0; i < 10; ++i) gradus({"check"});
    EXPECT_EQ(gradusJson({"sandbox", "list"})["data"]["sandboxes"].size(), 8);
    EXPECT_EQ(gradus({"reopen", "e1"}).exit, 2) << "the oldest made room";
    EXPECT_EQ(gradus({"reopen", "e10"}).exit, 0);
    writeBytes(project / "gradus.toml", std::string(kFailing) + "[policy.sandbox]\nkeep-failed = \"0s\"\n");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const Ended failed = gradus({"check"});
    EXPECT_FALSE(has(failed.err, "reopen")) << failed.err;
    EXPECT_EQ(gradusJson({"audit", "verify"})["data"]["kind"], "ok");
}

/// A pipeline whose checks leave something behind.
class RoomOfAStage : public ClimbingProgram {
  protected:
    void SetUp() override {
        ClimbingProgram::SetUp();
        if (IsSkipped()) return;
        given();
        edit("check", "#!/bin/sh\necho $1 > evidence\nrm -f lib/more.txt\n! grep -q \"^no-$1\" app.txt\n");
        edit("lib/more.txt", "more\n");
        commitAll("checks that write");
    }
    /// The execution of the check that said no.
    std::string refusedAt(const std::string& stage, const std::string& sandbox) {
        const Ended ended = gradus({"promote", sandbox, "--to", stage});
        EXPECT_EQ(ended.exit, 1) << ended.out << ended.err;
        const std::string mark = "gradus reopen ";
        const auto at = ended.err.find(mark);
        EXPECT_NE(at, std::string::npos) << ended.err;
        return at == std::string::npos
                   ? ""
                   : ended.err.substr(at + mark.size(), ended.err.find('\n', at) - at - mark.size());
    }
    std::string inside(const std::string& sandbox, const std::string& script) {
        return gradus({"sandbox", "exec", sandbox, "--", "sh", "-c", script}).out;
    }
    std::map<std::string, std::string> diff(const std::string& sandbox) {
        return kindsOf(gradusJson({"sandbox", "diff", sandbox})["data"]);
    }
    const std::map<std::string, std::string> asItWasLeft{
        {"app.txt", "modified"}, {"evidence", "added"}, {"lib/more.txt", "deleted"}};
};
INSTANTIATE_TEST_SUITE_P(Users, RoomOfAStage, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

// What a stage would have held is neither the project as it is, nor the stage as it becomes.
TEST_P(RoomOfAStage, AFailedCheckIsGoneIntoOverWhatTheStageHeld) {
    ASSERT_EQ(gradus({"promote", sandboxWith("echo v2 > app.txt"), "--to", "staging"}).exit, 0);
    const std::string failing = sandboxWith("echo no-staging > app.txt");
    edit("lib/util.txt", "edited since\n");
    edit("ignored/built", "environment\n");
    const std::string held = fingerprint(staging);
    const std::string execution = refusedAt("staging", failing);
    EXPECT_EQ(fingerprint(staging), held) << "looked at, never touched";
    ASSERT_EQ(gradus({"reopen", execution, "--name", "again"}).exit, 0);
    const std::string seen = "cat app.txt lib/util.txt evidence; ls lib; test ! -e ignored && git status -s | head -1";
    const std::string shown = inside("again", seen);
    EXPECT_TRUE(shown.starts_with("no-staging\nu1\nstaging\nutil.txt\n")) << shown;
    EXPECT_EQ(diff("again"), asItWasLeft);
    EXPECT_EQ(inside("again", "./check staging; echo $?; echo v3 > app.txt; ./check staging; echo $?"), "1\n0\n");
    EXPECT_EQ(diff("again").at("app.txt"), "modified");
    // The stage moves on, the project too; what was left stays.
    ASSERT_EQ(gradus({"promote", sandboxWith("echo u4 > lib/other.txt"), "--to", "staging"}).exit, 0);
    ASSERT_EQ(gradus({"gc"}).exit, 0);
    ASSERT_EQ(gradus({"reopen", execution, "--name", "later"}).exit, 0);
    EXPECT_EQ(inside("later", seen), shown);
    EXPECT_EQ(diff("later"), asItWasLeft);
    expectWhole();
}

TEST_P(RoomOfAStage, OverTheSeedOfAStageThatIsEmpty) {
    edit("ignored/built", "environment\n");
    const std::string execution = refusedAt("staging", sandboxWith("echo no-staging > app.txt"));
    ASSERT_EQ(gradus({"reopen", execution, "--name", "again"}).exit, 0);
    EXPECT_EQ(inside("again", "cat app.txt lib/util.txt evidence; test ! -e ignored && echo bare"),
              "no-staging\nu1\nstaging\nbare\n");
    EXPECT_EQ(diff("again"), asItWasLeft);
    // As any other sandbox: frozen, forked, merged and removed.
    for (int i = 0; i < 34; ++i) {
        inside("again", "echo " + std::to_string(i) + " > round");
        ASSERT_EQ(gradus({"sandbox", "snapshot", "again", "round-" + std::to_string(i)}).exit, 0);
    }
    EXPECT_EQ(inside("again", "cat round app.txt lib/util.txt"), "33\nno-staging\nu1\n");
    auto withRound = asItWasLeft;
    withRound["round"] = "added";
    EXPECT_EQ(diff("again"), withRound);
    expectWhole();
}

}  // namespace
}  // namespace gradus::test
