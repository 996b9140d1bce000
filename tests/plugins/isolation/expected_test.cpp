// Jails that are started before anybody knows what they are to confine.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/plugins/sandbox_fixture.h"

namespace gradus {
namespace {

class Expected : public SandboxTest {
  protected:
    void SetUp() override {
        SandboxTest::SetUp();
        backend_ = std::make_unique<NamespacesBackend>(NamespacesConfig{.jail = GRADUS_JAIL}, clock_);
    }
    void TearDown() override {
        backend_.reset();
        SandboxTest::TearDown();
    }

    std::unique_ptr<Sandbox> open(const HostProject& project, Network network = Network::kNone) {
        return backend_->open(workspaceOf(project), {}, network, someone());
    }
    static std::vector<pid_t> children() {
        const std::string self = std::to_string(::getpid());
        std::ifstream list("/proc/" + self + "/task/" + self + "/children");
        std::vector<pid_t> all;
        for (pid_t pid = 0; list >> pid;) all.push_back(pid);
        return all;
    }

    SystemClock clock_;
    std::unique_ptr<NamespacesBackend> backend_;
};

TEST_F(Expected, AJailThatWasExpectedIsTheOneThatConfines) {
    const HostProject project(someone());
    backend_->expect();
    backend_->expect();
    const auto started = children();
    ASSERT_EQ(started.size(), 1U);
    const auto sandbox = open(project);
    EXPECT_EQ(children(), started);
    const Outcome outcome = sandbox->run(shell("id -u; cat README.md; echo x > mark; ls", project.path()));
    EXPECT_EQ(outcome.verdict, Verdict::kOk) << describe(outcome);
    EXPECT_EQ(outcome.out.text().substr(0, outcome.out.text().find('\n')), std::to_string(someone().uid));
    const auto second = open(project);
    EXPECT_EQ(children().size(), 2U) << "one expectation is one sandbox";
}

TEST_F(Expected, OneThatEndedMeanwhileIsReplaced) {
    const HostProject project(someone());
    backend_->expect();
    for (const pid_t jail : children()) ::kill(jail, SIGKILL);
    EXPECT_EQ(open(project)->run(shell("true")).verdict, Verdict::kOk);
}

TEST_F(Expected, NothingIsLeftOfOneThatNobodyAskedFor) {
    backend_->expect();
    EXPECT_EQ(children().size(), 1U);
    backend_.reset();
    EXPECT_TRUE(children().empty());
}

TEST_F(Expected, TheHostsNetworkIsNeverThatOfAnExpectedOne) {
    const HostProject project(someone());
    backend_->expect();
    struct stat host {};
    ASSERT_EQ(::stat("/proc/self/ns/net", &host), 0);
    const auto network = [](const Outcome& outcome) {
        for (const auto& [name, inode] : outcome.namespaces)
            if (name == "net") return inode;
        return std::uint64_t{0};
    };
    EXPECT_EQ(network(open(project, Network::kHost)->run(shell("true"))), host.st_ino);
    EXPECT_NE(network(open(project)->run(shell("true"))), host.st_ino);
}

TEST_F(Expected, LimitsAreHeldAsIfItHadNotBeen) {
    const HostProject project(someone());
    backend_->expect();
    const auto sandbox =
        backend_->open(workspaceOf(project), limitsOf({{LimitName::kTasks, 10}}), Network::kNone, someone());
    EXPECT_EQ(sandbox->run(guest({"fork", "30"})).out.text(), "9 Resource temporarily unavailable\n");
}

TEST_F(Expected, ASandboxThatBeganToCloseIsGoneWhenItIsClosed) {
    const HostProject project(someone());
    const auto sandbox = open(project);
    sandbox->run(shell("echo x > mark", project.path()));
    sandbox->beginClose();
    sandbox->close();
    EXPECT_TRUE(children().empty());
    open(project)->beginClose();  // and the destructor waits as well
    EXPECT_TRUE(children().empty());
}

}  // namespace
}  // namespace gradus
