#include "plugins/host/host_command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "store/file.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

using namespace std::chrono_literals;
using test::ScratchDirectory;
namespace fs = std::filesystem;

HostCommand shell(const std::string& script) {
    HostCommand command;
    command.arguments = {"sh", "-c", script};
    command.environment = {"PATH=/usr/bin:/bin"};
    command.directory = "/";
    command.grace = 200ms;
    return command;
}

std::string contentOf(const fs::path& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
}

bool isRunning(pid_t pid) {
    const std::string stat = contentOf("/proc/" + std::to_string(pid) + "/stat");
    return !stat.empty() && stat.find(") Z") == std::string::npos;
}

/// The kernel takes a moment to end what was killed.
bool ends(pid_t pid) {
    for (int i = 0; i < 400; ++i, std::this_thread::sleep_for(5ms))
        if (!isRunning(pid)) return true;
    return false;
}

TEST(HostCommand, GivesExitCodeAndBothStreams) {
    const HostOutcome outcome = runOnHost(shell("echo out; echo err >&2; exit 3"));
    EXPECT_EQ(outcome.exitCode, 3);
    EXPECT_EQ(outcome.text(), "exit code 3");
    EXPECT_FALSE(outcome.succeeded());
    EXPECT_EQ(outcome.out.text(), "out\n");
    EXPECT_EQ(outcome.err.text(), "err\n");
    EXPECT_TRUE(runOnHost(shell("true")).succeeded());
}

TEST(HostCommand, RunsInItsDirectoryWithItsEnvironmentAndNothingElse) {
    const ScratchDirectory scratch;
    HostCommand command = shell("pwd; echo $GREETING; echo ${HOME-none}; cat; tty");
    command.directory = scratch.path();
    command.environment.emplace_back("GREETING=hello");
    EXPECT_EQ(runOnHost(command).out.text(), scratch.path().native() + "\nhello\nnone\nnot a tty\n");
}

TEST(HostCommand, SaysWhyACommandDidNotStart) {
    HostCommand command = shell("true");
    command.arguments = {"no-such-program-here"};
    EXPECT_EQ(runOnHost(command).text(), "there is no program 'no-such-program-here' on PATH");
    command.arguments = {"/no/such/program"};
    EXPECT_NE(runOnHost(command).failure.find("No such file"), std::string::npos);
    command.arguments.clear();
    EXPECT_EQ(runOnHost(command).failure, "there is no command");
    command = shell("true");
    command.directory = "/no/such/directory";
    EXPECT_EQ(runOnHost(command).failure, "/no/such/directory is no directory");
    EXPECT_FALSE(runOnHost(command).exitCode);
}

TEST(HostCommand, TellsADeathBySignal) {
    const HostOutcome outcome = runOnHost(shell("kill -SEGV $$"));
    EXPECT_EQ(outcome.signal, SIGSEGV);
    EXPECT_EQ(outcome.text(), "killed by signal 11");
    EXPECT_FALSE(outcome.succeeded());
}

TEST(HostCommand, EndsTheWholeGroupWhenTheTimeIsUp) {
    const ScratchDirectory scratch;
    HostCommand command =
        shell("sleep 1000 & echo $! > child; trap '' TERM; echo $$ > self; while :; do sleep 1; done");
    command.directory = scratch.path();
    command.timeout = 300ms;
    const HostOutcome outcome = runOnHost(command);
    EXPECT_TRUE(outcome.timedOut);
    EXPECT_EQ(outcome.text(), "timed out after 300ms");
    EXPECT_EQ(outcome.signal, SIGKILL);
    EXPECT_TRUE(ends(std::stoi(contentOf(scratch.path() / "child"))));
    EXPECT_TRUE(ends(std::stoi(contentOf(scratch.path() / "self"))));
}

TEST(HostCommand, LetsOneThatListensTidyUpFirst) {
    HostCommand command = shell("trap 'echo bye; exit 7' TERM; while :; do sleep 0.01; done");
    command.timeout = 200ms;
    command.grace = 10s;
    const HostOutcome outcome = runOnHost(command);
    EXPECT_TRUE(outcome.timedOut);
    EXPECT_EQ(outcome.exitCode, 7);
    EXPECT_EQ(outcome.out.text(), "bye\n");
    EXPECT_LT(outcome.wallMillis, 9000U);
}

TEST(HostCommand, EndsWhenCancelled) {
    std::stop_source source;
    HostCommand command = shell("echo ready; sleep 1000");
    command.cancel = source.get_token();
    command.live = [&](Stream, std::string_view) { source.request_stop(); };
    const HostOutcome outcome = runOnHost(command);
    EXPECT_TRUE(outcome.cancelled);
    EXPECT_EQ(outcome.text(), "cancelled");
    EXPECT_FALSE(outcome.timedOut);
    EXPECT_TRUE(runOnHost(command).cancelled) << "and does not even start when it was cancelled before";
}

TEST(HostCommand, OneThatWasToldToEndHasNotSucceededWhateverItSays) {
    HostCommand command = shell("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    command.timeout = 200ms;
    command.grace = 10s;
    const HostOutcome late = runOnHost(command);
    EXPECT_EQ(late.exitCode, 0);
    EXPECT_FALSE(late.succeeded());
    EXPECT_TRUE(late.began());
    std::stop_source source;
    command.timeout = 0ms;
    command.cancel = source.get_token();
    command.live = [&](Stream, std::string_view) { source.request_stop(); };
    const HostOutcome stopped = runOnHost(command);
    EXPECT_EQ(stopped.exitCode, 0);
    EXPECT_FALSE(stopped.succeeded());
    EXPECT_FALSE(runOnHost(command).began()) << "cancelled before it was started";
}

TEST(HostCommand, HandsADescriptorOnAndTellsWhoHasIt) {
    const ScratchDirectory scratch;
    const FileDescriptor file = openFile(scratch.path() / "held", O_WRONLY | O_CREAT);
    HostCommand command = shell("echo $$ >&3");
    pid_t process = 0;
    command.held = file.get();
    command.started = [&](pid_t pid) { process = pid; };
    EXPECT_TRUE(runOnHost(command).succeeded());
    EXPECT_EQ(std::stoi(contentOf(scratch.path() / "held")), process);
}

TEST(HostCommand, LeavesAServiceAloneThatWentIntoTheBackground) {
    const ScratchDirectory scratch;
    HostCommand command = shell("setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > service");
    command.directory = scratch.path();
    EXPECT_TRUE(runOnHost(command).succeeded());
    const pid_t service = std::stoi(contentOf(scratch.path() / "service"));
    EXPECT_TRUE(isRunning(service));
    ::kill(service, SIGKILL);
}

TEST(HostCommand, IsNotHeldUpByWhoHoldsTheOutputOpen) {
    const ScratchDirectory scratch;
    HostCommand command = shell("sleep 1000 & echo $! > service; echo done");
    command.directory = scratch.path();
    const auto before = std::chrono::steady_clock::now();
    const HostOutcome outcome = runOnHost(command);
    EXPECT_LT(std::chrono::steady_clock::now() - before, 20s);
    EXPECT_EQ(outcome.out.text(), "done\n");
    const pid_t service = std::stoi(contentOf(scratch.path() / "service"));
    EXPECT_TRUE(isRunning(service));
    ::kill(service, SIGKILL);
}

TEST(HostCommand, KeepsTheBeginningAndTheEndOfALongOutput) {
    HostCommand command = shell("echo first; yes | head -c 3000000; echo last");
    command.keepOut = {16, 16};
    const HostOutcome outcome = runOnHost(command);
    EXPECT_TRUE(outcome.out.truncated);
    EXPECT_EQ(outcome.out.bytes, 3000011U);
    EXPECT_EQ(outcome.out.head.substr(0, 6), "first\n");
    EXPECT_EQ(outcome.out.tail.substr(outcome.out.tail.size() - 5), "last\n");
}

TEST(HostCommand, EndsOneThatWritesWithoutEnd) {
    HostCommand command = shell("exec yes");
    command.keepOut = {16, 16};
    command.timeout = 100ms;
    EXPECT_TRUE(runOnHost(command).timedOut);
}

TEST(HostCommand, TakesProgramsFromAbsoluteDirectoriesOnly) {
    EXPECT_EQ(findProgram("sh", {"PATH=:.:/bin"}), "/bin/sh");
    EXPECT_EQ(findProgram("sh", {"PATHS=/bin", "PATH=/nowhere"}), std::nullopt);
    EXPECT_TRUE(findProgram("sh", {})) << "without PATH the usual places are looked at";
    EXPECT_EQ(findProgram("./tool", {}), "./tool");
}

}  // namespace
}  // namespace gradus
