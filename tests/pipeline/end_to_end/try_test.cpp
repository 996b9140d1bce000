// `gradus try` as people use it: the program, a real repository, a real sandbox.

#include "tests/pipeline/end_to_end/sandbox_program.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class Try : public SandboxProgramTest {};
INSTANTIATE_TEST_SUITE_P(Users, Try, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

TEST_P(Try, LeavesTheRepositoryByteIdenticalWhateverHappensInside) {
    GRADUS_CASES("OV27");
    const std::string before = fingerprint();
    const Json data = triedJson("rm -rf -- * .git; echo pwned > README.md", {"--discard"});
    EXPECT_EQ(data["execution"]["verdict"], "ok");
    EXPECT_EQ(kindsOf(data), (std::map<std::string, std::string>{{"README.md", "modified"},
                                                                 {"link", "deleted"},
                                                                 {"run.sh", "deleted"},
                                                                 {"src", "deleted"},
                                                                 {"src/main.c", "deleted"}}));
    EXPECT_EQ(fingerprint(), before);
}

TEST_P(Try, PassesTheCommandsOutputAndExitCodeThrough) {
    GRADUS_CASES("OV34", "NS1");
    const Ended ended = tried("echo out; echo err >&2; exit 3", {"--discard"});
    EXPECT_EQ(ended.exit, 3);
    EXPECT_EQ(ended.out, "out\n");
    EXPECT_TRUE(has(ended.err, "err\n"));
    EXPECT_EQ(gradus({"try", "--discard", "--", "true"}).exit, 0);
    EXPECT_EQ(gradus({"try", "--discard", "--", "false"}).exit, 1);
    EXPECT_EQ(tried("kill -TERM $$", {"--discard"}).exit, 128 + SIGTERM);
}

TEST_P(Try, GivesBinaryOutputUntouchedWhereNobodyLooks) {
    EXPECT_EQ(tried("printf 'a\\033]0;x\\007\\000b\\r'", {"--discard"}).out, std::string("a\x1b]0;x\x07\0b\r", 10));
}

TEST_P(Try, FeedsTheCommandWhatIsPipedIn) {
    EXPECT_EQ(shell(std::string("seq 1 20000 | ") + GRADUS_PROGRAM + " try --discard -- tail -n 1").out, "20000\n");
    EXPECT_EQ(shell(std::string(": | ") + GRADUS_PROGRAM + " try --discard -- wc -c").out, "0\n");
}

TEST_P(Try, SaysWhatTheShellSaysOfACommandThatCannotRun) {
    EXPECT_EQ(gradus({"try", "--discard", "--require", "separate-kernel", "--", "true"}).exit, 125);
    const Ended missing = gradus({"try", "--discard", "--", "no-such-command"});
    EXPECT_EQ(missing.exit, 127);
    EXPECT_NE(missing.err.find("no-such-command is in no directory of PATH"), std::string::npos) << missing.err;
    EXPECT_EQ(gradus({"try", "--discard", "--", "./README.md"}).exit, 126);
    const Json data = gradus({"try", "--json", "--discard", "--", "no-such-command"}).json()["data"];
    EXPECT_EQ(data["execution"]["verdict"], "setup-failed");
    EXPECT_TRUE(data["execution"]["exit_code"].is_null());  // NS9
}

// The record is the same everywhere; programs rely on every one of these names.
TEST_P(Try, TheRecordIsComplete) {
    const Json data = triedJson("echo hello; echo x > new", {"--discard", "--memory", "256M"});
    const Json& run = data["execution"];
    for (const char* key : {"id", "sandbox", "backend", "guarantees", "verdict", "success", "exit_code", "signal",
                            "stdout", "stderr", "stdout_bytes", "stderr_bytes", "truncated", "started_at", "wall_ms",
                            "cpu_ms", "peak_memory_bytes", "limits"})
        EXPECT_TRUE(run.contains(key)) << key;
    EXPECT_EQ(run["stdout"], "hello\n");
    EXPECT_EQ(run["stdout_bytes"], 6);
    EXPECT_EQ(run["success"], true);
    EXPECT_EQ(run["exit_code"], 0);
    const std::vector<std::string> guarantees = run["guarantees"];
    for (const char* floor : {"no-network", "read-only-host", "private-processes", "kernel-filter"})
        EXPECT_NE(std::find(guarantees.begin(), guarantees.end(), floor), guarantees.end()) << floor;
    const Json& memory = run["limits"][0];
    EXPECT_EQ(memory["name"], "memory");
    EXPECT_EQ(memory["value"], 256 << 20);
    EXPECT_TRUE(memory.contains("enforced_by") && memory.contains("peak") && memory.contains("tripped"));
    const Json change = data["changes"][0];
    EXPECT_EQ(change["path"], "new");
    EXPECT_EQ(change["kind"], "added");
    EXPECT_TRUE(change["before"].is_null());
    EXPECT_EQ(change["after"]["size"], 2);
    EXPECT_EQ(data["ignored"], 0);
    EXPECT_EQ(data["base_moved"], Json::array());
}

TEST_P(Try, CreatedAndDeletedInsideIsNoChange) {
    GRADUS_CASES("OV8", "OV28");
    const Json data = triedJson("echo x > y; rm y");
    EXPECT_EQ(data["changes"], Json::array());
    EXPECT_FALSE(data.contains("sandbox")) << "nothing changed, so nothing is kept";
}

TEST_P(Try, FilesThatGitIgnoresAreOnlyCounted) {
    const Json data = triedJson("mkdir ignored; touch ignored/a ignored/b new", {"--discard"});
    EXPECT_EQ(kindsOf(data), (std::map<std::string, std::string>{{"new", "added"}}));
    EXPECT_EQ(data["ignored"], 2);
}

TEST_P(Try, GitWorksInsideAndLeavesNothingOutside) {
    GRADUS_CASES("OV48", "NS26");
    const std::string before = fingerprint();
    const Json data = triedJson(
        "git commit -q --allow-empty -m inside && git log --format=%s -1 && git config user.name", {"--discard"});
    EXPECT_EQ(data["execution"]["stdout"], "inside\nAda\n") << data["execution"]["stderr"];
    EXPECT_EQ(data["changes"], Json::array());  // ST12
    EXPECT_EQ(fingerprint(), before);
}

TEST_P(Try, ACommitInsideIsToldAndKept) {
    shell("echo more >> README.md");
    const Ended ended = tried("git commit -qam precious");
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_TRUE(has(ended.err, "the repository itself changed (.git: ")) << ended.err;
    EXPECT_TRUE(has(ended.err, "kept as ")) << ended.err;
    EXPECT_TRUE(has(gradus({"sandbox", "exec", "@", "--", "git", "log", "-1", "--format=%s"}).out, "precious"));
    EXPECT_GE(gradusJson({"sandbox", "diff", "@"})["data"]["in_repository"], 4);
    const Json looked = triedJson("git status -s");
    EXPECT_EQ(looked["in_repository"], 0);
    EXPECT_FALSE(looked.contains("sandbox"));
}

TEST_P(Try, ACommitInALinkedWorkTreeIsToldAndKept) {
    shell("git worktree add -q '" + (scratch / "linked").native() + "'");
    const Ended ended = gradus(
        {"try", "-C", (scratch / "linked").native(), "--", "git", "commit", "-q", "--allow-empty", "-m", "precious"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_TRUE(has(ended.err, "the repository itself changed (.git: ")) << ended.err;
    EXPECT_TRUE(has(ended.err, "kept as ")) << ended.err;
}

TEST_P(Try, WithoutATerminalKeepsWhatChanged) {
    const Json data = triedJson("echo kept > new");
    ASSERT_TRUE(data.contains("sandbox"));
    const std::string sandbox = data["sandbox"]["id"];
    const Ended read = gradus({"sandbox", "exec", sandbox, "--", "cat", "new"});
    EXPECT_EQ(read.out, "kept\n") << read.err;
    EXPECT_FALSE(fs::exists(project / "new"));
}

TEST_P(Try, ASleeperIsStoppedByTheClock) {
    GRADUS_CASES("NS2", "RE8");
    const Json data = triedJson("sleep 60", {"--discard", "--wall-time", "300ms"});
    EXPECT_EQ(data["execution"]["verdict"], "timeout");
    EXPECT_EQ(tried("sleep 60", {"--discard", "--wall-time", "300ms"}).exit, 124);
}

TEST_P(Try, TasksAreLimited) {
    GRADUS_CASES("R5", "RE1");
    const Json data = triedJson("i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; wait",
                                {"--discard", "--tasks", "12", "--wall-time", "20s"});
    EXPECT_NE(data["execution"]["verdict"], "ok");
    EXPECT_NE(data["execution"]["verdict"], "timeout");
}

TEST_P(Try, SecretsOfTheEnvironmentStayOutside) {
    GRADUS_CASES("E1", "PV6", "OV36");
    variables["AWS_SECRET_ACCESS_KEY"] = "hush";
    variables["LD_PRELOAD"] = "";
    variables["GIT_DIR"] = "/nowhere";
    variables["WANTED"] = "yes";
    const Json data = triedJson("env", {"--discard", "--env", "WANTED", "--env", "SET=x"});
    const std::string out = data["execution"]["stdout"];
    for (const char* name : {"AWS_SECRET", "LD_PRELOAD", "GIT_DIR", "GRADUS_HOME"}) EXPECT_FALSE(has(out, name)) << out;
    EXPECT_TRUE(has(out, "WANTED=yes\n"));
    EXPECT_TRUE(has(out, "SET=x\n"));
    EXPECT_TRUE(has(out, "PATH="));
}

TEST_P(Try, HomeIsEmptyAndTheStateHidden) {
    GRADUS_CASES("FS1", "NW5");
    writeBytes(home / ".ssh/id_ed25519", "secret");
    writeBytes(home / ".aws/credentials", "secret");
    if (GetParam() == As::kOrdinaryUser) start({"chown", "-R", "41235", home.native()})->wait();
    tried("true");
    const Json data =
        triedJson("ls -A ~; cat ~/.ssh/id_ed25519 ~/.aws/credentials; ls " + state.native(), {"--discard"});
    EXPECT_FALSE(has(data["execution"]["stdout"].get<std::string>(), "secret"));
    EXPECT_FALSE(has(data["execution"]["stdout"].get<std::string>(), "state.db"));
}

TEST_P(Try, StandsWhereTheCallerStands) {
    GRADUS_CASES("OV37");
    const Json data =
        gradus({"-C", "src", "try", "--json", "--discard", "--", "sh", "-c", "pwd; echo \"$PWD\"; ls"}).json()["data"];
    const std::string here = fs::canonical(project / "src").native();
    EXPECT_EQ(data["execution"]["stdout"], here + "\n" + here + "\nmain.c\n");
}

TEST_P(Try, TheHostsNetworkIsGivenUpVisibly) {
    const Json data = triedJson("true", {"--discard", "--network", "host"});
    const std::vector<std::string> guarantees = data["execution"]["guarantees"];
    EXPECT_EQ(std::count(guarantees.begin(), guarantees.end(), "no-network"), 0);
    EXPECT_EQ(data["execution"]["without"], Json::array({"no-network"}));
}

TEST_P(Try, AGuaranteeThatNobodyHasRefusesTheRun) {
    const Ended ended = tried("touch ran", {"--require", "separate-kernel"});
    EXPECT_NE(ended.exit, 0);
    EXPECT_TRUE(has(ended.err, "separate-kernel"));
    const Ended policy = tried("touch ran", {"--policy", "untrusted"});
    EXPECT_NE(policy.exit, 0);
    EXPECT_TRUE(has(policy.err, "separate-kernel")) << "with everything that is lacking";
}

TEST_P(Try, EveryRunIsOnRecord) {
    triedJson("echo x > y", {"--discard"});
    const Json verified = gradusJson({"audit", "verify"});
    EXPECT_EQ(verified["data"]["kind"], "ok") << verified.dump();
    const Ended log = gradus({"audit", "query"});
    EXPECT_TRUE(has(log.out, "sandbox.created")) << log.out;
    EXPECT_TRUE(has(log.out, "execution.finished")) << log.out;
}

// The user's edit survives: what is edited outside meanwhile is marked, and nothing overwrites it.
TEST_P(Try, AnEditOutsideMeanwhileIsReported) {
    auto running = startTry("echo inside > README.md; echo up; sleep 2");
    waitForUp(*running);
    writeBytes(project / "README.md", "edited by its owner\n");
    EXPECT_EQ(running->wait().exit, 0);
    const Json data = gradusJson({"sandbox", "diff", "@"})["data"];
    EXPECT_EQ(data["base_moved"], Json::array({"README.md"}));
    EXPECT_EQ(data["changes"][0]["before"], (Json{{"unknown", true}}));
    EXPECT_EQ(bytesOf(project / "README.md"), "edited by its owner\n");
}

TEST_P(Try, AnInterruptEndsItInOrder) {
    GRADUS_CASES("CR17");
    auto running = startTry("echo up; sleep 60");
    waitForUp(*running);
    running->send(SIGINT);
    EXPECT_EQ(running->wait().exit, 130);
    EXPECT_EQ(gradusJson({"sandbox", "list"})["data"]["sandboxes"], Json::array());
    EXPECT_TRUE(has(gradus({"audit", "query"}).out, "reason=discarded"));
}

// --- Bad input ---

TEST_P(Try, AMissingCommandIsToldHow) {
    const Ended ended = gradus({"try"});
    EXPECT_EQ(ended.exit, 2);
    EXPECT_TRUE(has(ended.err, "--"));
    EXPECT_EQ(gradus({"try", "--"}).exit, 2);
}

TEST_P(Try, LimitsThatMeanNothingAreRefused) {
    for (const Words& options : std::vector<Words>{{"--memory", "256"},
                                                   {"--memory", "0M"},
                                                   {"--memory", "-1M"},
                                                   {"--wall-time", "10"},
                                                   {"--tasks", "0"},
                                                   {"--tasks", "many"},
                                                   {"--disk", "99999999999T"},
                                                   {"--network", "some"},
                                                   {"--env", "=x"},
                                                   {"--keep", "--discard"}}) {
        const Ended ended = tried("touch ran", options);
        EXPECT_EQ(ended.exit, 2) << options[0] << ' ' << options[1] << ": " << ended.err;
        EXPECT_TRUE(has(ended.err, "error: ")) << options[0];
    }
    EXPECT_FALSE(fs::exists(project / "ran"));
}

TEST_P(Try, TheWholeFileSystemAndHomeAreNoProjects) {
    EXPECT_EQ(gradus({"-C", "/", "try", "--", "true"}).exit, 125);
    EXPECT_EQ(gradus({"-C", home.native(), "try", "--", "true"}).exit, 125);
}

TEST_P(Try, WordsAfterTheDashesAreNeverOptions) {
    GRADUS_CASES("NS14");
    EXPECT_EQ(gradus({"try", "--discard", "--", "echo", "--help", "--json"}).out, "--help --json\n");
}

TEST_P(Try, AStateDirectoryThatCannotBeWrittenStopsItInWords) {
    if (GetParam() == As::kSelf && ::geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
    shell("rm -rf " + state.native() + " && mkdir " + state.native() + " && chmod 0500 " + state.native());
    const Ended ended = tried("touch ran");
    EXPECT_EQ(ended.exit, 125);
    EXPECT_TRUE(has(ended.err, state.native())) << ended.err;
}

// Only what a person trusted is listened to, and credentials are not shown whoever asks.
TEST_P(Try, ShowsWhatTheTrustedRulesName) {
    const auto rules = [&](const std::string& show) {
        return "printf '[pipeline]\\nname = \"shop\"\\nstages = [\"sandbox\"]\\n[check.t]\\nrun = \"true\"\\n"
               "[sandbox]\\nshow = [\"" +
               show + "\"]\\n' > gradus.toml";
    };
    shell("mkdir -p ~/fixtures && echo fixture > ~/fixtures/f && " + rules("'$HOME'/fixtures"));
    EXPECT_NE(tried("cat ~/fixtures/f", {"--discard"}).exit, 0) << "nobody trusted it yet";
    EXPECT_EQ(gradus({"trust", "--yes"}).exit, 0);
    EXPECT_EQ(tried("cat ~/fixtures/f; echo x > ~/fixtures/f || echo refused", {"--discard"}).out,
              "fixture\nrefused\n");
    shell(rules("/etc/shadow"));
    EXPECT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const Ended refused = tried("true", {"--discard"});
    EXPECT_EQ(refused.exit, 125);
    EXPECT_TRUE(has(refused.err, "/etc/shadow cannot be shown")) << refused.err;
}

TEST_P(Try, RootOfAUserNamespaceIsAnOrdinaryUser) {
    const Ended ended =
        command({"unshare", "-Ur", GRADUS_PROGRAM, "try", "--discard", "--", "sh", "-c", "id -u; rm README.md"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_EQ(ended.out, "0\n");
    EXPECT_TRUE(has(ended.err, "D README.md")) << ended.err;
    EXPECT_TRUE(fs::exists(project / "README.md"));
}

// At a real terminal: the question is not in the way of Ctrl-C, and no work is lost by it.
TEST_P(Try, InterruptingTheQuestionKeepsTheSandbox) {
    writeBytes(scratch / "ask.py", R"(import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], [sys.argv[1], "try", "--", "sh", "-c", "echo x > new"])
seen = b""
def read():
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
while b"[Y/n]" not in seen:
    piece = read()
    if not piece:
        sys.exit("ended early: " + seen.decode())
    seen += piece
os.write(terminal, b"\x03")
while piece := read():
    seen += piece
print(seen.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
)");
    const Ended ended = command({"python3", (scratch / "ask.py").native(), GRADUS_PROGRAM});
    EXPECT_EQ(ended.exit, 130) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "kept as s1")) << ended.out;
}

// To hide what nobody trusted yet harms nobody.
TEST_P(Try, WhatAnUntrustedFileHidesIsHidden) {
    writeBytes(project / ".env", "secret\n");
    writeBytes(project / "gradus.toml", std::string(kGoodRules) + "[sandbox]\nhide = [\"./.env*\"]\n");
    const Json json = triedJson("cat .env", {"--discard"});
    EXPECT_EQ(json["execution"]["stdout"], "") << json.dump(2);
    EXPECT_TRUE(has(json["notes"].dump(), "not trusted")) << json.dump(2);
}

TEST_P(Try, WhatTheRulesGiveUpIsSaid) {
    writeBytes(project / "gradus.toml", std::string(kGoodRules) + "[sandbox]\nnetwork = \"host\"\n");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const Ended ended = tried("true", {"--discard"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_TRUE(has(ended.err, "give up no-network")) << ended.err;
}

}  // namespace
}  // namespace gradus::test
