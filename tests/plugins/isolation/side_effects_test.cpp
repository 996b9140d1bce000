// What a run records of its side effects: refused calls and connections, places written, what was left running.

#include "tests/plugins/isolation/network_by_name_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

class SideEffectsSeen : public SandboxTest {};

TEST_F(SideEffectsSeen, RefusedCallsAreCountedByName) {
    const Outcome outcome = runShell(
        "/run/guest call 165 0 0 0 0 0; /run/guest call 165 0 0 0 0 0; /run/guest call 101 0 0 0 0; unshare -U true");
    std::map<std::string, std::uint64_t> calls;
    for (const RefusedCall& call : outcome.sideEffects.syscallsDenied) {
        calls[call.name] = call.times;
        EXPECT_TRUE(call.exact);
    }
    EXPECT_TRUE(outcome.sideEffects.callsSeen);
    EXPECT_EQ(calls["mount"], 2U) << describe(outcome);
    EXPECT_EQ(calls["ptrace"], 1U);
    EXPECT_EQ(calls["unshare"], 1U);
    EXPECT_EQ(calls.size(), 3U);
}

TEST_F(SideEffectsSeen, ALoopOfRefusedCallsIsAnsweredAndCountedUpToALimit) {
    Command command = shell("");
    command.arguments = {"/usr/bin/python3", "-c", R"(
import ctypes, threading, time
libc = ctypes.CDLL(None)
end = time.monotonic() + 2
count = 0
def loop():
    global count
    while time.monotonic() < end:
        libc.syscall(250, 0, 0, 0, 0, 0)
        count += 1
threads = [threading.Thread(target=loop) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(count > 3000)
)"};
    const HostProject project(someone());
    const Outcome outcome = open(project, limitsOf({{LimitName::kWallTime, 30'000}}))->run(command);
    EXPECT_EQ(outcome.out.text(), "True\n") << describe(outcome);
    ASSERT_EQ(outcome.sideEffects.syscallsDenied.size(), 1U);
    EXPECT_EQ(outcome.sideEffects.syscallsDenied[0], (RefusedCall{"keyctl", 1000, false}));
}

TEST_F(SideEffectsSeen, ManyTasksKilledWhileTheyAskLeaveNothingBehind) {
    Command command = shell("");
    command.arguments = {"/usr/bin/python3", "-c", R"(
import ctypes, os
libc = ctypes.CDLL(None)
for _ in range(60):
    if os.fork() == 0:
        while True: libc.syscall(250, 0, 0, 0, 0, 0)
import time; time.sleep(60)
)"};
    const HostProject project(someone());
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = open(project, limitsOf({{LimitName::kWallTime, 1000}}))->run(command);
    EXPECT_EQ(outcome.verdict, Verdict::kTimeout) << describe(outcome);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(SideEffectsSeen, RefusedConnectionsAreListedWithoutANetworkToo) {
    GRADUS_CASES("N4");
    const Outcome outcome = runShell("curl -s -m 5 http://192.0.2.7:81/; curl -s -m 5 http://127.0.0.1:9/; true");
    EXPECT_EQ(deniedBy(outcome), std::vector<std::string>{"tcp 192.0.2.7:81 not-allowed x1"}) << describe(outcome);
}

TEST_F(SideEffectsSeen, ManyDestinationsAreCountedBeyondThoseListed) {
    Command command = shell("");
    command.arguments = {"/usr/bin/python3", "-c",
                         "import socket\nfor i in range(200): socket.socket().connect_ex(('192.0.2.7', 1 + i))"};
    const HostProject project(someone());
    const Outcome outcome = open(project)->run(command);
    EXPECT_EQ(outcome.sideEffects.networkDenied.size(), 64U) << describe(outcome);
    EXPECT_EQ(outcome.sideEffects.moreDenied, 136U);
}

TEST_F(SideEffectsSeen, NewPlacesOutsideOfTheProjectAreListed) {
    const HostProject project(someone());
    Workspace workspace = workspaceOf(project);
    workspace.projectPlaces = {project.path()};
    workspace.directories.push_back({"/var/tmp", 01777});
    workspace.directories.push_back({"/var/tmp/home", 0700});
    workspace.files.push_back({"/var/tmp/home/.config/tool", "x\n"});
    const auto sandbox = backend().open(workspace, {}, Network::kNone, someone());
    const Outcome quiet = sandbox->run(shell("echo x > mine", project.path()));
    EXPECT_EQ(quiet.sideEffects.outsideWrites, std::vector<std::string>()) << describe(quiet);
    EXPECT_TRUE(quiet.sideEffects.isNothing());
    const Outcome outcome = sandbox->run(
        shell("mkdir -p /tmp/a/b && touch /tmp/a/b/c && touch /var/tmp/home/.config/new /var/tmp/home/.rc"));
    std::vector<std::string> writes = outcome.sideEffects.outsideWrites;
    std::sort(writes.begin(), writes.end());
    EXPECT_EQ(writes, (std::vector<std::string>{"/tmp/a", "/var/tmp/home/.config/new", "/var/tmp/home/.rc"}))
        << describe(outcome);
    const Outcome many = sandbox->run(shell("cd /tmp && for i in $(seq 100); do : > f$i; done; ln -s / link"));
    EXPECT_EQ(many.sideEffects.outsideWrites.size() + many.sideEffects.moreOutsideWrites, 104U);
    EXPECT_LE(many.sideEffects.outsideWrites.size(), 64U);
}

TEST_F(SideEffectsSeen, WhatIsLeftRunningIsNamed) {
    const Outcome outcome = runShell("sleep 30 & sleep 31 & sleep 0.5; echo done");
    EXPECT_EQ(outcome.sideEffects.leftoverCount, 2U) << describe(outcome);
    EXPECT_EQ(outcome.sideEffects.leftoverProcesses, (std::vector<std::string>{"sleep", "sleep"}));
}

TEST_F(SideEffectsSeen, TheHostsNetworkIsNotListenedTo) {
    const HostProject project(someone());
    const auto sandbox = backend().open(workspaceOf(project), {}, Network::kHost, someone());
    const Outcome outcome = sandbox->run(shell("true"));
    EXPECT_TRUE(outcome.sideEffects.callsSeen);
    EXPECT_FALSE(outcome.sideEffects.connectionsSeen);
}

}  // namespace
}  // namespace gradus
