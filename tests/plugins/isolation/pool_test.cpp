// Jails that go from sandbox to sandbox: nothing of one may be in the next.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "store/file.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class Pooled : public SandboxTest {
  protected:
    void SetUp() override {
        SandboxTest::SetUp();
        pool_ = std::make_unique<NamespacesBackend>(NamespacesConfig{.jail = GRADUS_JAIL, .pooled = 1}, clock_);
    }
    void TearDown() override {
        pool_.reset();
        SandboxTest::TearDown();
    }

    Outcome runPooled(const HostProject& project, const Command& command, const Limits& limits = {}) {
        return pool_->open(workspaceOf(project), limits, Network::kNone, someone())->run(command);
    }
    static std::uint64_t network(const Outcome& outcome) {
        for (const auto& [name, inode] : outcome.namespaces)
            if (name == "net") return inode;
        return 0;
    }

    static std::set<pid_t> pidsOf(pid_t parent) {
        std::set<pid_t> all;
        const fs::path tasks = "/proc/" + std::to_string(parent) + "/task";
        for (const auto& task : fs::directory_iterator(tasks)) {
            std::ifstream children(task.path() / "children");
            for (pid_t child = 0; children >> child;) all.insert(child);
        }
        return all;
    }
    static std::size_t childrenOf(pid_t parent) { return pidsOf(parent).size(); }

    SystemClock clock_;
    std::unique_ptr<NamespacesBackend> pool_;
};

TEST_F(Pooled, ASecondSandboxHasTheSameNetworkAndNothingElseOfTheFirst) {
    const HostProject first(someone());
    const HostProject second(someone());
    const Outcome before = runPooled(
        first, shell("echo x > mark; echo x > /tmp/mark; echo x > /dev/shm/mark; ls -d " + second.path().native(),
                     first.path()));
    const Outcome after =
        runPooled(second, shell("ls /tmp /dev/shm; ls mark; ls " + first.path().native(), second.path()));
    EXPECT_EQ(after.out.text(), "/dev/shm:\n\n/tmp:\nREADME.md\nsrc\n") << describe(after);
    EXPECT_EQ(network(before), network(after)) << "the jail was not used again";
}

TEST_F(Pooled, ANetworkThatWasUsedIsNotPassedOn) {
    const HostProject project(someone());
    const Outcome first = runPooled(project, guest({"loopback"}));
    EXPECT_EQ(first.out.text(), "ok\n");
    const Outcome second =
        runPooled(project, shell("grep -c ' lo: *0 ' /proc/net/dev; awk '/lo:/ {print $2}' /proc/net/dev"));
    EXPECT_NE(network(first), network(second));
    EXPECT_NE(second.out.text().find("\n0\n"), std::string::npos) << describe(second);
}

TEST_F(Pooled, PlacesMadeForOneSandboxAreGoneInTheNext) {
    if (!isRoot()) GTEST_SKIP() << "in a user namespace the same; the place is easier to see as root";
    const HostProject project(someone());
    Workspace workspace = workspaceOf(project);
    workspace.directories.push_back({"/gradus-place/of/mine", 0755});
    EXPECT_EQ(pool_->open(workspace, {}, Network::kNone, someone())->run(shell("ls -d /gradus-place/of/mine")).exitCode,
              0);
    EXPECT_NE(runPooled(project, shell("ls -d /gradus-place")).exitCode, 0);
}

TEST_F(Pooled, LimitsAreThoseOfTheSandboxNotOfTheLastOne) {
    const HostProject project(someone());
    const auto forks = [&](std::uint64_t most) {
        return runPooled(project, guest({"fork", "30"}), limitsOf({{LimitName::kTasks, most}})).out.text();
    };
    EXPECT_EQ(forks(10), "9 Resource temporarily unavailable\n");
    EXPECT_EQ(forks(20), "19 Resource temporarily unavailable\n");
    EXPECT_EQ(forks(20), "19 Resource temporarily unavailable\n");
}

// A mount that came after a jail was built would be missing from its view.
TEST_F(Pooled, ANewMountOfTheHostIsSeen) {
    if (!isRoot()) GTEST_SKIP() << "only root can mount";
    const HostProject project(someone());
    const test::ScratchDirectory place;
    const fs::path shown = fs::path("/var/tmp") / ("gradus-test-mount-" + std::to_string(::getpid()));
    fs::create_directory(shown);
    runPooled(project, shell("true"));
    ASSERT_EQ(::mount("none", shown.c_str(), "tmpfs", 0, "size=64k"), 0);
    fs::create_directory(shown / "inside");
    const Outcome outcome = runPooled(project, shell("ls " + shown.native()));
    ::umount(shown.c_str());
    fs::remove(shown);
    EXPECT_EQ(outcome.out.text(), "inside\n") << describe(outcome);
}

// Who replaces a file takes away what covers it, in every mount namespace.
TEST_F(Pooled, WhatIsAlwaysHiddenStaysSoWhenItIsReplaced) {
    if (!isRoot()) GTEST_SKIP() << "only root can mount";
    const HostProject project(someone());
    const fs::path place = "/etc/security";
    if (!fs::is_directory(place)) GTEST_SKIP() << "there is no " << place;
    ASSERT_EQ(::mount("none", place.c_str(), "tmpfs", 0, "size=64k"), 0);
    const auto put = [&](const std::string& text) {
        std::ofstream(place / "new") << text;
        fs::rename(place / "new", place / "opasswd");
    };
    put("first secret\n");
    const Outcome first = runPooled(project, shell("wc -c < /etc/security/opasswd"));
    put("second secret\n");
    const Outcome second = runPooled(project, shell("wc -c < /etc/security/opasswd"));
    ::umount(place.c_str());
    EXPECT_EQ(first.out.text(), "0\n") << describe(first);
    EXPECT_EQ(second.out.text(), "0\n") << describe(second);
}

TEST_F(Pooled, WhatIsToBeHiddenIsSoFromTheMomentItIsThere) {
    if (!isRoot()) GTEST_SKIP() << "only root can mount";
    const HostProject project(someone());
    const fs::path place = "/etc/security";
    if (!fs::is_directory(place)) GTEST_SKIP() << "there is no " << place;
    ASSERT_EQ(::mount("none", place.c_str(), "tmpfs", 0, "size=64k"), 0);
    std::ofstream(place / "other") << "x";
    for (int round = 0; round < 5; ++round) {
        EXPECT_EQ(runPooled(project, shell("ls /etc/security")).out.text(), "other\n");
        // In the same step of the file system's clock as what came before, perhaps.
        std::ofstream(place / "opasswd") << "a secret\n";
        EXPECT_EQ(runPooled(project, shell("wc -c < /etc/security/opasswd")).out.text(), "0\n");
        fs::remove(place / "opasswd");
    }
    ::umount(place.c_str());
}

/// What one sandbox after another of a pool shows of who is pid 1 in it.
class AheadOfItsSandbox : public Pooled {
  protected:
    /// Pid 1 as the host numbers it.
    pid_t run(const std::string& script, const Limits& limits = {}) {
        pid_t init = 0;
        Command command = shell(script);
        command.started = [&](pid_t pid) { init = pid; };
        last_ = runPooled(project_, command, limits);
        return init;
    }
    /// Runs something, and says who waits in the idle jail after that.
    pid_t waitingAfterARun() {
        const pid_t first = run("true");
        for (int attempt = 0; attempt < 500; ++attempt) {
            for (const pid_t jail : pidsOf(::getpid()))
                for (const pid_t init : pidsOf(jail))
                    if (init != first) return init;
            ::usleep(10'000);
        }
        ADD_FAILURE() << "nobody waits";
        return -1;
    }

    HostProject project_{someone()};
    Outcome last_;
};

TEST_F(AheadOfItsSandbox, PidOneWaitsForASandboxOfTheSameKind) {
    const pid_t next = waitingAfterARun();
    EXPECT_EQ(run("ls /tmp; cat /proc/1/comm; cat /proc/self/comm; ls -d " + project_.path().native()), next);
    EXPECT_EQ(last_.out.text(), "gradus-jail\ncat\n" + project_.path().native() + "\n") << describe(last_);
}

TEST_F(AheadOfItsSandbox, IsNotUsedWhereTheLimitsAreOthers) {
    const pid_t next = waitingAfterARun();
    EXPECT_NE(run("true", limitsOf({{LimitName::kOpenFiles, 64}})), next);
    EXPECT_EQ(last_.verdict, Verdict::kOk) << describe(last_);
    EXPECT_NE(::kill(next, 0), 0) << "it is still there";
}

TEST_F(AheadOfItsSandbox, WhoWasKilledMeanwhileIsReplaced) {
    const pid_t next = waitingAfterARun();
    ASSERT_EQ(::kill(next, SIGKILL), 0);
    ::usleep(50'000);
    EXPECT_NE(run("echo here"), next);
    EXPECT_EQ(last_.out.text(), "here\n") << describe(last_);
}

TEST_F(AheadOfItsSandbox, LaterCommandsSeeOnlyTheirOwnProcesses) {
    waitingAfterARun();
    const auto sandbox = pool_->open(workspaceOf(project_), {}, Network::kNone, someone());
    for (int i = 0; i < 3; ++i) {
        const Outcome outcome =
            sandbox->run(shell("cat /proc/1/comm; set -- /proc/[0-9]*; echo $#; mount | grep -c proc"));
        EXPECT_TRUE(outcome.out.text().starts_with("gradus-jail\n2\n")) << describe(outcome);
    }
}

TEST_F(Pooled, KeepsNoMoreThanItMay) {
    const HostProject project(someone());
    pool_ = std::make_unique<NamespacesBackend>(NamespacesConfig{.jail = GRADUS_JAIL, .pooled = 2}, clock_);
    std::vector<std::unique_ptr<Sandbox>> sandboxes;
    for (int i = 0; i < 4; ++i) sandboxes.push_back(pool_->open(workspaceOf(project), {}, Network::kNone, someone()));
    EXPECT_EQ(childrenOf(::getpid()), 4U);
    sandboxes.clear();
    EXPECT_EQ(childrenOf(::getpid()), 2U);
}

TEST_F(Pooled, ReplacesWhatEndedOnceNobodyAsks) {
    const HostProject project(someone());
    pool_ = std::make_unique<NamespacesBackend>(
        NamespacesConfig{.jail = GRADUS_JAIL, .pooled = 1, .poolQuiet = Milliseconds(1)}, clock_);
    // A network that was used is not passed on: that jail ends.
    auto sandbox = pool_->open(workspaceOf(project), {}, Network::kNone, someone());
    const std::set<pid_t> before = pidsOf(::getpid());
    const Outcome first = sandbox->run(guest({"loopback"}));
    sandbox.reset();
    const auto isReplaced = [&] {
        const std::set<pid_t> now = pidsOf(::getpid());
        return pool_->poolCounts().jails == 1 && now.size() == 1 && now != before;
    };
    for (int look = 0; look < 2000 && !isReplaced(); ++look) std::this_thread::sleep_for(Milliseconds(5));
    ASSERT_TRUE(isReplaced());
    const std::set<pid_t> waiting = pidsOf(::getpid());
    const Outcome second = runPooled(project, shell("true"));
    EXPECT_EQ(second.verdict, Verdict::kOk) << describe(second);
    EXPECT_EQ(pidsOf(::getpid()), waiting) << "the one that waited was not used";
    EXPECT_NE(network(first), network(second));
}

class BuiltAheadOnes : public Pooled {
  protected:
    void SetUp() override {
        Pooled::SetUp();
        pool_ = std::make_unique<NamespacesBackend>(
            NamespacesConfig{.jail = GRADUS_JAIL, .pooled = 1, .builtAhead = 1, .poolQuiet = Milliseconds(1)}, clock_);
    }
    void awaitBuilt() {
        for (int look = 0; look < 2000 && pool_->poolCounts().built == 0; ++look)
            std::this_thread::sleep_for(Milliseconds(5));
        ASSERT_EQ(pool_->poolCounts().built, 1U);
    }
};

TEST_F(BuiltAheadOnes, AreGivenAwayForTheSamePlanAndShowTheFilesAsTheyAre) {
    const HostProject project(someone());
    EXPECT_EQ(runPooled(project, shell("true")).verdict, Verdict::kOk);
    EXPECT_EQ(runPooled(project, shell("echo x > mark", project.path())).verdict, Verdict::kOk);
    awaitBuilt();
    project.write("src/main.c", "edited since\n");
    const auto sandbox = pool_->open(workspaceOf(project), {}, Network::kNone, someone());
    EXPECT_EQ(sandbox->run(shell("cat src/main.c; ls mark", project.path())).out.text(), "edited since\n");
    EXPECT_EQ(pool_->poolCounts().given, 1U);
}

TEST_F(BuiltAheadOnes, AreNotGivenToAnotherPlan) {
    const HostProject first(someone());
    const HostProject second(someone());
    runPooled(first, shell("true"));
    runPooled(first, shell("true"));
    awaitBuilt();
    EXPECT_EQ(pool_->poolCounts().given, 0U);
    const Outcome outcome = runPooled(second, shell("pwd; ls -d " + first.path().native(), second.path()));
    EXPECT_EQ(outcome.out.text(), second.path().native() + "\n" + first.path().native() + "\n") << describe(outcome);
    Limits limits = limitsOf({{LimitName::kTasks, 10}});
    EXPECT_EQ(runPooled(first, guest({"fork", "30"}), limits).out.text(), "9 Resource temporarily unavailable\n");
}

TEST_F(BuiltAheadOnes, AreDroppedWhenTheBaseMoved) {
    const HostProject project(someone());
    const fs::path other = project.path().native() + "-other";
    runPooled(project, shell("true"));
    runPooled(project, shell("true"));
    awaitBuilt();
    // Another directory in its place: the one that waits shows the old one.
    fs::rename(project.path(), other);
    fs::create_directory(project.path());
    std::ofstream(project.path() / "fresh") << "fresh";
    fs::permissions(project.path(), fs::perms(0777));
    const Outcome outcome = runPooled(project, shell("ls", project.path()));
    EXPECT_EQ(pool_->poolCounts().given, 0U);
    fs::remove_all(other);
    EXPECT_EQ(outcome.out.text(), "fresh\n") << describe(outcome);
}

TEST_F(BuiltAheadOnes, GoWithTheirPool) {
    const HostProject project(someone());
    runPooled(project, shell("true"));
    runPooled(project, shell("true"));
    awaitBuilt();
    pool_.reset();  // what is left is counted by TearDown
    EXPECT_TRUE(pidsOf(::getpid()).empty());
}

// The long form goes on for ten thousand. What is left at the end is counted by TearDown.
TEST_F(Pooled, ManyRunsLeakNothing) {
    const bool isLong = std::getenv("GRADUS_LONG") != nullptr;
    const int runs = isLong ? 10'000 : 300;
    const HostProject project(someone());
    pool_ = std::make_unique<NamespacesBackend>(NamespacesConfig{.jail = GRADUS_JAIL, .pooled = 4}, clock_);
    Command command;
    command.arguments = {"/bin/true"};
    std::atomic<int> left = 0;
    std::atomic<int> failed = 0;
    const auto work = [&] {
        while (left.fetch_sub(1) > 0) {
            const auto sandbox = pool_->open(workspaceOf(project), {}, Network::kNone, someone());
            if (sandbox->run(command).verdict != Verdict::kOk) ++failed;
        }
    };
    const auto rounds = [&](int count) {
        left = count;
        std::vector<std::jthread> workers;
        for (int i = 0; i < 4; ++i) workers.emplace_back(work);
    };
    rounds(runs / 10);
    const HostCounts warm = countHost();
    rounds(runs - runs / 10);
    EXPECT_EQ(failed, 0);
    HostCounts after = countHost();
    // Jails that ended are replaced, and the old ones reaped, by a thread of its own: either count may be on the way.
    constexpr std::size_t kOnTheWay = 4;
    for (int i = 0; i < 100 && after.processes > warm.processes + kOnTheWay; ++i, after = countHost()) ::usleep(50'000);
    EXPECT_LE(after.processes, warm.processes + kOnTheWay);
    EXPECT_LE(after.descriptors, warm.descriptors + 8) << "four sandboxes may be on their way down";
    EXPECT_EQ(after.cgroups, warm.cgroups);
}

TEST_F(Pooled, AKilledJailIsReplaced) {
    const HostProject project(someone());
    const Outcome first = runPooled(project, shell("true"));
    Command command = guest({"stubborn"});
    const auto sandbox = pool_->open(workspaceOf(project), {}, Network::kNone, someone());
    // Its only child at this moment: the jail.
    command.live = [&](Stream, std::string_view) {
        const std::string self = std::to_string(::getpid());
        std::ifstream children("/proc/" + self + "/task/" + self + "/children");
        pid_t jail = 0;
        children >> jail;
        ASSERT_GT(jail, 0);
        ::kill(jail, SIGKILL);
    };
    EXPECT_THROW(sandbox->run(command), Error);
    EXPECT_EQ(runPooled(project, shell("true")).verdict, Verdict::kOk);
}

// A jail that holds a sandbox's lock is that sandbox's alone: the lock is free once it is closed, and not sooner.
TEST_F(Pooled, WhatIsHeldIsLetGoWithTheSandboxAndNotKeptInThePool) {
    const HostProject project(someone());
    const Outcome first = runPooled(project, shell("true"));
    const test::ScratchDirectory place;
    const fs::path lock = place.path() / "lock";
    const auto isFree = [&] {
        const FileDescriptor other = openFile(lock, O_RDWR);
        return ::flock(other.get(), LOCK_EX | LOCK_NB) == 0;
    };
    std::unique_ptr<Sandbox> sandbox;
    {
        const FileDescriptor held = openFile(lock, O_RDWR | O_CREAT);
        ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
        Workspace workspace = workspaceOf(project);
        workspace.held = held.get();
        sandbox = pool_->open(workspace, {}, Network::kNone, someone());
    }
    const Outcome holding = sandbox->run(shell("ls /proc/self/fd; ls -l /proc/self/fd | grep -c lock"));
    EXPECT_EQ(holding.out.text(), "0\n1\n2\n3\n0\n") << "the command has it as well";
    EXPECT_NE(network(holding), network(first)) << "a jail that waited was taken";
    EXPECT_FALSE(isFree());
    sandbox->close();
    EXPECT_TRUE(isFree());
    EXPECT_EQ(network(runPooled(project, shell("true"))), network(first)) << "the one that waits is another";
}

TEST_F(Pooled, APreparedSandboxRunsTheCommandItIsGiven) {
    const HostProject project(someone());
    const auto sandbox = open(project);
    for (int i = 0; i < 3; ++i) {
        sandbox->prepare();
        sandbox->prepare();
        EXPECT_EQ(sandbox->run(shell("echo $$ " + std::to_string(i))).out.text(), "2 " + std::to_string(i) + "\n");
    }
    sandbox->prepare();  // and goes with its sandbox, as TearDown counts
}

// A mount point that does not exist below an overlay must not look like something the command made.
TEST_F(Pooled, MountPointsBelowAnOverlayLeaveNothingInItsUpperDirectory) {
    GRADUS_CASES("E4", "PV5");
    const HostProject project(someone());
    Workspace workspace = workspaceOf(project);
    workspace.directories.push_back({project.path() / "cache/deep", 0755});
    workspace.binds.push_back({"/etc/hostname", project.path() / "src/shown", true});
    const auto sandbox = pool_->open(workspace, {}, Network::kNone, someone());
    const Outcome outcome =
        sandbox->run(shell("echo x > cache/deep/file && cat cache/deep/file && echo y > cache/beside && test -f "
                           "src/shown && cat src/main.c | wc -l",
                           project.path()));
    EXPECT_EQ(outcome.out.text(), "x\n1\n") << describe(outcome);
    std::set<std::string> changed;
    const fs::path upper = "/proc/self/fd/" + std::to_string(sandbox->upper(0)) + "/";
    for (const auto& entry : fs::recursive_directory_iterator(upper))
        changed.insert(entry.path().native().substr(upper.native().size()));
    EXPECT_EQ(changed, (std::set<std::string>{"cache", "cache/beside"}));
    struct stat info {};
    ASSERT_EQ(::stat((upper / "cache/beside").c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, someone().uid);
    EXPECT_FALSE(fs::exists(project.path() / "cache"));
}

}  // namespace
}  // namespace gradus
