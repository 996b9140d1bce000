// Connections of a network by name: relayed whole, for every kind of client, and never a socket of the host's inside.

#include <fcntl.h>
#include <sys/socket.h>

#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/jail_program.h"
#include "tests/plugins/isolation/network_by_name_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::echo;
using test::LoopbackServer;
using test::webServer;

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

}  // namespace
}  // namespace gradus
