// A network by name as people use it: the program, real clients, a server of the test's own on the loopback that only
// an allow-listed name leads to.

#include "tests/pipeline/end_to_end/sandbox_program.h"
#include "tests/support/case.h"
#include "tests/support/loopback_server.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class TryByName : public SandboxProgramTest {
  protected:
    /// What the clients fetch: a page and a repository that git reads over plain HTTP.
    void SetUp() override {
        SandboxProgramTest::SetUp();
        if (IsSkipped()) return;
        shell("git clone -q --bare . ../served.git && git -C ../served.git update-server-info");
        server_ = std::make_unique<LoopbackServer>(webServer(project.parent_path()));
    }
    std::string port() const { return std::to_string(server_->port()); }
    Words allowed() const { return {"--discard", "--network", "allow:svc.test:" + port() + "=127.0.0.1"}; }
    Json inside(const std::string& script) {
        const Json data = triedJson(script, allowed());
        const Json& run = data["execution"];
        EXPECT_EQ(run["network"]["kind"], "by-name");
        EXPECT_EQ(run["network"]["allow"], Json::array({"svc.test:" + port() + "=127.0.0.1"}));
        EXPECT_EQ(run["without"], Json::array({"no-network"}));
        return run;
    }
    /// What the script says, and that it reached the server and was refused nothing.
    std::string reaches(const std::string& script) {
        const int before = server_->served();
        const Json run = inside(script);
        EXPECT_GT(server_->served(), before) << run.dump(2);
        EXPECT_EQ(run["verdict"], "ok") << run.dump(2);
        EXPECT_EQ(run["side_effects"]["network_allowed"][0]["host"], "svc.test");
        EXPECT_EQ(run["side_effects"]["network_allowed"][0]["address"], "127.0.0.1");
        // A client may ask the machine's resolver about other names.
        for (const Json& denied : run["side_effects"]["network_denied"])
            EXPECT_EQ(denied["protocol"], "udp") << run.dump(2);
        return run["stdout"];
    }
    void python(const std::string& name, const std::string& program) const {
        writeBytes(project / name,
                   "where = ('svc.test', " + port() + ")\nurl = 'http://svc.test:" + port() + "/'\n" + program);
    }

    std::unique_ptr<LoopbackServer> server_;
};
INSTANTIATE_TEST_SUITE_P(Users, TryByName, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

TEST_P(TryByName, CurlReachesIt) {
    GRADUS_CASES("N3");
    EXPECT_EQ(reaches("curl -sS http://svc.test:" + port() + "/"), "hello\n");
}

TEST_P(TryByName, PythonReachesItInEveryWay) {
    python("client.py", R"(import asyncio, socket, threading, urllib.request
def ask(s):
    s.sendall(b'GET / HTTP/1.0\r\n\r\n')
    data = b''
    while piece := s.recv(4096): data += piece
    s.close()
    return data.endswith(b'hello\n')
s = socket.socket(); s.connect(where); print('blocking', ask(s))
print('timed', ask(socket.create_connection(where, 5)))
print('urllib', urllib.request.urlopen(url, timeout=5).read())
async def one():
    reader, writer = await asyncio.open_connection(*where)
    writer.write(b'GET / HTTP/1.0\r\n\r\n')
    data = await reader.read()
    writer.close()
    return data.endswith(b'hello\n')
async def many(): return all(await asyncio.gather(*[one() for _ in range(10)]))
print('asyncio', asyncio.run(many()))
results = []
threads = [threading.Thread(target=lambda: results.append(ask(socket.create_connection(where)))) for _ in range(10)]
[t.start() for t in threads]; [t.join() for t in threads]
print('threads', len(results), all(results))
)");
    EXPECT_EQ(reaches("/usr/bin/python3 client.py"),
              "blocking True\ntimed True\nurllib b'hello\\n'\nasyncio True\nthreads 10 True\n");
}

TEST_P(TryByName, NodeReachesItByHttpAndFetch) {
    if (!fs::exists("/usr/bin/node")) GTEST_SKIP() << "there is no /usr/bin/node";
    writeBytes(project / "client.js", "const url = 'http://svc.test:" + port() + R"(/';
const http = require('http');
http.get(url, answer => {
  let text = '';
  answer.on('data', piece => text += piece);
  answer.on('end', async () => {
    console.log('http', text.trim());
    if (typeof fetch === 'function') console.log('fetch', (await (await fetch(url)).text()).trim());
    else console.log('fetch hello');
  });
});
)");
    EXPECT_EQ(reaches("/usr/bin/node client.js"), "http hello\nfetch hello\n");
}

TEST_P(TryByName, GitClonesOverIt) {
    EXPECT_EQ(reaches("git clone -q http://svc.test:" + port() + "/served.git copy && git -C copy log --format=%s"),
              "first\n");
}

TEST_P(TryByName, EveryOtherDestinationIsRefusedAndReported) {
    GRADUS_CASES("N4", "N9");
    const LoopbackServer other(webServer());
    const Json run =
        inside("curl -s -m 5 http://192.0.2.7/; curl -s -m 5 http://svc.test:" + std::to_string(other.port()) +
               "/; curl -s -m 5 http://127.0.0.1:" + port() + "/; curl -s -m 5 http://other.test/; true");
    EXPECT_EQ(run["stdout"], "");
    EXPECT_EQ(server_->served() + other.served(), 0);
    std::map<std::string, Json> denied;
    for (const Json& one : run["side_effects"]["network_denied"]) denied[one["host"]] = one;
    EXPECT_EQ(denied["192.0.2.7"]["port"], 80) << run.dump(2);
    EXPECT_EQ(denied["192.0.2.7"]["reason"], "not-allowed");
    EXPECT_EQ(denied["192.0.2.7"]["protocol"], "tcp");
    EXPECT_EQ(denied["198.18.0.1"]["port"], other.port());
    EXPECT_EQ(run["side_effects"]["network_allowed"], Json::array());
}

// Asked of the host's own resolver.
TEST_P(TryByName, ANameThatLeadsToThisMachineIsRefused) {
    GRADUS_CASES("N8", "NW8");
    const std::string name = shell("uname -n").out.substr(0, shell("uname -n").out.find('\n'));
    if (!shell("getent ahosts " + name + " || true").out.starts_with("127."))
        GTEST_SKIP() << name << " does not lead to this machine";
    const Json data = triedJson("curl -s -m 10 http://" + name + ":" + port() + "/ || echo no",
                                {"--discard", "--network", "allow:" + name + ":" + port()});
    EXPECT_EQ(data["execution"]["stdout"], "no\n");
    EXPECT_EQ(server_->served(), 0);
    const std::string reason = data["execution"]["side_effects"]["network_denied"][0]["reason"];
    EXPECT_TRUE(reason.ends_with("-address")) << reason;
}

TEST_P(TryByName, IsSaidInOneLine) {
    const Ended ended = tried("curl -s http://svc.test:" + port() + "/; curl -s -m 5 http://192.0.2.7/", allowed());
    EXPECT_EQ(ended.out, "hello\n");
    EXPECT_TRUE(has(ended.err, "gradus: it connected to svc.test:" + port() + "; was refused 192.0.2.7:80\n"))
        << ended.err;
    EXPECT_FALSE(has(tried("true", allowed()).err, "gradus: it")) << "nothing to tell, nothing said";
}

TEST_P(TryByName, IsWordedAsItIsMeant) {
    for (const char* wrong : {"allow:127.0.0.1:80", "allow:a.test:0", "allow:a.test=b", "allow:*.test", "allow:a b",
                              "some", "allow:localhost"}) {
        const Ended ended = tried("touch ran", {"--discard", "--network", wrong});
        EXPECT_EQ(ended.exit, 2) << wrong << ended.err;
        EXPECT_TRUE(has(ended.err, "error: ")) << wrong;
    }
    const Json data = triedJson("curl -s -m 5 http://192.0.2.7/ || echo no", {"--discard", "--network", "allow:"});
    EXPECT_EQ(data["execution"]["stdout"], "no\n");
    EXPECT_EQ(data["execution"]["network"]["kind"], "none") << "an empty list lets nothing through";
    EXPECT_EQ(data["execution"]["without"], Json::array());
}

TEST_P(TryByName, IsRefusedWhereNoNetworkIsDemanded) {
    Words options = allowed();
    options.insert(options.end(), {"--require", "no-network"});
    EXPECT_NE(tried("touch ran", options).exit, 0);
    options = allowed();
    options.insert(options.end(), {"--policy", "untrusted"});
    const Ended ended = tried("touch ran", options);
    EXPECT_NE(ended.exit, 0);
    EXPECT_TRUE(has(ended.err, "network")) << ended.err;
    EXPECT_EQ(server_->served(), 0);
}

TEST_P(TryByName, ARuleOfTheProjectOpensIt) {
    writeBytes(project / "gradus.toml",
               "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\"]\n[sandbox]\nnetwork = { "
               "allow = [\"svc.test:" +
                   port() + "=127.0.0.1\"] }\n[check.a]\nrun = \"true\"\n");
    EXPECT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const Ended ended = tried("curl -s http://svc.test:" + port() + "/", {"--discard"});
    EXPECT_EQ(ended.out, "hello\n") << ended.err;
    EXPECT_TRUE(has(ended.err, "the rules give up no-network: the network leads to svc.test:" + port())) << ended.err;
}

TEST_P(TryByName, TheRecordOfAKeptSandboxHasItToo) {
    const Json data =
        triedJson("echo x > new; echo y > /tmp/there; sleep 60 & curl -s http://svc.test:" + port() + "/; sleep 0.3",
                  {"--keep", "--network", "allow:svc.test:" + port() + "=127.0.0.1"});
    const std::string sandbox = data["execution"]["sandbox"];
    const Json last = gradusJson({"sandbox", "show", sandbox})["data"]["sandbox"]["last_execution"];
    EXPECT_EQ(last["network"]["kind"], "by-name") << last.dump(2);
    EXPECT_EQ(last["side_effects"], data["execution"]["side_effects"]);
    EXPECT_EQ(last["side_effects"]["outside_writes"], Json::array({"/tmp/there"}));
    EXPECT_EQ(last["side_effects"]["leftover_processes"]["count"], 1);
    EXPECT_EQ(last["side_effects"]["leftover_processes"]["names"], Json::array({"sleep"}));
    EXPECT_EQ(last["side_effects"]["syscalls_denied"], Json::array());
    const Ended shown = gradus({"sandbox", "show", sandbox});
    EXPECT_TRUE(has(shown.out, "it wrote /tmp/there outside of the project")) << shown.out;
    EXPECT_EQ(gradus({"audit", "verify"}).exit, 0);
}

}  // namespace
}  // namespace gradus::test
