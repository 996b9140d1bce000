// Limits, verdicts and figures: what strikes, what is told, and that one is never taken for another.

#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/plugins/patience.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

constexpr std::uint64_t kMebibyte = 1U << 20;

class Limited : public SandboxTest {
  protected:
    // Without control groups memory is watched and processes carry limits of their own.
    static bool hasCgroups() { return groupEnforcer() != Enforcer::kNone; }
};

// A program that sleeps uses no CPU and is stopped all the same.
TEST_F(Limited, WallTimeEndsASleepingCommand) {
    GRADUS_CASES("NS2", "R1", "RE8");
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = runShell("sleep 1000", limitsOf({{LimitName::kWallTime, 200}}));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, Milliseconds(patiently(5000)));
    EXPECT_EQ(outcome.verdict, Verdict::kTimeout);
    EXPECT_FALSE(outcome.exitCode);
    EXPECT_EQ(outcome.signal, SIGKILL);
    EXPECT_GE(outcome.wallMillis, 200U);
    EXPECT_TRUE(reportOf(outcome, LimitName::kWallTime).tripped);
    EXPECT_EQ(reportOf(outcome, LimitName::kWallTime).enforcedBy, Enforcer::kTimer);
}

TEST_F(Limited, ACommandThatIgnoresSignalsAndStopsItselfIsEnded) {
    GRADUS_CASES("PR2");
    const HostProject project(someone());
    Command command = guest({"stubborn"});
    command.grace = Milliseconds(100);
    const Outcome outcome = open(project, limitsOf({{LimitName::kWallTime, 200}}))->run(command);
    EXPECT_EQ(outcome.verdict, Verdict::kTimeout) << describe(outcome);
    EXPECT_GE(outcome.wallMillis, 300U) << "the grace period was not given";
}

TEST_F(Limited, ACommandMaySayGoodbyeDuringTheGracePeriod) {
    const HostProject project(someone());
    Command command = guest({"obedient"});
    command.grace = Milliseconds(patiently(5000));
    const Outcome outcome =
        open(project, limitsOf({{LimitName::kWallTime, isEmulated() ? 3000U : 200U}}))->run(command);
    EXPECT_EQ(outcome.verdict, Verdict::kTimeout) << "what ended it comes before how it ended";
    EXPECT_EQ(outcome.out.text(), "ready\ngoodbye\n");
    EXPECT_LT(outcome.wallMillis, patiently(4000));
}

// All processes together, and whether or not anybody waits for them.
TEST_F(Limited, CpuTimeCountsTheWholeTree) {
    GRADUS_CASES("R2");
    const Outcome outcome = runGuest({"spin", "3", "5000"}, limitsOf({{LimitName::kCpuTime, 300}}));
    EXPECT_EQ(outcome.verdict, Verdict::kLimit) << describe(outcome);
    EXPECT_TRUE(reportOf(outcome, LimitName::kCpuTime).tripped);
    EXPECT_GE(outcome.cpuMillis, 250U);
    EXPECT_LT(outcome.cpuMillis, patiently(1500));
}

TEST_F(Limited, CpuTimeCountsChildrenThatNobodyWaitsFor) {
    GRADUS_CASES("R2");
    if (!hasCgroups()) GTEST_SKIP() << "without control groups such children go uncounted: a known gap";
    const Outcome outcome = runGuest({"spin-unwaited", "6000"}, limitsOf({{LimitName::kCpuTime, 300}}));
    EXPECT_EQ(outcome.verdict, Verdict::kLimit) << describe(outcome);
}

TEST_F(Limited, TheCpuShareSlowsButDoesNotEnd) {
    GRADUS_CASES("RE4");
    if (!hasCgroups()) {
        EXPECT_THROW(runGuest({"spin", "1", "10"}, limitsOf({{LimitName::kCpuShare, 20}})), SetupError)
            << "asked for, and neither enforced nor refused";
        return;
    }
    const Outcome outcome = runGuest({"spin", "8", "1000"}, limitsOf({{LimitName::kCpuShare, 20}}));
    EXPECT_EQ(outcome.verdict, Verdict::kOk) << describe(outcome);
    EXPECT_LT(outcome.cpuMillis * 100, outcome.wallMillis * 45) << "a fifth of a core was asked for";
}

TEST_F(Limited, RealTimePrioritiesAreRefused) {
    GRADUS_CASES("RE4");
    EXPECT_EQ(runGuest({"real-time"}).out.text(), "Operation not permitted\n");
}

TEST_F(Limited, TheTaskLimitRefusesAFork) {
    GRADUS_CASES("R5", "RE1");
    const Outcome outcome = runGuest({"fork", "100"}, limitsOf({{LimitName::kTasks, 20}}));
    EXPECT_EQ(outcome.out.text(), "19 Resource temporarily unavailable\n") << describe(outcome);
    if (!hasCgroups()) return;  // a refusal by a process limit is counted nowhere
    EXPECT_EQ(outcome.verdict, Verdict::kLimit);
    EXPECT_TRUE(reportOf(outcome, LimitName::kTasks).tripped);
    EXPECT_EQ(reportOf(outcome, LimitName::kTasks).peak, 20U);
    EXPECT_FALSE(reportOf(outcome, LimitName::kWallTime).tripped);
}

// Everything a bomb made is gone when the run is over; TearDown counts.
TEST_F(Limited, AForkBombEndsWithItsRun) {
    GRADUS_CASES("R5", "RE1");
    const Outcome outcome = runGuest({"bomb", "10"}, limitsOf({{LimitName::kTasks, 64}, {LimitName::kWallTime, 5000}}));
    EXPECT_NE(outcome.verdict, Verdict::kOk) << describe(outcome);
    EXPECT_NE(outcome.verdict, Verdict::kTimeout);
}

TEST_F(Limited, OpenFilesAreBounded) {
    GRADUS_CASES("R6");
    EXPECT_EQ(runGuest({"open", "1000"}, limitsOf({{LimitName::kOpenFiles, 32}})).out.text(),
              "29 Too many open files\n");
}

TEST_F(Limited, AFileBeyondTheSizeLimitIsRefused) {
    GRADUS_CASES("R4", "FS13");
    const Limits limits = limitsOf({{LimitName::kFileSize, kMebibyte}});
    const Outcome killed = runGuest({"big", "4000000"}, limits);
    EXPECT_EQ(killed.verdict, Verdict::kLimit) << describe(killed);
    EXPECT_EQ(killed.signal, SIGXFSZ);
    EXPECT_TRUE(reportOf(killed, LimitName::kFileSize).tripped);
    const Outcome refused = runGuest({"big", "4000000", "ignore"}, limits);
    EXPECT_EQ(refused.out.text(), "File too large\n") << describe(refused);
    const Outcome sparse = runShell("truncate -s 8E big 2>/dev/null || echo refused", limits);
    EXPECT_EQ(sparse.out.text(), "refused\n") << describe(sparse);
}

TEST_F(Limited, ADiskLimitFillsTheScratchSpaceAndNothingElse) {
    GRADUS_CASES("R4", "RE5");
    struct statvfs before {};
    ASSERT_EQ(::statvfs("/var/tmp", &before), 0);
    const Outcome outcome = runGuest({"big", "40000000"}, limitsOf({{LimitName::kDisk, 8 * kMebibyte}}));
    struct statvfs after {};
    ASSERT_EQ(::statvfs("/var/tmp", &after), 0);
    EXPECT_EQ(outcome.out.text(), "No space left on device\n") << describe(outcome);
    EXPECT_EQ(outcome.verdict, Verdict::kLimit);
    const LimitReport& disk = reportOf(outcome, LimitName::kDisk);
    EXPECT_TRUE(disk.tripped);
    EXPECT_EQ(disk.enforcedBy, Enforcer::kTmpfs);
    EXPECT_EQ(disk.peak, 8 * kMebibyte);
}

TEST_F(Limited, ADiskLimitAlsoBoundsTheNumberOfFiles) {
    GRADUS_CASES("FS20");
    const Outcome outcome = runGuest({"files", "100000"}, limitsOf({{LimitName::kDisk, kMebibyte}}));
    EXPECT_EQ(outcome.verdict, Verdict::kLimit) << describe(outcome);
    EXPECT_TRUE(reportOf(outcome, LimitName::kDisk).tripped);
}

TEST_F(Limited, MemoryBeyondTheLimitIsOutOfMemory) {
    GRADUS_CASES("R7", "RE2");
    const Outcome outcome = runGuest({"use", "128"}, limitsOf({{LimitName::kMemory, 48 * kMebibyte}}));
    if (!hasCgroups()) {
        // Each process is refused the memory; the refusal is the program's to handle.
        EXPECT_EQ(outcome.out.text(), "mmap: Cannot allocate memory\n") << describe(outcome);
        return;
    }
    EXPECT_EQ(outcome.verdict, Verdict::kOom) << describe(outcome);
    EXPECT_TRUE(reportOf(outcome, LimitName::kMemory).tripped);
    EXPECT_EQ(reportOf(outcome, LimitName::kMemory).enforcedBy, groupEnforcer());
    EXPECT_GE(*outcome.peakMemoryBytes, 40 * kMebibyte);
}

// Many processes, each within what one may have, together beyond it. Also shared memory, which no rlimit counts.
TEST_F(Limited, MemoryOfAllProcessesTogetherIsBounded) {
    GRADUS_CASES("R7");
    const Limits limits = limitsOf({{LimitName::kMemory, 64 * kMebibyte}});
    const Outcome many = runShell("for i in 1 2 3 4; do " + guestProgram() + " use-shared 40 & done; wait", limits);
    EXPECT_EQ(many.verdict, Verdict::kOom) << describe(many);
    EXPECT_LT(many.wallMillis, patiently(2000)) << "the rest of the tree was left to run on";
}

// A killed child and a parent that goes on and exits 0.
TEST_F(Limited, AnOutOfMemoryKillOfAChildIsSeenThoughTheCommandSaysItIsFine) {
    GRADUS_CASES("R7", "PR10");
    if (!hasCgroups()) GTEST_SKIP() << "without a memory group the child is refused, not killed";
    const Outcome outcome = runGuest({"use-in-child", "128"}, limitsOf({{LimitName::kMemory, 48 * kMebibyte}}));
    EXPECT_EQ(outcome.verdict, Verdict::kOom) << describe(outcome);
    EXPECT_LT(outcome.wallMillis, patiently(2500));
}

// Five ends that all look like 137 to a shell.
TEST_F(Limited, EveryEndHasItsOwnWord) {
    GRADUS_CASES("PR10");
    const Limits limits = limitsOf({{LimitName::kMemory, 64 * kMebibyte}, {LimitName::kTasks, 50}});
    EXPECT_EQ(runGuest({"exit", "137"}, limits).verdict, Verdict::kFailed);
    EXPECT_EQ(runGuest({"exit", "137"}, limits).exitCode, 137);
    const Outcome killed = runGuest({"raise", "9"}, limits);
    EXPECT_EQ(killed.verdict, Verdict::kKilled);
    EXPECT_EQ(killed.signal, SIGKILL);
    EXPECT_FALSE(killed.exitCode);
    EXPECT_EQ(runGuest({"raise", "11"}, limits).signal, SIGSEGV);
    EXPECT_EQ(runGuest({"kill-child"}, limits).verdict, Verdict::kOk);
    EXPECT_FALSE(reportOf(killed, LimitName::kMemory).tripped);
}

// The scratch space is memory, and is counted.
TEST_F(Limited, WritingToTheScratchSpaceWithoutADiskLimitCountsAsMemory) {
    GRADUS_CASES("RE2");
    if (!hasCgroups()) GTEST_SKIP() << "without control groups only a disk limit bounds the scratch space";
    const Outcome outcome = runGuest({"big", "120000000"}, limitsOf({{LimitName::kMemory, 48 * kMebibyte}}));
    EXPECT_EQ(outcome.verdict, Verdict::kOom) << describe(outcome);
}

// With a disk limit there is room for both.
TEST_F(Limited, TheMemoryLimitLeavesRoomForTheDiskLimit) {
    GRADUS_CASES("RE2");
    Limits limits = limitsOf({{LimitName::kMemory, 32 * kMebibyte}, {LimitName::kDisk, 80 * kMebibyte}});
    limits[LimitName::kMemory]->required = false;
    const Outcome outcome = runGuest({"big", "60000000"}, limits);
    EXPECT_EQ(outcome.verdict, Verdict::kOk) << describe(outcome);
    EXPECT_FALSE(reportOf(outcome, LimitName::kMemory).tripped);
    EXPECT_EQ(reportOf(outcome, LimitName::kMemory).enforcedBy, Enforcer::kWatch) << "no group holds memory alone";
    EXPECT_LE(reportOf(outcome, LimitName::kMemory).peak, 32 * kMebibyte) << "what was written is no memory of it";
}

// The room for the disk is none for memory.
TEST_F(Limited, ADiskLimitDoesNotRaiseTheMemoryLimit) {
    GRADUS_CASES("RE2");
    Limits limits = limitsOf({{LimitName::kMemory, 32 * kMebibyte}, {LimitName::kDisk, 1024 * kMebibyte}});
    limits[LimitName::kMemory]->required = false;
    const Outcome outcome = runGuest({"use", "300"}, limits);
    EXPECT_NE(outcome.verdict, Verdict::kOk) << describe(outcome);
}

// Whoever insists on the memory limit has it exactly, and what is written counts against it.
TEST_F(Limited, AMemoryLimitThatIsInsistedOnCountsScratchFilesToo) {
    if (!hasCgroups()) GTEST_SKIP() << "only a control group holds it";
    Limits limits = limitsOf({{LimitName::kMemory, 32 * kMebibyte}, {LimitName::kDisk, 200 * kMebibyte}});
    limits[LimitName::kMemory]->required = true;
    const Outcome outcome = runGuest({"big", "120000000"}, limits);
    EXPECT_EQ(outcome.verdict, Verdict::kOom) << describe(outcome);
    EXPECT_NE(reportOf(outcome, LimitName::kMemory).enforcedBy, Enforcer::kWatch);
}

TEST_F(Limited, CoreDumpsAreOff) {
    GRADUS_CASES("R8", "PR11");
    const Outcome outcome = runGuest({"limits"});
    EXPECT_NE(outcome.out.text().find("core 1\n"), std::string::npos) << describe(outcome);
    EXPECT_NE(outcome.out.text().find("rtprio 0\n"), std::string::npos) << describe(outcome);
    const Outcome crashed = runShell(guestProgram() + " raise 11; ls -A | grep -c core");
    EXPECT_EQ(crashed.out.text(), "0\n") << describe(crashed);
}

TEST_F(Limited, WhatCannotBeEnforcedIsReportedOrRefused) {
    GRADUS_CASES("R13");
    const HostProject project(someone());
    SystemClock clock;
    // A machine without control groups: the root is an empty directory.
    NamespacesBackend bare(NamespacesConfig{GRADUS_JAIL, project.path(), jailPatience()}, clock);
    Limits limits = limitsOf({{LimitName::kWallTime, 10'000}});
    limits[LimitName::kCpuShare] = Limit{50, false};
    limits[LimitName::kTasks] = Limit{50, false};
    const Outcome outcome = bare.open(workspaceOf(project), limits, Network::kNone, someone())->run(shell("true"));
    EXPECT_EQ(outcome.verdict, Verdict::kOk);
    EXPECT_EQ(reportOf(outcome, LimitName::kCpuShare).enforcedBy, Enforcer::kNone);
    EXPECT_EQ(reportOf(outcome, LimitName::kTasks).enforcedBy, Enforcer::kRlimit);
    limits[LimitName::kCpuShare] = Limit{50, true};
    EXPECT_THROW(bare.open(workspaceOf(project), limits, Network::kNone, someone()), SetupError);
}

// The same verdicts without control groups, by looking from time to time.
TEST_F(Limited, WithoutControlGroupsAWatcherEndsAnExcess) {
    GRADUS_CASES("R13", "R2", "R7");
    const HostProject project(someone());
    SystemClock clock;
    NamespacesBackend bare(NamespacesConfig{GRADUS_JAIL, project.path(), jailPatience()}, clock);
    const std::uint64_t cpuTime = isEmulated() ? 5000 : 1000;
    const Limits limits = limitsOf(
        {{LimitName::kMemory, 64 * kMebibyte}, {LimitName::kCpuTime, cpuTime}, {LimitName::kWallTime, 20'000}});
    // Bound by name whichever backend the suite runs with: where the build lies may be hidden inside.
    Workspace workspace;
    workspace.binds.push_back({GRADUS_GUEST, "/run/guest", false});
    const auto sandbox = bare.open(workspace, limits, Network::kNone, someone());
    const Outcome memory = sandbox->run(shell("/run/guest use-shared 100"));
    EXPECT_EQ(memory.verdict, Verdict::kOom) << describe(memory);
    EXPECT_EQ(reportOf(memory, LimitName::kMemory).enforcedBy, Enforcer::kWatch);
    const Outcome cpu = sandbox->run(shell("exec /run/guest spin 2 8000"));
    EXPECT_EQ(cpu.verdict, Verdict::kLimit) << describe(cpu);
    EXPECT_EQ(reportOf(cpu, LimitName::kCpuTime).enforcedBy, Enforcer::kWatch);
}

TEST_F(Limited, ADiskLimitOnLayersWithoutAQuotaIsWatched) {
    GRADUS_CASES("R13");
    const HostProject project(someone());
    const HostProject layers(someone());
    layers.write("upper/x", "");
    layers.write("work/x", "");
    Workspace workspace = workspaceOf(project);
    workspace.overlays[0].upper = layers.path() / "upper";
    workspace.overlays[0].work = layers.path() / "work";
    const Limits limits = limitsOf({{LimitName::kDisk, kMebibyte}});
    {
        const auto watched = backend().open(workspace, limits, Network::kNone, someone());
        Command fill = shell("head -c 9000000 /dev/zero > big; sleep 20");
        fill.directory = project.path();
        const Outcome outcome = watched->run(fill);
        EXPECT_EQ(outcome.verdict, Verdict::kLimit) << describe(outcome);
        const LimitReport& disk = reportOf(outcome, LimitName::kDisk);
        EXPECT_EQ(disk.enforcedBy, Enforcer::kWatch);
        EXPECT_TRUE(disk.tripped);
        EXPECT_GT(disk.peak.value_or(0), kMebibyte);
    }
    // What the kernel keeps in the old one lets nobody in.
    layers.write("again/x", "");
    workspace.overlays[0].work = layers.path() / "again";
    workspace.boundedUppers = true;
    const auto sandbox = backend().open(workspace, limits, Network::kNone, someone());
    EXPECT_EQ(reportOf(sandbox->run(shell("true")), LimitName::kDisk).enforcedBy, Enforcer::kBacking);
}

// Sizes are numbers that mean something.
TEST_F(Limited, ALimitOfZeroOrBeyondAllMeasureIsRefused) {
    GRADUS_CASES("NS13");
    EXPECT_THROW(runShell("true", limitsOf({{LimitName::kDisk, 0}})), SetupError);
    EXPECT_THROW(runShell("true", limitsOf({{LimitName::kMemory, ~std::uint64_t{0}}})), SetupError);
}

TEST_F(Limited, ReportsTimesAndPeaks) {
    GRADUS_CASES("R1");
    const Outcome outcome = runGuest(
        {"spin", "1", "200"},
        limitsOf({{LimitName::kMemory, 64 * kMebibyte}, {LimitName::kTasks, 16}, {LimitName::kCpuTime, 10'000}}));
    EXPECT_EQ(outcome.verdict, Verdict::kOk);
    EXPECT_GE(outcome.wallMillis, 200U);
    EXPECT_GE(outcome.cpuMillis, 20U);  // the machine may be busy with others
    // Pid 1 is counted from its birth on.
    EXPECT_LE(outcome.cpuMillis, outcome.wallMillis + (isEmulated() ? 1000 : 50));
    EXPECT_GT(outcome.peakMemoryBytes.value_or(0), 0U);
    EXPECT_LT(*outcome.peakMemoryBytes, 64 * kMebibyte);
    for (const LimitReport& report : outcome.limits) EXPECT_FALSE(report.tripped) << limitName(report.name);
}

// A peak belongs to its run, not to the sandbox.
TEST_F(Limited, ALaterRunDoesNotInheritAnEarlierOnesFate) {
    GRADUS_CASES("R7");
    if (!hasCgroups()) GTEST_SKIP() << "counters exist only with control groups";
    const HostProject project(someone());
    const auto sandbox = open(project, limitsOf({{LimitName::kMemory, 48 * kMebibyte}, {LimitName::kTasks, 20}}));
    EXPECT_EQ(sandbox->run(guest({"use", "128"})).verdict, Verdict::kOom);
    EXPECT_EQ(sandbox->run(guest({"fork", "100"})).verdict, Verdict::kLimit);
    const Outcome quiet = sandbox->run(shell("true"));
    EXPECT_EQ(quiet.verdict, Verdict::kOk);
    EXPECT_LT(*quiet.peakMemoryBytes, 40 * kMebibyte);
    EXPECT_FALSE(reportOf(quiet, LimitName::kTasks).tripped);
}

}  // namespace
}  // namespace gradus
