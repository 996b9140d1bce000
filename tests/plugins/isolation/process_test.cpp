// The backend that is limits and no boundary: what it keeps, what it refuses, and that it never claims more.

#include "plugins/isolation/process.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugins/api/choice.h"
#include "plugins/isolation/builtin.h"
#include "plugins/isolation/jail/landlock.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class BareProcess : public SandboxTest {
  protected:
    void SetUp() override {
        SandboxTest::SetUp();
        requireReachable();
    }
    std::unique_ptr<Sandbox> bare(const Limits& limits = {}, Network network = Network::kNone) {
        return process_.open({}, limits, network, someone());
    }
    Outcome runBare(const std::string& script, const HostProject& project, Network network = Network::kNone) {
        return bare(limitsOf({{LimitName::kWallTime, 30'000}}), network)->run(shell(script, project.path()));
    }

    SystemClock clock_;
    ProcessBackend process_{GRADUS_JAIL, clock_};
};

TEST_F(BareProcess, ShowsTheHostAsItIsAndRefusesAnythingElse) {
    const HostProject project(someone());
    Workspace overlay;
    overlay.overlays.push_back({project.path(), {project.path()}, {}, {}, true});
    Workspace hidden;
    hidden.hidden = {"/etc"};
    Workspace bound;
    bound.binds.push_back({"/etc", "/mnt", false});
    for (const Workspace& workspace : {overlay, hidden, bound})
        EXPECT_THROW(process_.open(workspace, {}, Network::kNone, someone()), SetupError);
    EXPECT_FALSE(process_.clones());
    EXPECT_EQ(runBare("echo real > README.md; pwd", project).out.text(), project.path().native() + "\n");
    EXPECT_EQ(project.read("README.md"), "real\n") << "there is no copy";
}

TEST_F(BareProcess, NothingRunsAsRoot) {
    EXPECT_THROW(process_.open({}, {}, Network::kNone, Identity{0, 0}), SetupError);
    const HostProject project(someone());
    const Outcome outcome = runBare("id -u; grep -E 'NoNewPrivs|Seccomp:|CapEff|CapPrm' /proc/self/status", project);
    EXPECT_EQ(outcome.out.text(),
              fmt::format("{}\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n"
                          "Seccomp:\t2\n",
                          someone().uid))
        << describe(outcome);
}

TEST_F(BareProcess, WritesOnlyWhereItStarts) {
    if (landlockAbi() < 2) GTEST_SKIP() << "this kernel has no Landlock that would do";
    const HostProject project(someone());
    const HostProject other(someone());
    const Outcome outcome =
        runBare("echo x > new && mkdir sub && mv new sub/ && ls sub; echo y > " + other.path().native() +
                    "/y 2>/dev/null || echo refused; rm -f " + other.path().native() +
                    "/README.md 2>/dev/null || echo refused; cat " + other.path().native() + "/README.md",
                project);
    EXPECT_EQ(outcome.out.text(), "new\nrefused\nrefused\nhello\n") << describe(outcome);
    EXPECT_FALSE(fs::exists(other.path() / "y"));
}

TEST_F(BareProcess, WithoutNetworkNoSocketCanBeMade) {
    const HostProject project(someone());
    const std::string script =
        "import socket\nfor f in (1, 2, 10, 16, 17):\n try: socket.socket(f); print('made', f)\n"
        " except OSError as e: print(e.errno)\na, b = socket.socketpair(); print('pair')";
    Command command = shell("", project.path());
    command.arguments = {"/usr/bin/python3", "-c", script};
    EXPECT_EQ(bare()->run(command).out.text(), "1\n1\n1\n1\n1\npair\n");
    command.arguments.back() = "import socket\nsocket.socket(2); print('made')";
    EXPECT_EQ(bare({}, Network::kHost)->run(command).out.text(), "made\n");
}

TEST_F(BareProcess, WhatDetachesIsEndedAllTheSame) {
    const HostProject project(someone());
    const Outcome outcome = runBare(
        "for i in 1 2 3; do setsid sh -c 'setsid sleep 60 & sleep 60' >/dev/null 2>&1 & done; sleep 0.1; echo done",
        project);
    EXPECT_EQ(outcome.verdict, Verdict::kOk) << describe(outcome);
    EXPECT_GE(outcome.leftBehind, 3U);  // and TearDown counts
    const auto sandbox = bare(limitsOf({{LimitName::kWallTime, 200}}));
    EXPECT_EQ(sandbox->run(shell("trap '' TERM; setsid sleep 60 & sleep 60", project.path())).verdict,
              Verdict::kTimeout);
}

TEST_F(BareProcess, LimitsThatCannotBeHeldAreRefusedWhenInsistedOn) {
    EXPECT_THROW(bare(limitsOf({{LimitName::kDisk, 1U << 20}})), SetupError);
    Limits wish;
    wish[LimitName::kDisk] = Limit{1U << 20, false};
    const Outcome outcome = bare(wish)->run(shell("true"));
    EXPECT_EQ(outcome.limits.front().enforcedBy, Enforcer::kNone);
    if (!isRoot()) {
        EXPECT_THROW(bare(limitsOf({{LimitName::kTasks, 20}})), SetupError);
    }
}

TEST_F(BareProcess, AMemoryLimitIsHeldOrWatched) {
    const HostProject project(someone());
    Command command = guest({"use-shared", "256"});
    command.arguments.front() = GRADUS_GUEST;
    command.directory = project.path();
    const Outcome outcome =
        bare(limitsOf({{LimitName::kMemory, 48U << 20}, {LimitName::kWallTime, 30'000}}))->run(command);
    EXPECT_EQ(outcome.verdict, Verdict::kOom) << describe(outcome);
}

TEST_F(BareProcess, TheProbeNeverClaimsTheFloor) {
    GRADUS_CASES("E6");
    const ProbeResult result = process_.probe();
    EXPECT_EQ(result.proofs.size(), kGuaranteeNames.size());
    for (const Proof& proof : result.proofs) {
        EXPECT_FALSE(proof.evidence.empty()) << guaranteeName(proof.guarantee);
        EXPECT_TRUE(proof.holds || !proof.cure.empty()) << guaranteeName(proof.guarantee) << ": " << proof.evidence;
    }
    EXPECT_TRUE(result.proves(Guarantee::kNoNetwork)) << result.find(Guarantee::kNoNetwork)->evidence;
    for (const Guarantee guarantee :
         {Guarantee::kReadOnlyHost, Guarantee::kPrivateProcesses, Guarantee::kDiskLimit, Guarantee::kSeparateKernel})
        EXPECT_FALSE(result.proves(guarantee)) << guaranteeName(guarantee);
    // The bounding set of an ordinary user cannot be emptied, so its proof fails there.
    EXPECT_EQ(result.proves(Guarantee::kKernelFilter), isRoot()) << result.find(Guarantee::kKernelFilter)->evidence;
}

// Where namespaces are forbidden there is no sandbox for what demands the floor, and a copy is never given up silently.
TEST_F(BareProcess, IsChosenOnlyWhereTheFloorAndTheCopyAreGivenUp) {
    GRADUS_CASES("E6");
    const auto probe = [](IsolationBackend& backend) { return backend.probe(); };
    const std::vector<IsolationBackend*> all = {&process_};
    const std::vector<Guarantee> floor(kFloor.begin(), kFloor.end());
    EXPECT_THROW(chooseBackend(all, {.guarantees = floor, .ownView = false}, probe), Error);
    EXPECT_THROW(chooseBackend(all, {.guarantees = {Guarantee::kReadOnlyHost}, .ownView = false}, probe), Error);
    EXPECT_THROW(chooseBackend(all, {.guarantees = {}, .ownView = true}, probe), Error);
    EXPECT_EQ(&chooseBackend(all, {.guarantees = {Guarantee::kNoNetwork}, .ownView = false}, probe), &process_);
    Registry registry;
    addBuiltinBackends(registry);
    EXPECT_EQ(registry.backends().front().name, "namespaces") << "where both will do, the boundary is taken";
}

}  // namespace
}  // namespace gradus
