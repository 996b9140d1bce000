// A network by name: where the listed names lead, that nothing else does, and where it is refused.

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstring>

#include "plugins/isolation/jail/system.h"
#include "plugins/isolation/process.h"
#include "tests/plugins/isolation/network_by_name_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::LoopbackServer;
using test::webServer;

TEST_F(NetworkByName, AListedNameIsReachedAndRecorded) {
    GRADUS_CASES("N3");
    const LoopbackServer server(webServer());
    const Outcome outcome = shellIn(
        {at(server)}, fmt::format("curl -s http://svc.test:{0}/ && curl -s http://SVC.test:{0}/", server.port()));
    EXPECT_EQ(outcome.out.text(), "hello\nhello\n") << describe(outcome);
    EXPECT_EQ(server.served(), 2);
    ASSERT_EQ(outcome.sideEffects.networkAllowed.size(), 1U);
    EXPECT_EQ(outcome.sideEffects.networkAllowed[0], (AllowedConnection{"svc.test", server.port(), "127.0.0.1", 2, 0}));
    EXPECT_EQ(deniedBy(outcome), std::vector<std::string>());
    EXPECT_TRUE(outcome.sideEffects.connectionsSeen);
}

TEST_F(NetworkByName, EverythingElseIsRefusedAndRecorded) {
    GRADUS_CASES("N4", "N9", "N10", "NW2", "NW7");
    const LoopbackServer server(webServer());
    const LoopbackServer other(webServer());
    const Outcome outcome = pythonIn({at(server)}, fmt::format(R"(
def tried(address):
    try:
        socket.create_connection(address, 5).close()
        return "reached"
    except OSError as e:
        return str(e.errno)
print(tried(("192.0.2.7", 80)), tried(("192.0.2.7", 80)), tried(("svc.test", {1})), tried(("127.0.0.1", {0})))
print(tried(("2001:db8::1", 443)), tried(("::ffff:192.0.2.8", 1)))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    u.sendto(b"x", ("192.0.2.9", 53))
except OSError as e:
    print(e.errno)
try:
    socket.getaddrinfo("other.test", 80)
    print("resolved")
except OSError as e:
    print("unknown")
)",
                                                               server.port(), other.port()));
    EXPECT_EQ(outcome.out.text(), "101 101 101 111\n101 101\n101\nunknown\n") << describe(outcome);
    EXPECT_EQ(server.served() + other.served(), 0);
    const std::vector<std::string> denied = deniedBy(outcome);
    for (const std::string& wanted :
         {std::string("tcp 192.0.2.7:80 not-allowed x2"), fmt::format("tcp 198.18.0.1:{} not-allowed x1", other.port()),
          std::string("tcp 2001:db8::1:443 not-allowed x1"), std::string("tcp 192.0.2.8:1 not-allowed x1"),
          std::string("udp 192.0.2.9:53 not-allowed x1")})
        EXPECT_NE(std::find(denied.begin(), denied.end(), wanted), denied.end())
            << wanted << " is not in " << fmt::format("{}", fmt::join(denied, "; "));
    EXPECT_EQ(names_->asked("other.test"), 0);
    EXPECT_TRUE(outcome.sideEffects.networkAllowed.empty());
}

TEST_F(NetworkByName, AnEmptyListLetsNothingThrough) {
    GRADUS_CASES("N2");
    EXPECT_EQ(Network::byName({}), Network::kNone);
    const Outcome outcome = shellIn({}, "curl -s -m 5 http://192.0.2.7/ || echo refused");
    EXPECT_EQ(outcome.out.text(), "refused\n") << describe(outcome);
    EXPECT_EQ(deniedBy(outcome), std::vector<std::string>{"tcp 192.0.2.7:80 not-allowed x1"});
}

TEST_F(NetworkByName, WhatANameLeadsToIsJudgedForEveryConnection) {
    GRADUS_CASES("N8", "NW3", "NW8");
    const LoopbackServer server(webServer());
    const std::string port = std::to_string(server.port());
    for (const auto& [address, reason] :
         std::vector<std::pair<std::string, std::string>>{{"127.0.0.1", "loopback-address"},
                                                          {"10.0.0.1", "private-address"},
                                                          {"172.16.9.9", "private-address"},
                                                          {"192.168.1.1", "private-address"},
                                                          {"169.254.169.254", "metadata-address"},
                                                          {"169.254.3.4", "link-local-address"},
                                                          {"::1", "loopback-address"},
                                                          {"fc00::7", "private-address"},
                                                          {"fe80::7", "link-local-address"},
                                                          {"::ffff:127.0.0.1", "loopback-address"}}) {
        names_->set("flip.test", {address});
        const int before = names_->asked("flip.test");
        const Outcome outcome = pythonIn({"flip.test:" + port}, fmt::format(R"(
for _ in range(2):
    try:
        socket.create_connection(("flip.test", {}))
        print("reached")
    except OSError as e:
        print(e.strerror)
)",
                                                                            port));
        EXPECT_EQ(outcome.out.text(), "Permission denied\nPermission denied\n") << address << describe(outcome);
        ASSERT_EQ(outcome.sideEffects.networkDenied.size(), 1U) << address;
        const RefusedConnection& denied = outcome.sideEffects.networkDenied[0];
        EXPECT_EQ(denied.host, "flip.test");
        EXPECT_EQ(denied.address, address);
        EXPECT_EQ(denied.reason, reason);
        EXPECT_EQ(denied.attempts, 2U);
        EXPECT_EQ(names_->asked("flip.test") - before, 2) << "resolved for each connection";
    }
    EXPECT_EQ(server.served(), 0);
}

/// A network namespace of this thread's own with one address of the open internet on its loopback.
class OwnInternet {
  public:
    OwnInternet() : before_(openPath(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY)) {
        made_ = ::unshare(CLONE_NEWNET) == 0;
        if (!made_) return;
        const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        ifreq request{};
        std::strcpy(request.ifr_name, "lo");
        sockaddr_in address{};
        address.sin_family = AF_INET;
        ::inet_pton(AF_INET, "93.184.215.14", &address.sin_addr);
        std::memcpy(&request.ifr_addr, &address, sizeof address);
        std::strcpy(request.ifr_name, "lo:1");
        EXPECT_EQ(::ioctl(socket.get(), SIOCSIFADDR, &request), 0);
        std::strcpy(request.ifr_name, "lo");
        request.ifr_flags = IFF_UP | IFF_RUNNING;
        EXPECT_EQ(::ioctl(socket.get(), SIOCSIFFLAGS, &request), 0);
    }
    ~OwnInternet() { EXPECT_TRUE(!made_ || ::setns(before_.get(), CLONE_NEWNET) == 0); }
    bool isThere() const { return made_; }

  private:
    Descriptor before_;
    bool made_ = false;
};

TEST_F(NetworkByName, ANameThatLeadsToTheOpenInternetIsResolvedOutside) {
    GRADUS_CASES("N3", "NW8");
    if (!isRoot()) GTEST_SKIP() << "only root can make a network namespace without another user namespace";
    const OwnInternet internet;
    ASSERT_TRUE(internet.isThere());
    const LoopbackServer server(webServer(), "93.184.215.14");
    names_->set("open.test", {"10.0.0.1", "93.184.215.14"});
    const Outcome outcome = shellIn({"open.test:" + std::to_string(server.port())},
                                    fmt::format("curl -s http://open.test:{}/", server.port()));
    EXPECT_EQ(outcome.out.text(), "hello\n") << describe(outcome);
    ASSERT_EQ(outcome.sideEffects.networkAllowed.size(), 1U);
    EXPECT_EQ(outcome.sideEffects.networkAllowed[0].address, "93.184.215.14") << "never the private one";
    names_->set("open.test", {});
    const Outcome unknown = shellIn({"open.test:" + std::to_string(server.port())},
                                    fmt::format("curl -s http://open.test:{}/ || echo no", server.port()));
    EXPECT_EQ(unknown.out.text(), "no\n");
    EXPECT_EQ(unknown.sideEffects.networkDenied.at(0).reason, "unknown-name");
}

// This machine from outside is this machine, in whichever form its address comes.
TEST_F(NetworkByName, ANameThatLeadsToThisMachineItselfIsRefused) {
    if (!isRoot()) GTEST_SKIP() << "only root can make a network namespace without another user namespace";
    const OwnInternet internet;
    ASSERT_TRUE(internet.isThere());
    if (::system("command -v ip >/dev/null") != 0) GTEST_SKIP() << "iproute2 is not installed";
    ASSERT_EQ(::system("ip link add outer type veth peer name inner && ip addr add 93.184.216.34/24 dev outer && "
                       "ip link set outer up"),
              0);
    const LoopbackServer server(webServer(), "93.184.216.34");
    for (const char* address : {"93.184.216.34", "::ffff:93.184.216.34"}) {
        names_->set("open.test", {address});
        const Outcome outcome = shellIn({"open.test:" + std::to_string(server.port())},
                                        fmt::format("curl -s http://open.test:{}/ || echo no", server.port()));
        EXPECT_EQ(outcome.out.text(), "no\n") << address;
        ASSERT_EQ(outcome.sideEffects.networkDenied.size(), 1U) << address;
        EXPECT_EQ(outcome.sideEffects.networkDenied[0].reason, "own-address");
    }
    EXPECT_EQ(server.served(), 0);
}

// Somebody who already listens to system calls (a container's agent, a filter around us) cannot be joined.
TEST_F(NetworkByName, WhereConnectionsCannotBeSeenItIsRefused) {
    const LoopbackServer server(webServer());
    Outcome byName;
    Outcome none;
    std::thread([&] {
        sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
        const sock_fprog filter{1, allow};
        ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        const Descriptor listener(static_cast<int>(
            ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter)));
        ASSERT_TRUE(listener);
        byName = shellIn({at(server)}, "true");
        none = shellIn({}, "curl -s -m 5 http://192.0.2.7/ || echo refused");
    }).join();
    EXPECT_EQ(byName.verdict, Verdict::kSetupFailed);
    ASSERT_TRUE(byName.failure);
    EXPECT_EQ(byName.failure->step, "network");
    EXPECT_EQ(none.out.text(), "refused\n") << "and without a network all is as ever";
    EXPECT_FALSE(none.sideEffects.callsSeen);
    EXPECT_FALSE(none.sideEffects.connectionsSeen);
}

TEST_F(NetworkByName, TheProcessBackendRefusesIt) {
    ProcessBackend process(GRADUS_JAIL, clock_);
    EXPECT_FALSE(process.allowsByName());
    try {
        process.open({}, {}, Network::byName({parseDestination("a.test:80")}), someone());
        FAIL() << "it was opened";
    } catch (const SetupError& e) {
        EXPECT_EQ(e.failure().step, "network");
    }
}

}  // namespace
}  // namespace gradus
