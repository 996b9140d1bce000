// Control groups of every shape a machine can have, against a hierarchy made of a map.

#include "plugins/isolation/jail/cgroup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/plugins/isolation/fake_cgroups.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

const Limits kAll = limitsOf(
    {{LimitName::kMemory, 1000}, {LimitName::kTasks, 10}, {LimitName::kCpuShare, 150}, {LimitName::kCpuTime, 500}});
constexpr LimitName kHeld[] = {LimitName::kMemory, LimitName::kTasks, LimitName::kCpuShare, LimitName::kCpuTime};

TEST(Cgroups, OldHierarchiesHoldEveryLimit) {
    GRADUS_CASES("R13");
    FakeCgroups files;
    for (const char* controller : {"memory", "pids", "cpu", "cpuacct"}) files.addOld(controller);
    files.addGroup("/cg/memory/outer");
    Cgroups groups(files, "/cg", "4:memory:/outer\n3:pids:/\n2:cpu,cpuacct:/\n0::/\n", "gradus-1-2-3");
    groups.create(kAll, 50);
    for (const LimitName name : kHeld) EXPECT_EQ(groups.enforcer(name), Enforcer::kCgroupV1) << limitName(name);
    EXPECT_EQ(files.at("/cg/memory/outer/gradus-1-2-3/memory.limit_in_bytes"), "1050") << "room for the scratch space";
    EXPECT_EQ(files.at("/cg/memory/outer/gradus-1-2-3/memory.memsw.limit_in_bytes"), "1050") << "swap is no way around";
    EXPECT_EQ(files.at("/cg/pids/gradus-1-2-3/pids.max"), "11") << "pid 1 is ours";
    EXPECT_EQ(files.at("/cg/cpu/gradus-1-2-3/cpu.cfs_quota_us"), "150000");
    EXPECT_EQ(groups.taskFiles().size(), 4U);
    EXPECT_TRUE(groups.unifiedDirectory().empty());
}

TEST(Cgroups, AUnifiedHierarchyHoldsEveryLimitInOneGroup) {
    GRADUS_CASES("R13");
    FakeCgroups files;
    files.addUnified("/cg", "cpu memory pids io");
    Cgroups groups(files, "/cg", "0::/\n", "gradus-1-2-3");
    groups.create(kAll, 0);
    for (const LimitName name : kHeld) EXPECT_EQ(groups.enforcer(name), Enforcer::kCgroupV2) << limitName(name);
    EXPECT_EQ(groups.unifiedDirectory(), "/cg/gradus-1-2-3");
    EXPECT_EQ(files.at("/cg/gradus-1-2-3/memory.max"), "1000");
    EXPECT_EQ(files.at("/cg/gradus-1-2-3/memory.swap.max"), "0");
    EXPECT_EQ(files.at("/cg/gradus-1-2-3/memory.oom.group"), "1");
    EXPECT_EQ(files.at("/cg/gradus-1-2-3/cpu.max"), "150000 100000");
    EXPECT_TRUE(groups.taskFiles().empty());
}

// Our own group has processes and cannot hand controllers on; its nearest ancestor that can is taken.
TEST(Cgroups, TheNearestAncestorThatCanHandControllersOnIsTheParent) {
    GRADUS_CASES("R13");
    FakeCgroups files;
    files.addUnified("/cg", "cpu memory pids");
    for (const char* controller : {"+cpu", "+memory", "+pids"}) files.write("/cg/cgroup.subtree_control", controller);
    files.addGroup("/cg/user.slice");
    for (const char* controller : {"+cpu", "+memory", "+pids"})
        files.write("/cg/user.slice/cgroup.subtree_control", controller);
    files.addGroup("/cg/user.slice/session.scope");
    files.forbid("/cg/user.slice/session.scope/cgroup.subtree_control", EBUSY);
    Cgroups groups(files, "/cg", "0::/user.slice/session.scope\n", "gradus-1-2-3");
    groups.create(kAll, 0);
    EXPECT_EQ(groups.unifiedDirectory(), "/cg/user.slice/gradus-1-2-3");
    EXPECT_EQ(groups.enforcer(LimitName::kMemory), Enforcer::kCgroupV2);
}

// The kernel would hand on pids from the very group that the jail is in, and then let no process be below it.
TEST(Cgroups, AGroupWithProcessesInItIsLeftAsItIs) {
    FakeCgroups files;
    files.addUnified("/cg", "cpu memory pids");
    for (const char* controller : {"+cpu", "+memory", "+pids"}) files.write("/cg/cgroup.subtree_control", controller);
    files.addGroup("/cg/session.scope");
    files.put("/cg/session.scope/cgroup.procs", "1234\n");
    for (const Limits& limits : {limitsOf({{LimitName::kTasks, 10}}), limitsOf({{LimitName::kCpuShare, 50}}), kAll}) {
        Cgroups groups(files, "/cg", "0::/session.scope\n", "gradus-1-2-3");
        groups.create(limits, 0);
        EXPECT_EQ(groups.unifiedDirectory(), "/cg/gradus-1-2-3");
        EXPECT_EQ(files.at("/cg/session.scope/cgroup.subtree_control"), "");
        EXPECT_TRUE(groups.remove());
    }
}

// Somebody else made a group one for threads: no process could be born below it, so it is not taken.
TEST(Cgroups, AGroupForThreadsIsPassedOver) {
    FakeCgroups files;
    files.addUnified("/cg", "cpu memory pids");
    for (const char* controller : {"+cpu", "+memory", "+pids"}) files.write("/cg/cgroup.subtree_control", controller);
    files.addGroup("/cg/threads");
    files.put("/cg/threads/cgroup.type", "domain threaded\n");
    files.put("/cg/threads/cgroup.subtree_control", "cpu pids");
    Cgroups groups(files, "/cg", "0::/threads\n", "gradus-1-2-3");
    groups.create(limitsOf({{LimitName::kTasks, 10}}), 0);
    EXPECT_EQ(groups.unifiedDirectory(), "/cg/gradus-1-2-3");
    EXPECT_FALSE(files.hasDirectory("/cg/threads/gradus-1-2-3"));
}

// An ordinary user in a delegated scope.
TEST(Cgroups, ADelegatedGroupIsUsed) {
    GRADUS_CASES("R13");
    FakeCgroups files;
    files.addUnified("/cg", "cpu memory pids");
    files.addGroup("/cg/user");
    files.put("/cg/user/cgroup.controllers", "cpu memory pids");
    files.forbid("/cg", EACCES);
    files.forbid("/cg/cgroup.subtree_control", EACCES);
    Cgroups groups(files, "/cg", "0::/user\n", "gradus-1-2-3");
    groups.create(kAll, 0);
    EXPECT_EQ(groups.unifiedDirectory(), "/cg/user/gradus-1-2-3");
    EXPECT_EQ(groups.enforcer(LimitName::kTasks), Enforcer::kCgroupV2);
}

// Some distributions hand memory and pids to a user, but not cpu: what can be held is, and the reason names the rest.
TEST(Cgroups, AControllerThatIsMissingTakesNoOtherWithIt) {
    GRADUS_CASES("R13");
    FakeCgroups files;
    files.addUnified("/cg", "cpu memory pids");
    files.addGroup("/cg/user");
    files.put("/cg/user/cgroup.controllers", "memory pids");
    files.forbid("/cg", EACCES);
    files.forbid("/cg/cgroup.subtree_control", EACCES);
    Cgroups groups(files, "/cg", "0::/user\n", "gradus-1-2-3");
    groups.create(kAll, 0);
    EXPECT_EQ(groups.unifiedDirectory(), "/cg/user/gradus-1-2-3");
    for (const LimitName name : {LimitName::kMemory, LimitName::kTasks, LimitName::kCpuTime})
        EXPECT_EQ(groups.enforcer(name), Enforcer::kCgroupV2) << limitName(name);
    EXPECT_EQ(groups.enforcer(LimitName::kCpuShare), Enforcer::kNone);
    EXPECT_NE(groups.reason().find("cpu"), std::string::npos) << groups.reason();
}

// An ordinary user without delegation: nothing is held, and the reason says so.
TEST(Cgroups, WithoutRightsNothingIsHeldAndTheReasonIsKept) {
    GRADUS_CASES("R13");
    FakeCgroups files;
    files.addUnified("/cg", "cpu memory pids");
    for (const char* controller : {"+cpu", "+memory", "+pids"}) files.write("/cg/cgroup.subtree_control", controller);
    files.addGroup("/cg/session");
    files.put("/cg/session/cgroup.controllers", "cpu memory pids");
    for (const char* path : {"/cg", "/cg/cgroup.subtree_control", "/cg/session", "/cg/session/cgroup.subtree_control"})
        files.forbid(path, EACCES);
    Cgroups groups(files, "/cg", "0::/session\n", "gradus-1-2-3");
    groups.create(kAll, 0);
    for (const LimitName name : kHeld) EXPECT_EQ(groups.enforcer(name), Enforcer::kNone);
    EXPECT_NE(groups.reason().find("cannot make"), std::string::npos) << groups.reason();
    EXPECT_TRUE(groups.remove());
}

// Memory on an old hierarchy, the rest on the unified one.
TEST(Cgroups, AHybridMachineUsesBoth) {
    GRADUS_CASES("R13");
    FakeCgroups files;
    files.addOld("memory");
    files.addUnified("/cg/unified", "cpu pids");
    Cgroups groups(files, "/cg", "4:memory:/\n0::/\n", "gradus-1-2-3");
    groups.create(kAll, 0);
    EXPECT_EQ(groups.enforcer(LimitName::kMemory), Enforcer::kCgroupV1);
    EXPECT_EQ(groups.enforcer(LimitName::kTasks), Enforcer::kCgroupV2);
    EXPECT_EQ(groups.enforcer(LimitName::kCpuShare), Enforcer::kCgroupV2);
    EXPECT_EQ(groups.unifiedDirectory(), "/cg/unified/gradus-1-2-3");
    EXPECT_EQ(groups.taskFiles(), std::vector<std::string>{"/cg/memory/gradus-1-2-3/tasks"});
}

// Here the unified hierarchy exists but has no controller of use.
TEST(Cgroups, AMachineWithoutControllersHoldsNothing) {
    GRADUS_CASES("R13");
    FakeCgroups files;
    files.addUnified("/cg/unified", "hugetlb");
    Cgroups groups(files, "/cg", "0::/\n", "gradus-1-2-3");
    groups.create(kAll, 0);
    EXPECT_EQ(groups.enforcer(LimitName::kMemory), Enforcer::kNone);
    EXPECT_NE(groups.reason().find("memory"), std::string::npos);
    FakeCgroups none;
    Cgroups nothing(none, "/cg", "", "gradus-1-2-3");
    nothing.create(kAll, 0);
    EXPECT_EQ(nothing.enforcer(LimitName::kMemory), Enforcer::kNone);
    EXPECT_FALSE(nothing.reason().empty());
}

TEST(Cgroups, AnUnsettableLimitIsNotClaimed) {
    FakeCgroups files;
    files.addOld("memory");
    files.forbid("/cg/memory/gradus-1-2-3/memory.limit_in_bytes", EINVAL);
    Cgroups groups(files, "/cg", "4:memory:/\n", "gradus-1-2-3");
    groups.create(limitsOf({{LimitName::kMemory, 1000}}), 0);
    EXPECT_EQ(groups.enforcer(LimitName::kMemory), Enforcer::kNone);
    EXPECT_TRUE(groups.remove());
    EXPECT_FALSE(files.hasDirectory("/cg/memory/gradus-1-2-3"));
}

TEST(Cgroups, SwapThatCannotBeForbiddenIsNoLimitOnMemory) {
    FakeCgroups files;
    files.addUnified("/cg", "memory");
    files.forbid("/cg/gradus-1-2-3/memory.swap.max", EIO);
    Cgroups groups(files, "/cg", "0::/\n", "gradus-1-2-3");
    groups.create(limitsOf({{LimitName::kMemory, 1000}}), 0);
    EXPECT_EQ(groups.enforcer(LimitName::kMemory), Enforcer::kNone);
    EXPECT_NE(groups.reason().find("memory.swap.max"), std::string::npos) << groups.reason();
}

// Of most kernels these files only ever rise: what an earlier run reached is not the next one's.
TEST(Cgroups, APeakThatDoesNotRiseIsAnEarlierRuns) {
    FakeCgroups files;
    files.addUnified("/cg", "cpu memory pids");
    Cgroups groups(files, "/cg", "0::/\n", "gradus-1-2-3");
    groups.create(kAll, 0);
    const std::string group = "/cg/gradus-1-2-3";
    files.put(group + "/memory.peak", "700\n");
    files.put(group + "/pids.peak", "9\n");
    EXPECT_EQ(groups.counters().memoryPeak, 700U);
    groups.resetPeaks();
    files.put(group + "/memory.current", "300\n");
    EXPECT_FALSE(groups.counters().memoryPeak);
    EXPECT_EQ(groups.counters().memoryNow, 300U);
    EXPECT_FALSE(groups.counters().taskPeak);
    files.put(group + "/memory.peak", "800\n");
    files.put(group + "/pids.peak", "10\n");
    EXPECT_EQ(groups.counters().memoryPeak, 800U);
    EXPECT_EQ(groups.counters().taskPeak, 10U);
}

TEST(Cgroups, ReadsTheCountersOfBothKinds) {
    FakeCgroups files;
    files.addOld("memory");
    files.addUnified("/cg/unified", "cpu pids");
    Cgroups groups(files, "/cg", "4:memory:/\n0::/\n", "gradus-1-2-3");
    groups.create(kAll, 0);
    files.put("/cg/memory/gradus-1-2-3/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    files.put("/cg/memory/gradus-1-2-3/memory.max_usage_in_bytes", "777\n");
    files.put("/cg/unified/gradus-1-2-3/pids.events", "max 5\n");
    const CgroupCounters counters = groups.counters();
    EXPECT_EQ(counters.oomKills, 3U);
    EXPECT_EQ(counters.memoryPeak, 777U);
    EXPECT_EQ(counters.taskRefusals, 5U);
    EXPECT_EQ(counters.cpuNanos, 1'500'000U);
}

TEST(Cgroups, RemovalIsTriedAgainUntilNothingIsLeft) {
    GRADUS_CASES("R11", "R12");
    FakeCgroups files;
    for (const char* controller : {"memory", "pids"}) files.addOld(controller);
    const std::size_t before = files.groups();
    Cgroups groups(files, "/cg", "4:memory:/\n3:pids:/\n", "gradus-1-2-3");
    groups.create(limitsOf({{LimitName::kMemory, 1}, {LimitName::kTasks, 1}}), 0);
    files.busy = 1;
    EXPECT_FALSE(groups.remove());
    EXPECT_TRUE(groups.remove());
    EXPECT_TRUE(groups.remove());
    EXPECT_EQ(files.groups(), before);
}

// Only the proven dead are swept; a reused pid is not the old process.
TEST(Cgroups, AGroupIsAnOrphanOnlyIfItsOwnerIsGone) {
    GRADUS_CASES("R12");
    const std::uint64_t start = *startTime(::getpid());
    EXPECT_FALSE(isOrphan(cgroupName(::getpid(), start, 0)));
    EXPECT_TRUE(isOrphan(cgroupName(::getpid(), start + 1, 0))) << "the same pid, another process";
    EXPECT_TRUE(isOrphan(cgroupName(4'100'000, 5, 0)));
    for (const char* name : {"gradus-1-2", "gradus-x-2-3", "gradus-", "system.slice", "gradus-1-2-3-4"})
        EXPECT_FALSE(isOrphan(name)) << name;
}

// The same on a real unified hierarchy with controllers, which few test machines of the old kind have.
class UnifiedMachine : public SandboxTest {};

// The smallest limit there is, which needs one controller only, must not spoil the group that the engine lives in.
TEST_F(UnifiedMachine, LeavesTheGroupOfTheEngineAsItIs) {
    if (groupEnforcer() != Enforcer::kCgroupV2) GTEST_SKIP() << "no limit is held by a unified hierarchy here";
    const std::string own = readText("/proc/self/cgroup").value_or("");
    const std::string group = "/sys/fs/cgroup" + own.substr(own.find("0::") + 3, own.rfind('\n') - own.find("0::") - 3);
    const auto state = [&] {
        return readText(group + "/cgroup.type").value_or("") + readText(group + "/cgroup.subtree_control").value_or("");
    };
    const std::string before = state();
    for (const LimitName name : {LimitName::kTasks, LimitName::kCpuShare}) {
        const Outcome outcome = runShell("true", limitsOf({{name, 50}}));
        EXPECT_EQ(outcome.verdict, Verdict::kOk) << describe(outcome);
        EXPECT_EQ(reportOf(outcome, name).enforcedBy, Enforcer::kCgroupV2);
    }
    EXPECT_EQ(state(), before);
}

// CPU time is counted in every unified group, also where no controller is attached to that hierarchy: enough to see a
// process born in its group, the group counted, and removed.
TEST_F(UnifiedMachine, CountsCpuTimeInAGroupTheCommandIsBornIn) {
    if (!isRoot()) GTEST_SKIP() << "only root may make groups in the machine's own hierarchy";
    const std::filesystem::path unified =
        std::filesystem::exists("/sys/fs/cgroup/cgroup.controllers") ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified";
    if (!std::filesystem::exists(unified / "cgroup.controllers")) GTEST_SKIP() << "no unified hierarchy is mounted";
    const HostProject project(someone());
    const HostProject root(someone());
    std::filesystem::create_directory_symlink(unified, root.path() / "unified");
    SystemClock clock;
    NamespacesBackend backend(NamespacesConfig{GRADUS_JAIL, root.path(), jailPatience()}, clock);
    // Pid 1's own time counts as well, which is little unless it is emulated.
    const Limits limits = limitsOf({{LimitName::kCpuTime, isEmulated() ? 3000 : 300}, {LimitName::kWallTime, 20'000}});
    const auto sandbox = backend.open(workspaceOf(project), limits, Network::kNone, someone());
    const Outcome outcome = sandbox->run(guest({"spin-unwaited", "6000"}));
    EXPECT_EQ(outcome.verdict, Verdict::kLimit) << describe(outcome);
    EXPECT_EQ(reportOf(outcome, LimitName::kCpuTime).enforcedBy, Enforcer::kCgroupV2);
    EXPECT_EQ(sandbox->run(shell("true")).verdict, Verdict::kOk);
}

TEST_F(UnifiedMachine, HoldsMemoryAndTasksThroughOneGroup) {
    if (!isRoot()) GTEST_SKIP() << "only root may make groups in the machine's own hierarchy";
    std::ifstream file("/sys/fs/cgroup/cgroup.controllers");
    const std::string controllers((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (controllers.find("memory") == std::string::npos)
        GTEST_SKIP() << "this machine's /sys/fs/cgroup is not a unified hierarchy with the memory controller";
    const Limits limits = limitsOf({{LimitName::kMemory, 48U << 20}, {LimitName::kTasks, 20}});
    const Outcome memory = runGuest({"use", "128"}, limits);
    EXPECT_EQ(memory.verdict, Verdict::kOom) << describe(memory);
    EXPECT_EQ(reportOf(memory, LimitName::kMemory).enforcedBy, Enforcer::kCgroupV2);
    EXPECT_EQ(runGuest({"fork", "100"}, limits).verdict, Verdict::kLimit);
}

// An ordinary user whose systemd hands out groups: the whole way, on a machine that has it.
TEST_F(UnifiedMachine, AnOrdinaryUserIsGivenAGroupByItsSystemd) {
    GRADUS_CASES("R13");
    if (isRoot()) GTEST_SKIP() << "root needs nobody's leave";
    SystemClock clock;
    NamespacesBackend backend(NamespacesConfig{.jail = GRADUS_JAIL, .userManager = findUserManager()}, clock);
    const Proof memory = *backend.probe().find(Guarantee::kMemoryLimit);
    if (!memory.holds) GTEST_SKIP() << memory.evidence;
    const HostProject project(someone());
    const Limits limits = limitsOf({{LimitName::kMemory, 48U << 20}, {LimitName::kWallTime, 30'000}});
    const auto sandbox = backend.open(workspaceOf(project), limits, Network::kNone, someone());
    const Outcome outcome = sandbox->run(guest({"use", "128"}));
    EXPECT_EQ(outcome.verdict, Verdict::kOom) << describe(outcome);
    EXPECT_EQ(reportOf(outcome, LimitName::kMemory).enforcedBy, Enforcer::kCgroupV2);
    EXPECT_EQ(outcome.shortfall, "");
}

}  // namespace
}  // namespace gradus
