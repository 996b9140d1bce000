// Jails that go from sandbox to sandbox: nothing of one may be in the next.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>

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
