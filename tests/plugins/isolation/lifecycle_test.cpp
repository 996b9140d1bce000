// Ends: of the engine, of the jail, of many at once. Nothing may stay.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "plugins/host/child_process.h"
#include "plugins/isolation/jail/cgroup.h"
#include "tests/plugins/patience.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class Lifecycle : public SandboxTest {
  protected:
    static bool hasCgroups() { return groupEnforcer() != Enforcer::kNone; }
    double abuseAtOnce();
    /// The event that a process has ended, whoever its parent is.
    static bool endsWithin(pid_t pid, int millis) {
        const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
        if (!process) return true;
        pollfd event{process.get(), POLLIN, 0};
        return ::poll(&event, 1, static_cast<int>(patiently(static_cast<std::uint64_t>(millis)))) > 0;
    }

    /// Seconds that processes take to start and end, one after another: so many, and further ones while `goOn` says.
    template <typename GoOn>
    static void spawn(std::size_t count, GoOn goOn, std::vector<double>& times) {
        for (std::size_t i = 0; i < count || (goOn() && i < 20'000); ++i) {
            const auto begin = std::chrono::steady_clock::now();
            ChildProcess child(ChildPlan{"/bin/true", {"true"}, {}, {}});
            child.wait(Milliseconds(10'000));
            times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        }
    }
    static double slowest(std::vector<double> times) {
        std::sort(times.begin(), times.end());
        return times[times.size() * 99 / 100];
    }

    /// Of its first thread.
    static pid_t firstChildOf(pid_t pid) {
        const std::string name = std::to_string(pid);
        std::ifstream children("/proc/" + name + "/task/" + name + "/children");
        pid_t child = 0;
        children >> child;
        return child;
    }
};

TEST_F(Lifecycle, ClosingTwiceIsHarmlessAndRunningAfterwardsIsAFault) {
    const HostProject project(someone());
    const auto sandbox = open(project);
    sandbox->close();
    sandbox->close();
    EXPECT_THROW(sandbox->run(shell("true")), Error);
    EXPECT_THROW(sandbox->upper(0), Error);
}

// A sandbox that cannot be completed leaves nothing; TearDown counts.
TEST_F(Lifecycle, AFailedSetUpLeavesNothing) {
    GRADUS_CASES("L1");
    const HostProject project(someone());
    for (int i = 0; i < 5; ++i) {
        Workspace workspace = workspaceOf(project);
        workspace.directories.push_back({"/usr/not/there", 0755});
        EXPECT_THROW(backend().open(workspace, limitsOf({{LimitName::kWallTime, 1000}}), Network::kNone, someone()),
                     SetupError);
    }
}

// The engine is killed; the jail notices the end of the stream and takes everything with it.
TEST_F(Lifecycle, DiesWithTheEngine) {
    GRADUS_CASES("NS7");
    const HostProject project(someone());
    int report[2];
    ASSERT_EQ(::pipe(report), 0);
    const pid_t engine = ::fork();
    if (engine == 0) {
        ::close(report[0]);
        const auto sandbox = open(project, hasCgroups() ? limitsOf({{LimitName::kTasks, 50}}) : Limits{});
        Command command = guest({"stubborn"});
        command.live = [&](Stream, std::string_view) { static_cast<void>(!::write(report[1], "!", 1)); };
        sandbox->run(command);
        ::_exit(0);
    }
    ::close(report[1]);
    char ready = 0;
    ASSERT_EQ(::read(report[0], &ready, 1), 1);
    ::close(report[0]);
    const pid_t jail = firstChildOf(engine);
    const pid_t init = firstChildOf(jail);
    ASSERT_GT(init, 0);
    ::kill(engine, SIGKILL);
    ::waitpid(engine, nullptr, 0);
    EXPECT_TRUE(endsWithin(init, 5000));
    EXPECT_TRUE(endsWithin(jail, 5000));
}

// The jail itself is killed.
TEST_F(Lifecycle, DiesWithTheJailAndSaysSo) {
    GRADUS_CASES("NS7");
    const HostProject project(someone());
    const auto sandbox = open(project);
    Command command = guest({"stubborn"});
    pid_t jail = 0;
    pid_t init = 0;
    command.live = [&](Stream, std::string_view) {
        jail = firstChildOf(::getpid());
        init = firstChildOf(jail);
        ::kill(jail, SIGKILL);
    };
    EXPECT_THROW(sandbox->run(command), Error);
    ASSERT_GT(init, 0);
    EXPECT_TRUE(endsWithin(init, 5000)) << "pid 1 lives on without its jail";
    // Its group was left behind; the next sandbox sweeps it away, and TearDown counts.
    open(project, hasCgroups() ? limitsOf({{LimitName::kTasks, 50}}) : Limits{});
}

TEST_F(Lifecycle, AGroupLeftByADeadJailIsRemoved) {
    GRADUS_CASES("R12");
    if (!hasCgroups()) GTEST_SKIP() << "an ordinary user without a part of the hierarchy has no groups";
    const std::string place = groupsPlace("pids");
    const std::string dead = place + "/" + cgroupName(4'000'000, 1, 0);
    const std::string living = place + "/" + cgroupName(::getpid(), *startTime(::getpid()), 7);
    const std::string foreign = place + "/gradus-notes";
    for (const std::string& directory : {dead, living, foreign}) ASSERT_TRUE(fs::create_directory(directory));
    {
        const HostProject project(someone());
        open(project, limitsOf({{LimitName::kTasks, 50}}));
    }
    EXPECT_FALSE(fs::exists(dead));
    EXPECT_TRUE(fs::exists(living)) << "its owner lives";
    EXPECT_TRUE(fs::exists(foreign)) << "not one of ours";
    fs::remove(living);
    fs::remove(foreign);
}

// 32 at once on a handful of threads, each with its own limit, project and output.
TEST_F(Lifecycle, ManySandboxesAtOnceDoNotTouchEachOther) {
    GRADUS_CASES("R15");
    std::vector<std::future<std::string>> results;
    const auto work = [this](int number) {
        const HostProject project(someone());
        const auto sandbox = open(project, limitsOf({{LimitName::kTasks, 20}, {LimitName::kWallTime, 60'000}}));
        const std::string mark = std::to_string(number);
        const Outcome written =
            sandbox->run(shell("echo " + mark + " > mark; cat mark; ls /tmp | wc -l; echo x > /tmp/x", project.path()));
        const Outcome refused = sandbox->run(guest({"fork", "100"}));
        const bool clean = !fs::exists(project.path() / "mark");
        return written.out.text() + refused.out.text() + (clean ? "clean" : "dirty");
    };
    for (int i = 0; i < 32; ++i) results.push_back(std::async(std::launch::async, work, i));
    for (int i = 0; i < 32; ++i)
        EXPECT_EQ(results[static_cast<std::size_t>(i)].get(),
                  std::to_string(i) + "\n0\n19 Resource temporarily unavailable\nclean");
}

// How much slower the host starts a program meanwhile.
double Lifecycle::abuseAtOnce() {
    constexpr std::uint64_t kMebibyte = 1U << 20;
    struct Abuse {
        Command command;
        Limits limits;
        Verdict end;
    };
    const Verdict memoryEnd = hasCgroups() ? Verdict::kOom : Verdict::kFailed;
    const Verdict taskEnd = hasCgroups() ? Verdict::kLimit : Verdict::kFailed;
    Limits spinLimits = limitsOf({{LimitName::kWallTime, hasCgroups() ? 1500U : 60'000U}});
    if (hasCgroups()) spinLimits[LimitName::kCpuShare] = Limit{25, true};
    if (!hasCgroups()) spinLimits[LimitName::kCpuTime] = Limit{300, true};
    std::vector<Abuse> abuses = {
        {guest({"bomb", "10"}), limitsOf({{LimitName::kTasks, 64}}), taskEnd},
        {guest({"use", "256"}), limitsOf({{LimitName::kMemory, 48 * kMebibyte}}), memoryEnd},
        {guest({"use-shared", "256"}), limitsOf({{LimitName::kMemory, 48 * kMebibyte}}), Verdict::kOom},
        {guest({"big", "100000000"}), limitsOf({{LimitName::kDisk, 8 * kMebibyte}}), Verdict::kLimit},
        {guest({"output", "1073741824"}), limitsOf({{LimitName::kOutput, 64 * kMebibyte}}), Verdict::kLimit},
        {guest({"files", "10000"}), limitsOf({{LimitName::kDisk, kMebibyte}}), Verdict::kLimit},
        {guest({"spin", "8", "60000"}), spinLimits, hasCgroups() ? Verdict::kTimeout : Verdict::kLimit},
        {guest({"detach", "20000"}), {}, Verdict::kOk},
        {guest({"stubborn"}), limitsOf({{LimitName::kWallTime, 500}}), Verdict::kTimeout}};
    const auto never = [] { return false; };
    std::vector<double> idle;
    spawn(300, never, idle);
    std::vector<std::future<Outcome>> results;
    const auto commit = [this](Abuse& abuse) {
        const HostProject project(someone());
        if (!abuse.limits[LimitName::kWallTime]) abuse.limits[LimitName::kWallTime] = Limit{patiently(60'000), true};
        abuse.command.directory = project.path();
        return open(project, abuse.limits)->run(abuse.command);
    };
    for (Abuse& abuse : abuses) results.push_back(std::async(std::launch::async, commit, std::ref(abuse)));
    const auto stillAtIt = [&] {
        return std::any_of(results.begin(), results.end(), [](const std::future<Outcome>& result) {
            return result.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
        });
    };
    std::vector<double> meanwhile;
    spawn(100, stillAtIt, meanwhile);
    for (std::size_t i = 0; i < abuses.size(); ++i) {
        const Outcome outcome = results[i].get();
        EXPECT_EQ(outcome.verdict, abuses[i].end) << abuses[i].command.arguments[1] << ": " << describe(outcome);
    }
    // Before and after: whatever else this machine does is in both figures.
    spawn(300, never, idle);
    // Without a share of the processors they are shared with everybody, a slice at a time: a very quick machine is not
    // held to less than a few of these.
    constexpr double kFewSlices = 0.004;
    const double ratio = slowest(meanwhile) / (hasCgroups() ? slowest(idle) : std::max(slowest(idle), kFewSlices));
    std::printf("p99 of /bin/true: idle %.2f ms, meanwhile %.2f ms over %zu, %.1fx\n", slowest(idle) * 1e3,
                slowest(meanwhile) * 1e3, meanwhile.size(), ratio);
    return ratio;
}

// All at once: each is ended by its own limit, and the host is as it was.
TEST_F(Lifecycle, AbuseInEightSandboxesAtOnceEndsEachByItsOwnLimit) {
    GRADUS_CASES("RE1", "RE2", "RE5", "PR1", "PR2", "PR7");
    double ratio = abuseAtOnce();
    if (isEmulated()) return;
    // What else runs on the machine may be short and harsh; it is not there three times in a row.
    for (int again = 0; again < 2 && ratio > 5; ++again) ratio = std::min(ratio, abuseAtOnce());
    RecordProperty("slowest_spawn_ratio", std::to_string(ratio));
    EXPECT_LE(ratio, 5) << "the host suffers";
}

// A worker thread that opened a sandbox may end before it: nothing is tied to a thread.
TEST_F(Lifecycle, ASandboxOutlivesTheThreadThatOpenedIt) {
    const HostProject project(someone());
    std::unique_ptr<Sandbox> sandbox;
    std::thread([&] { sandbox = open(project); }).join();
    EXPECT_EQ(sandbox->run(shell("echo still here")).out.text(), "still here\n");
}

TEST_F(Lifecycle, ManyCyclesLeakNothing) {
    GRADUS_CASES("R11");
    const HostProject project(someone());
    const int cycles = std::getenv("GRADUS_LONG") != nullptr ? 1000 : 100;
    for (int i = 0; i < cycles; ++i) {
        const auto sandbox = open(project, hasCgroups() ? limitsOf({{LimitName::kMemory, 64U << 20}}) : Limits{});
        ASSERT_EQ(sandbox->run(shell("true")).verdict, Verdict::kOk);
    }
}

// From the other side: a child of ours gets what it was given and nothing else.
TEST(ChildProcess, GetsExactlyTheDescriptorsItWasGiven) {
    GRADUS_CASES("FS4");
    int out[2];
    ASSERT_EQ(::pipe(out), 0);
    const int leak = ::open("/", O_RDONLY);
    ChildProcess child(ChildPlan{GRADUS_GUEST, {"guest", "descriptors"}, {"ONLY=this"}, {{out[1], 1}}});
    ::close(leak);
    ::close(out[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(out[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(got));
    ::close(out[0]);
    EXPECT_EQ(child.wait(Milliseconds(patiently(5000))), 0);
    EXPECT_EQ(text, "0\n1\n2\n");
}

// Started by hand, or spoken to in another tongue, the jail does nothing at all.
TEST(GradusJail, WithoutAnEngineItRefuses) {
    ChildProcess alone(ChildPlan{GRADUS_JAIL, {"gradus-jail"}, {}, {}});
    const auto status = alone.wait(Milliseconds(patiently(5000)));
    ASSERT_TRUE(status);
    EXPECT_EQ(WEXITSTATUS(*status), 2);
}

TEST(GradusJail, NonsenseOnItsSocketEndsIt) {
    for (const std::string& nonsense :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4096, '\0'), std::string("x")}) {
        int pair[2];
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        ChildProcess jail(ChildPlan{GRADUS_JAIL, {"gradus-jail"}, {}, {{pair[1], 3}}});
        ::close(pair[1]);
        EXPECT_EQ(::send(pair[0], nonsense.data(), nonsense.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(nonsense.size()));
        ::shutdown(pair[0], SHUT_WR);
        const auto status = jail.wait(Milliseconds(patiently(5000)));
        ::close(pair[0]);
        ASSERT_TRUE(status);
        EXPECT_EQ(WEXITSTATUS(*status), 1);
    }
}

TEST(ChildProcess, IsKilledAndReapedWithItsOwner) {
    pid_t pid = 0;
    {
        ChildProcess child(ChildPlan{"/bin/sleep", {"sleep", "30"}, {}, {}});
        pid = child.pid();
        EXPECT_FALSE(child.wait(Milliseconds(1)));
    }
    EXPECT_EQ(::kill(pid, 0), -1);
    EXPECT_THROW(ChildProcess(ChildPlan{"/no/such/program", {"x"}, {}, {}}), Error);
}

}  // namespace
}  // namespace gradus
