// A network by name: the listed names lead outside, nothing else does, and the record says both. Servers are this
// test's own, on the loopback or in a network namespace that it makes.

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <condition_variable>
#include <cstring>

#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/jail_program.h"
#include "plugins/isolation/process.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"
#include "tests/support/loopback_server.h"

namespace gradus {
namespace {

using test::echo;
using test::LoopbackServer;
using test::webServer;

/// What names stand for in a test; counts how often each was asked for.
class Names {
  public:
    void set(const std::string& host, std::vector<std::string> addresses) {
        const std::lock_guard<std::mutex> lock(mutex_);
        answers_[host] = std::move(addresses);
    }
    int asked(const std::string& host) {
        const std::lock_guard<std::mutex> lock(mutex_);
        return asked_[host];
    }
    std::vector<NetworkAddress> resolve(const std::string& host) {
        std::unique_lock<std::mutex> lock(mutex_);
        ++asked_[host];
        if (host == "never.test") never_.wait_for(lock, std::chrono::seconds(20), [this] { return over_; });
        std::vector<NetworkAddress> found;
        for (const std::string& address : answers_[host]) found.push_back(*parseAddress(address));
        return found;
    }
    void end() {
        const std::lock_guard<std::mutex> lock(mutex_);
        over_ = true;
        never_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable never_;
    bool over_ = false;
    std::map<std::string, std::vector<std::string>> answers_;
    std::map<std::string, int> asked_;
};

class NetworkByName : public SandboxTest {
  protected:
    void SetUp() override {
        SandboxTest::SetUp();
        NamespacesConfig config;
        config.jail = GRADUS_JAIL;
        config.resolver = [names = names_](const std::string& host) { return names->resolve(host); };
        backend_ = std::make_unique<NamespacesBackend>(config, clock_);
    }
    void TearDown() override {
        backend_.reset();
        names_->end();
        for (int i = 0; i < 400 && names_.use_count() > 1; ++i) ::usleep(10'000);  // resolver threads
        ::usleep(20'000);
        SandboxTest::TearDown();
    }

    Outcome runIn(const std::vector<std::string>& destinations, const Command& command, const Limits& limits = {}) {
        const HostProject project(someone());
        Limits bounded = limits;
        if (!bounded[LimitName::kWallTime]) bounded[LimitName::kWallTime] = Limit{40'000, true};
        std::vector<Destination> all;
        for (const std::string& text : destinations) all.push_back(parseDestination(text));
        return backend_->open(workspaceOf(project), bounded, Network::byName(all), someone())->run(command);
    }
    Outcome shellIn(const std::vector<std::string>& destinations, const std::string& script,
                    const Limits& limits = {}) {
        return runIn(destinations, shell(script), limits);
    }
    Outcome pythonIn(const std::vector<std::string>& destinations, const std::string& program,
                     const Limits& limits = {}) {
        Command command = shell("");
        command.arguments = {"/usr/bin/python3", "-c", "import socket, sys\n" + program};
        return runIn(destinations, command, limits);
    }
    static std::string at(const LoopbackServer& server) {
        return "svc.test:" + std::to_string(server.port()) + "=127.0.0.1";
    }

    SystemClock clock_;
    std::shared_ptr<Names> names_ = std::make_shared<Names>();  // with resolver threads, which may outlive a test
    std::unique_ptr<NamespacesBackend> backend_;
};

std::vector<std::string> deniedBy(const Outcome& outcome) {
    std::vector<std::string> all;
    for (const RefusedConnection& one : outcome.sideEffects.networkDenied)
        all.push_back(fmt::format("{} {}:{} {} x{}", one.protocol, one.host, one.port, one.reason, one.attempts));
    return all;
}

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

TEST_F(NetworkByName, BlockingTimedAsynchronousAndThreadedClientsAllWork) {
    const LoopbackServer server(webServer());
    const Outcome outcome = pythonIn({at(server)}, fmt::format(R"(
import asyncio, threading, urllib.request, selectors, os
where = ("svc.test", {0})
def ask(s):
    s.sendall(b"GET / HTTP/1.0\r\n\r\n")
    data = b""
    while True:
        piece = s.recv(4096)
        if not piece: break
        data += piece
    s.close()
    return data.endswith(b"hello\n")
s = socket.socket(); s.connect(where); print("blocking", ask(s), )
print("timed", ask(socket.create_connection(where, 5)))
print("urllib", urllib.request.urlopen("http://svc.test:{0}/").read())
async def asynchronous():
    async def one():
        reader, writer = await asyncio.open_connection(*where)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        data = await reader.read()
        writer.close()
        return data.endswith(b"hello\n")
    return all(await asyncio.gather(*[one() for _ in range(20)]))
print("asyncio", asyncio.run(asynchronous()))
results = []
threads = [threading.Thread(target=lambda: results.append(ask(socket.create_connection(where)))) for _ in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
print("threads", len(results), all(results))
# Registered and copied before it is connected: it is the very socket that the program made.
s = socket.socket(); s.setblocking(False)
copy = s.dup()
chosen = selectors.EpollSelector(); chosen.register(s, selectors.EVENT_WRITE)
error = s.connect_ex(where)
print("epoll", error in (0, 115), len(chosen.select(5)) == 1, s.getpeername() == copy.getpeername())
v6 = socket.socket(socket.AF_INET6); v6.connect(("::ffff:198.18.0.1", {0})); print("mapped", ask(v6))
b = socket.socket(); b.bind(("0.0.0.0", 0)); mine = b.getsockname()[1]; b.connect(where)
print("bound", b.getsockname()[1] == mine, b.getpeername() == ("198.18.0.1", {0}))
)",
                                                               server.port()));
    EXPECT_EQ(outcome.out.text(),
              "blocking True\ntimed True\nurllib b'hello\\n'\nasyncio True\nthreads 20 True\nepoll True True True\n"
              "mapped True\nbound True True\n")
        << describe(outcome);
    EXPECT_EQ(outcome.sideEffects.networkAllowed.at(0).connections, static_cast<std::uint64_t>(server.served()));
}

TEST_F(NetworkByName, NodeReachesItByHttpAndFetch) {
    if (::access("/usr/bin/node", X_OK) != 0) GTEST_SKIP() << "there is no /usr/bin/node";
    const LoopbackServer server(webServer());
    Command command = shell("");
    command.arguments = {"/usr/bin/node", "-e",
                         fmt::format(R"(
const url = 'http://svc.test:{}/';
require('http').get(url, answer => {{
  let text = '';
  answer.on('data', piece => text += piece);
  answer.on('end', async () => {{
    console.log('http', text.trim());
    console.log('fetch', typeof fetch === 'function' ? (await (await fetch(url)).text()).trim() : 'hello');
  }});
}});
)",
                                     server.port())};
    const Outcome outcome = runIn({at(server)}, command);
    EXPECT_EQ(outcome.out.text(), "http hello\nfetch hello\n") << describe(outcome);
    EXPECT_EQ(server.served(), 2);
    EXPECT_EQ(outcome.sideEffects.networkAllowed.at(0).connections, 2U);
}

TEST_F(NetworkByName, GitClonesOverIt) {
    const HostProject served(someone());
    const std::string make = fmt::format(
        "cd {} && export GIT_CONFIG_GLOBAL=/dev/null && git init -q work && cd work && git -c user.name=a -c "
        "user.email=a@b.c commit -q --allow-empty -m first && git clone -q --bare . ../served.git && git -C "
        "../served.git update-server-info",
        served.path().native());
    ASSERT_EQ(std::system(make.c_str()), 0);
    const LoopbackServer server(webServer(served.path()));
    const Outcome outcome =
        shellIn({at(server)}, fmt::format("cd /tmp && export HOME=/tmp && git clone -q http://svc.test:{}/served.git "
                                          "copy && git -C copy log --format=%s",
                                          server.port()));
    EXPECT_EQ(outcome.out.text(), "first\n") << describe(outcome);
    EXPECT_GE(server.served(), 2);
    EXPECT_EQ(outcome.sideEffects.outsideWrites, std::vector<std::string>{"/tmp/copy"});
}

TEST_F(NetworkByName, WhatBecameOfAConnectionIsSeenInside) {
    // Bound, so that nobody else takes the port, and deaf.
    const FileDescriptor deaf(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof place;
    ASSERT_EQ(::bind(deaf.get(), reinterpret_cast<sockaddr*>(&place), size), 0);
    ASSERT_EQ(::getsockname(deaf.get(), reinterpret_cast<sockaddr*>(&place), &size), 0);
    const std::uint16_t port = ntohs(place.sin_port);
    const Outcome outcome = pythonIn({fmt::format("svc.test:{}=127.0.0.1", port)}, fmt::format(R"(
import asyncio
try:
    socket.create_connection(("svc.test", {0})); print("reached")
except ConnectionRefusedError:
    print("refused")
s = socket.socket()
print(s.connect_ex(("svc.test", {0})))
async def one():
    try:
        reader, writer = await asyncio.open_connection("svc.test", {0})
        await reader.read()  # on a slow machine it hears only now
        return "reached"
    except (ConnectionRefusedError, ConnectionResetError):
        return "refused"
print(asyncio.run(one()))
)",
                                                                                               port));
    EXPECT_EQ(outcome.out.text(), "refused\n111\nrefused\n") << describe(outcome);
    EXPECT_EQ(outcome.sideEffects.networkAllowed.at(0).failed, 3U);
    EXPECT_EQ(outcome.sideEffects.networkAllowed.at(0).connections, 0U);
}

TEST_F(NetworkByName, MuchIsPassedBothWaysAndAHalfClosedConnectionStaysOne) {
    const LoopbackServer server(echo);
    const Outcome outcome = pythonIn({at(server)}, fmt::format(R"(
import hashlib, os, threading
sent = os.urandom(1 << 20) * 8
s = socket.create_connection(("svc.test", {}), 30)
def write():
    s.sendall(sent); s.shutdown(socket.SHUT_WR)
t = threading.Thread(target=write); t.start()
got = hashlib.sha256(); size = 0
while True:
    piece = s.recv(1 << 16)
    if not piece: break
    got.update(piece); size += len(piece)
t.join()
print(size == len(sent), got.digest() == hashlib.sha256(sent).digest())
)",
                                                               server.port()));
    EXPECT_EQ(outcome.out.text(), "True True\n") << describe(outcome);
}

// Were the connected socket one of the host's network, it could be disconnected and used for any address there, or to
// listen there: what is inside must be a socket of the sandbox's own network.
TEST_F(NetworkByName, NoSocketOfTheHostsNetworkIsEverInside) {
    GRADUS_CASES("N9");
    const LoopbackServer server(webServer());
    const LoopbackServer secret([](int socket) { test::sendAll(socket, "secret"); });
    const Outcome outcome = pythonIn({at(server)}, fmt::format(R"(
import ctypes, threading, os, time
libc = ctypes.CDLL(None, use_errno=True)
nothing = ctypes.create_string_buffer(16)
def disconnected():
    s = socket.create_connection(("svc.test", {0}), 5)
    libc.connect(s.fileno(), nothing, 16)
    return s
s = disconnected()
print("again", s.connect_ex(("127.0.0.1", {1})))
s = disconnected()
try:
    print("fast open", s.sendto(b"x", 0x20000000, ("127.0.0.1", {1})))
except OSError as e:
    print("fast open", e.errno != 0)
s = disconnected(); s.listen(4); port = s.getsockname()[1]
print("listens inside", socket.create_connection(("127.0.0.1", port), 5) is not None)
# The address is swapped while it is looked at, and the socket too.
stop = False
good = disconnected(); other = socket.socket()
def swap():
    while not stop:
        os.dup2(good.fileno(), 200); os.dup2(other.fileno(), 200)
os.dup2(other.fileno(), 200)
t = threading.Thread(target=swap); t.start()
reached = 0
address = ctypes.create_string_buffer(bytes([2, 0]) + ({1}).to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8), 16)
end = time.monotonic() + 1
while time.monotonic() < end:
    if libc.connect(200, address, 16) == 0: reached += 1
    libc.connect(200, nothing, 16)
stop = True; t.join()
print("swapped", reached)
)",
                                                               server.port(), secret.port()));
    EXPECT_EQ(outcome.out.text(), "again 111\nfast open True\nlistens inside True\nswapped 0\n") << describe(outcome);
    EXPECT_EQ(secret.served(), 0);
}

TEST_F(NetworkByName, AServerInsideIsReachableInside) {
    GRADUS_CASES("N15");
    const LoopbackServer server(webServer());
    EXPECT_EQ(runIn({at(server)}, guest({"loopback"})).out.text(), "ok\n");
}

TEST_F(NetworkByName, SocketsAreOfTheCommonFamiliesOnly) {
    GRADUS_CASES("SC8");
    const LoopbackServer server(webServer());
    const Outcome outcome = pythonIn({at(server)}, R"(
for family, kind, protocol in ((16, 3, 9), (17, 3, 0), (40, 1, 0), (2, 3, 1)):
    try:
        socket.socket(family, kind, protocol); print("made")
    except OSError as e:
        print(e.errno)
)");
    EXPECT_EQ(outcome.out.text(), "1\n1\n1\n1\n") << describe(outcome);
}

TEST_F(NetworkByName, OutputEndsWithTheCommandWhateverIsConnected) {
    GRADUS_CASES("N14");
    const LoopbackServer server(echo);
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = pythonIn({at(server)}, fmt::format(R"(
import os, time
s = socket.create_connection(("svc.test", {}), 5)
if os.fork() == 0:
    time.sleep(30)
    os._exit(0)
print("ends")
)",
                                                               server.port()));
    EXPECT_EQ(outcome.out.text(), "ends\n") << describe(outcome);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    EXPECT_EQ(outcome.sideEffects.leftoverCount, 1U);
    EXPECT_EQ(outcome.sideEffects.leftoverProcesses, std::vector<std::string>{"python3"});
}

TEST_F(NetworkByName, ACommandThatWaitsForAConnectionCanBeEnded) {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = pythonIn({"never.test:80"}, R"(
import threading
for _ in range(40): threading.Thread(target=lambda: socket.create_connection(("never.test", 80))).start()
)",
                                     limitsOf({{LimitName::kWallTime, 1500}}));
    EXPECT_EQ(outcome.verdict, Verdict::kTimeout) << describe(outcome);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

// An event loop that asks not to wait does not wait.
TEST_F(NetworkByName, ACallThatMustNotBlockDoesNot) {
    const Outcome outcome = pythonIn({"never.test:80"}, R"(
import time
s = socket.socket(); s.setblocking(False)
begin = time.monotonic(); s.connect_ex(("never.test", 80))
print(time.monotonic() - begin < 3)
)");
    EXPECT_EQ(outcome.out.text(), "True\n") << describe(outcome);
    ASSERT_EQ(outcome.sideEffects.networkDenied.size(), 1U);
    EXPECT_EQ(outcome.sideEffects.networkDenied[0].reason, "unfinished") << "it is in the record all the same";
}

TEST_F(NetworkByName, WithoutItsBrokerNothingLeadsOutside) {
    GRADUS_CASES("N13");
    const LoopbackServer server(webServer());
    Jail jail = startJail(GRADUS_JAIL, -1);
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    Descriptor ours(pair[0]);
    Descriptor theirs(pair[1]);
    const auto routes = routesFor({parseDestination(at(server))});
    JailSetup setup;
    setup.uid = someone().uid;
    setup.gid = someone().gid;
    setup.hostname = "sandbox";
    setup.cgroupRoot = "/sys/fs/cgroup";
    setup.privates = {{"/tmp", 01777}};
    setup.files = {{"/etc/hosts", hostsFor(routes), 0644}};
    for (const NetworkRoute& route : routes) setup.routes.push_back(route.inside);
    ASSERT_TRUE(sendFrame(jail.control.get(), JailMessage::kSetup, encode(setup), {theirs.get()}));
    theirs.reset();
    const auto listeners = receiveFrame(ours.get());
    ASSERT_TRUE(listeners);
    EXPECT_EQ(listeners->kind, JailMessage::kListeners);
    EXPECT_EQ(listeners->descriptors.size(), 1U);
    EXPECT_EQ(receiveFrame(jail.control.get())->kind, JailMessage::kReady);
    ours.reset();  // the broker is dead
    int out[2];
    ASSERT_EQ(::pipe2(out, O_CLOEXEC), 0);
    const Descriptor reader(out[0]);
    Descriptor writer(out[1]);
    const Descriptor null = openPath(AT_FDCWD, "/dev/null", O_RDWR);
    JailRun run;
    run.program = "/bin/sh";
    run.arguments = {"sh", "-c", fmt::format("curl -s -m 5 http://svc.test:{}/ && echo reached", server.port())};
    run.environment = {"PATH=/usr/bin:/bin"};
    run.directory = "/";
    ASSERT_TRUE(sendFrame(jail.control.get(), JailMessage::kRun, encode(run), {null.get(), writer.get(), null.get()}));
    writer.reset();
    EXPECT_EQ(receiveFrame(jail.control.get())->kind, JailMessage::kStarted);
    const auto ended = receiveFrame(jail.control.get());
    ASSERT_TRUE(ended);
    const auto report = decodeEnded(ended->body);
    ASSERT_TRUE(report);
    EXPECT_NE(report->status, 0U);
    EXPECT_LT(report->wallNanos, 4'000'000'000U) << "refused, not left waiting";
    char buffer[64];
    EXPECT_EQ(::read(reader.get(), buffer, sizeof buffer), 0) << "nothing was said";
    EXPECT_EQ(server.served(), 0);
    endJail(jail);
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
