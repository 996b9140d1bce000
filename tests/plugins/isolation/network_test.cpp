// No network means none: not the host's loopback, not its sockets. Listeners are this test's own.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "plugins/isolation/jail/landlock.h"
#include "store/file.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

/// A socket on the host's loopback that remembers whether anybody called.
class HostSocket {
  public:
    explicit HostSocket(int type) : socket_(::socket(AF_INET, type | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
        EXPECT_TRUE(type != SOCK_STREAM || ::listen(socket_.get(), 8) == 0);
        ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length);
        port_ = std::to_string(ntohs(address.sin_port));
    }
    const std::string& port() const { return port_; }
    bool wasCalled() const {
        pollfd event{socket_.get(), POLLIN, 0};
        return ::poll(&event, 1, 0) > 0;
    }

  private:
    FileDescriptor socket_;
    std::string port_;
};

class NetworkNone : public SandboxTest {};

TEST_F(NetworkNone, ThereIsAPrivateLoopbackAndNoRoute) {
    GRADUS_CASES("NW1");
    const Outcome outcome =
        runShell("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; tail -n +2 /proc/net/route; ls /sys/class/net");
    EXPECT_EQ(outcome.out.text(), "lo\nlo\n") << describe(outcome);
}

TEST_F(NetworkNone, ListenersOnTheHostHearNothing) {
    GRADUS_CASES("NW1", "NW2", "N1");
    const HostSocket tcp(SOCK_STREAM);
    const HostSocket udp(SOCK_DGRAM);
    EXPECT_EQ(runGuest({"connect", "tcp", "127.0.0.1", tcp.port()}).out.text(), "Connection refused\n");
    runGuest({"connect", "udp", "127.0.0.1", udp.port()});
    runShell("(echo x > /dev/tcp/127.0.0.1/" + tcp.port() +
             ") 2>/dev/null; curl -s -m 2 http://127.0.0.1:" + tcp.port());
    EXPECT_FALSE(tcp.wasCalled());
    EXPECT_FALSE(udp.wasCalled());
}

// Fails at once rather than by a timeout.
TEST_F(NetworkNone, NamesAndAddressesFailFast) {
    GRADUS_CASES("N1", "NW7");
    const Outcome outcome =
        runShell("getent hosts name.invalid || echo unknown; curl -s -m 5 http://192.0.2.1/ || echo unreachable",
                 limitsOf({{LimitName::kWallTime, 4000}}));
    EXPECT_EQ(outcome.out.text(), "unknown\nunreachable\n") << describe(outcome);
}

// N15
TEST_F(NetworkNone, AServerInsideIsReachableInside) {
    GRADUS_CASES("N15");
    EXPECT_EQ(runGuest({"loopback"}).out.text(), "ok\n");
}

TEST_F(NetworkNone, SocketsOfTheHostAreNotInView) {
    GRADUS_CASES("NW5");
    const Outcome outcome =
        runShell("find / -xdev -type s 2>/dev/null | head; ls -A /run; ls /var/run/docker.sock 2>/dev/null");
    EXPECT_EQ(outcome.out.text(), "guest\n") << describe(outcome);
}

TEST_F(NetworkNone, AbstractSocketsOfTheHostAreOutOfReach) {
    const std::string name = "gradus-test-" + std::to_string(::getpid());
    const FileDescriptor server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    ASSERT_EQ(::bind(server.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    ASSERT_EQ(::listen(server.get(), 4), 0);
    EXPECT_EQ(runGuest({"abstract", name}).out.text(), "Connection refused\n");

    // With the host's network only the second line of defence is left, where the kernel has it.
    if (landlockAbi() < 6)
        GTEST_SKIP() << "the host's network, and no Landlock of version 6: a gap that the page names";
    const HostProject project(someone());
    const auto sandbox = backend().open(workspaceOf(project), {}, Network::kHost, someone());
    EXPECT_EQ(sandbox->run(guest({"abstract", name})).out.text(), "Operation not permitted\n");
}

TEST_F(NetworkNone, TheHostNetworkIsThereWhenItIsAskedFor) {
    const HostSocket tcp(SOCK_STREAM);
    const HostProject project(someone());
    const auto sandbox = backend().open(workspaceOf(project), {}, Network::kHost, someone());
    EXPECT_EQ(sandbox->run(guest({"connect", "tcp", "127.0.0.1", tcp.port()})).out.text(), "ok\n");
    EXPECT_TRUE(tcp.wasCalled());
}

TEST_F(NetworkNone, TwoSandboxesUseOnePort) {
    const HostProject project(someone());
    const auto first = open(project);
    const auto second = open(project);
    EXPECT_EQ(first->run(guest({"loopback"})).out.text(), "ok\n");
    EXPECT_EQ(second->run(guest({"loopback"})).out.text(), "ok\n");
}

}  // namespace
}  // namespace gradus
