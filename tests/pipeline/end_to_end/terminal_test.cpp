// A person at a terminal: shells, editors and keys, in a sandbox.

#include "tests/pipeline/end_to_end/person_at_terminal.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class AtATerminal : public SandboxProgramTest {
  protected:
    std::unique_ptr<PersonAtTerminal> sit(Words words) {
        if (GetParam() == As::kOrdinaryUser) {
            const Words prefix{"setpriv", "--reuid=41235", "--regid=41235", "--clear-groups"};
            words.insert(words.begin(), prefix.begin(), prefix.end());
        }
        variables["TERM"] = "xterm";
        variables["PS1"] = "inside> ";
        return std::make_unique<PersonAtTerminal>(words, variables, project);
    }
    std::unique_ptr<PersonAtTerminal> tryAt(Words command, Words options = {"--discard"}) {
        Words words{program(), "try"};
        words.insert(words.end(), options.begin(), options.end());
        words.emplace_back("--");
        words.insert(words.end(), command.begin(), command.end());
        return sit(words);
    }
    /// Until the relay has the terminal and the command says so.
    static void begin(PersonAtTerminal& person) {
        ASSERT_TRUE(person.sees("up\r\n"));
        ASSERT_TRUE(person.isRaw());
    }
};
INSTANTIATE_TEST_SUITE_P(Users, AtATerminal, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

const Words kShell{"bash", "--norc", "--noprofile"};

// Says when it has the terminal for the first time, and when it has it again: keys that come before that are the
// shell's.
// It starts no program after that: a shell that is about to (vfork) cannot be stopped before its child has begun.
constexpr const char* kJob = "sh -c 'trap \"echo ba\\ck\" CONT; sleep 60 & echo be\"\"gun; while :; do wait; done'\r";

TEST_P(AtATerminal, AShellHasOneOfItsOwnAndItsExitCodeIsPassedThrough) {
    auto person = tryAt(kShell);
    person->type("PS1='inside'; PS1+='> '\r");
    ASSERT_TRUE(person->sees("inside> "));
    person->type("tty; test -t 0 -a -t 1 -a -t 2; echo three-$?; stty size\r");
    EXPECT_TRUE(person->sees("/dev/pts/0"));
    EXPECT_TRUE(person->sees("three-0"));
    EXPECT_TRUE(person->sees("24 80"));
    person->resize(50, 132);
    person->type("for look in 1 2 3 4 5 6 7 8; do sleep 0.2; stty size; done\r");
    EXPECT_TRUE(person->sees("50 132"));
    person->type("exit 7\r");
    EXPECT_EQ(person->wait(), 7);
    EXPECT_TRUE(person->isAsBefore());
}

TEST_P(AtATerminal, ControlCAndJobsAreTheShellsOwn) {
    auto person = tryAt(kShell);
    person->type("PS1='inside'; PS1+='> '\r");
    ASSERT_TRUE(person->sees("inside> "));
    person->type(kJob);
    ASSERT_TRUE(person->sees("begun\r\n"));
    person->type("\x03");
    ASSERT_TRUE(person->sees("inside> "));
    person->type("echo after-$?\r");
    EXPECT_TRUE(person->sees("after-130"));
    person->type(kJob);
    ASSERT_TRUE(person->sees("begun\r\n"));
    person->type("\x1a");
    EXPECT_TRUE(person->sees("Stopped"));
    ASSERT_TRUE(person->sees("inside> "));
    person->type("jobs\r");
    EXPECT_TRUE(person->sees("[1]+  Stopped"));
    ASSERT_TRUE(person->sees("inside> "));
    person->type("fg\r");
    EXPECT_TRUE(person->sees("back\r\n"));
    person->type("\x03");
    ASSERT_TRUE(person->sees("inside> "));
    person->type("\x04");
    EXPECT_EQ(person->wait(), 130);
    EXPECT_TRUE(person->isAsBefore());
}

TEST_P(AtATerminal, BesideAServiceItIsTheCommandsAllTheSame) {
    writeBytes(project / "gradus.toml",
               "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\"]\n[service.idle]\nrun = \"sleep 600\"\n");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    auto person = tryAt(kShell, {"--discard", "--service", "idle"});
    person->type("PS1='inside'; PS1+='> '\r");
    ASSERT_TRUE(person->sees("inside> "));
    person->type(kJob);
    ASSERT_TRUE(person->sees("begun\r\n"));
    person->type("\x1a");
    EXPECT_TRUE(person->sees("Stopped"));
    ASSERT_TRUE(person->sees("inside> "));
    person->type("fg\r");
    EXPECT_TRUE(person->sees("back\r\n"));
    person->type("\x03");
    ASSERT_TRUE(person->sees("inside> "));
    person->type("exit 9\r");
    EXPECT_EQ(person->wait(), 9);
    EXPECT_TRUE(person->isAsBefore());
}

TEST_P(AtATerminal, AnEditorWorksAndWhatItWroteIsTheSandboxs) {
    if (!fs::exists("/usr/bin/vim.tiny")) GTEST_SKIP() << "vim.tiny is not installed";
    const std::string before = fingerprint();
    auto person = tryAt({"vim.tiny", "-u", "NONE", "README.md"}, {"--keep"});
    ASSERT_TRUE(person->sees("# Shop"));
    EXPECT_TRUE(person->isRaw());
    person->type("Owritten inside\x1b");
    ASSERT_TRUE(person->sees("written inside"));
    person->resize(30, 100);
    person->type(":wq\r");
    ASSERT_TRUE(person->sees("kept as s1"));
    EXPECT_EQ(person->wait(), 0);
    EXPECT_TRUE(person->isAsBefore());
    EXPECT_EQ(gradus({"sandbox", "exec", "s1", "--", "head", "-1", "README.md"}).out, "written inside\n");
    EXPECT_EQ(fingerprint(), before);
}

TEST_P(AtATerminal, WhatWasShownIsRecorded) {
    auto person = tryAt({"sh", "-c", "echo shown to the person"});
    EXPECT_EQ(person->wait(), 0);
    Sql sql(stateDirectory().database(), Sql::Mode::kReadOnly);
    auto rows = sql("select stdout_bytes, stdout is not null from execution");
    ASSERT_TRUE(rows.step());
    EXPECT_EQ(rows.number(0), 21);
    EXPECT_EQ(rows.number(1), 1);
}

TEST_P(AtATerminal, AskedAtTheEndTheAnswerCounts) {
    auto person = tryAt({"sh", "-c", "echo x > new"}, {});
    ASSERT_TRUE(person->sees("keep this sandbox? [Y/n]"));
    EXPECT_TRUE(person->isAsBefore()) << "the question needs a terminal that echoes";
    person->type("n\r");
    EXPECT_EQ(person->wait(), 0);
    EXPECT_TRUE(has(gradus({"sandbox", "list"}).out, "no kept sandbox"));
}

TEST_P(AtATerminal, OutputInAPipeIsNoTerminal) {
    auto person = sit({"sh", "-c", program() + " try --discard -- sh -c 'test -t 1; echo out-$?' | cat"});
    EXPECT_TRUE(person->sees("out-1"));
    EXPECT_EQ(person->wait(), 0);
}

TEST_P(AtATerminal, WhatReachesBeyondTheScreenIsLeftOut) {
    const Words noisy{"printf", "a\\033]52;c;ZXZpbA==\\007b\\033[31mc\\033]0;title\\033\\\\d\\n"};
    auto person = tryAt(noisy);
    EXPECT_EQ(person->wait(), 0);
    EXPECT_TRUE(has(person->screen(), "ab\x1b[31mcd")) << testing::PrintToString(person->screen());
    auto raw = tryAt(noisy, {"--discard", "--raw"});
    EXPECT_EQ(raw->wait(), 0);
    EXPECT_TRUE(has(raw->screen(), "\x1b]52;c;ZXZpbA=="));
}

// The ways out, one by one.
TEST_P(AtATerminal, ASignalLeavesItAsItWas) {
    auto person = tryAt({"sh", "-c", "echo up; sleep 60"});
    begin(*person);
    ::kill(person->pid(), SIGTERM);
    EXPECT_EQ(person->wait(), 128 + SIGTERM);
    EXPECT_TRUE(person->isAsBefore());
}

TEST_P(AtATerminal, TwoSignalsLeaveItAsItWas) {
    auto person = tryAt({"sh", "-c", "trap '' TERM; echo up; sleep 60"});
    begin(*person);
    ::kill(person->pid(), SIGTERM);
    ::usleep(200'000);
    ::kill(person->pid(), SIGTERM);
    EXPECT_EQ(person->wait(), 128 + SIGTERM);
    EXPECT_TRUE(person->isAsBefore());
}

TEST_P(AtATerminal, ACrashLeavesItAsItWas) {
    for (const int fault : {SIGSEGV, SIGABRT, SIGQUIT}) {
        auto person = tryAt({"sh", "-c", "echo up; sleep 60"});
        begin(*person);
        ::kill(person->pid(), fault);
        EXPECT_EQ(person->wait(), 128 + fault);
        EXPECT_TRUE(person->isAsBefore()) << fault;
    }
}

TEST_P(AtATerminal, TheEndOfTheJailLeavesItAsItWas) {
    auto person = tryAt({"sh", "-c", "echo up; sleep 60"});
    begin(*person);
    const std::string pid = std::to_string(person->pid());
    std::istringstream children(bytesOf("/proc/" + pid + "/task/" + pid + "/children"));
    pid_t jail = 0;
    ASSERT_TRUE(children >> jail);
    ::kill(jail, SIGKILL);
    EXPECT_EQ(person->wait(), 125);
    EXPECT_TRUE(person->isAsBefore());
    EXPECT_TRUE(has(person->screen(), "the sandbox was lost"));
}

TEST_P(AtATerminal, StoppedItIsTheShellsAndContinuedTheCommandsAgain) {
    if (!fs::exists("/bin/dash")) GTEST_SKIP() << "dash, which leaves a terminal's settings alone, is not installed";
    auto person = sit({"dash", "-i"});
    ASSERT_TRUE(person->sees("inside> "));
    // Not a shell: dash forgets an interrupt that comes while it starts a command.
    person->type(program() +
                 " try --discard -- python3 -c 'import time; print(\"u\" \"p\", flush=True); time.sleep(60)'\r");
    begin(*person);
    const std::string shell = std::to_string(person->pid());
    std::istringstream children(bytesOf("/proc/" + shell + "/task/" + shell + "/children"));
    pid_t gradus = 0;
    ASSERT_TRUE(children >> gradus);
    ::kill(gradus, SIGTSTP);
    EXPECT_TRUE(person->sees("Stopped"));
    ASSERT_TRUE(person->sees("inside> "));
    EXPECT_TRUE(person->isAsBefore());
    person->type("fg\r");
    EXPECT_TRUE(PersonAtTerminal::soon([&] { return person->isRaw(); }));
    person->type("\x03");
    ASSERT_TRUE(person->sees("inside> "));
    EXPECT_TRUE(person->isAsBefore());
    person->type("echo code-$?\r");
    EXPECT_TRUE(person->sees("code-130\r\n"));
    person->type("exit\r");
    EXPECT_EQ(person->wait(), 0);
}

TEST_P(AtATerminal, ALongPasteArrivesWhole) {
    auto person = tryAt({"sh", "-c", "stty -icanon -echo; echo up; sleep 0.3; head -c 30000 | sha256sum"});
    begin(*person);
    const std::string paste(30000, 'x');
    person->type(paste);
    EXPECT_EQ(person->wait(), 0);
    const std::string sum = shell("head -c 30000 /dev/zero | tr '\\0' x | sha256sum").out;
    EXPECT_TRUE(has(person->screen(), sum.substr(0, 64)));
}

TEST_P(AtATerminal, SandboxShellGoesOnInOneAndKeepsANewOneThatChanged) {
    variables["SHELL"] = "/bin/sh";
    auto person = sit({program(), "sandbox", "shell"});
    person->type("echo first > note; exit 3\r");
    ASSERT_TRUE(person->sees("kept as s1"));
    EXPECT_EQ(person->wait(), 3);
    person = sit({program(), "sandbox", "shell", "s1"});
    person->type("cat no*; exit\r");
    EXPECT_TRUE(person->sees("first\r\n"));
    EXPECT_EQ(person->wait(), 0);
    EXPECT_TRUE(person->isAsBefore());
    person = sit({program(), "sandbox", "shell"});
    person->type("exit\r");
    EXPECT_EQ(person->wait(), 0);
    EXPECT_EQ(gradusJson({"sandbox", "list"})["data"]["sandboxes"].size(), 1) << "nothing changed, so nothing is kept";
}

}  // namespace
}  // namespace gradus::test
