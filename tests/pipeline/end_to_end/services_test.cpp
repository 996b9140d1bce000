// Services beside commands: real servers, real data, one port in many sandboxes.

#include "tests/pipeline/end_to_end/sandbox_program.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = R"([pipeline]
name = "shop"
stages = ["sandbox", "local"]
)";

class Services : public SandboxProgramTest {
  protected:
    void rulesOf(const std::string& text) {
        writeBytes(project / "gradus.toml", std::string(kBegin) + text);
        if (GetParam() == As::kOrdinaryUser)
            start({"chown", "41235:41235", (project / "gradus.toml").native()})->wait();
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.err;
    }
    void file(const std::string& name, std::string_view bytes) {
        writeBytes(project / name, bytes);
        if (GetParam() == As::kOrdinaryUser) start({"chown", "-R", "41235:41235", project.native()})->wait();
    }
    Ended triedWith(const std::string& script, Words options = {"--discard", "--service", "db"}) {
        return tried(script, std::move(options));
    }
};
INSTANTIATE_TEST_SUITE_P(Users, Services, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

// A server of our own: answers every connection with what its data directory holds, and adds a line to it.
constexpr std::string_view kServer = R"(import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[1] + '/clean', 'w').write('yes'), sys.exit(0)))
listener = socket.create_server(('127.0.0.1', 7000))
print('listening', flush=True)
while True:
    client, _ = listener.accept()
    with open(sys.argv[1] + '/lines', 'a+') as f:
        f.seek(0)
        text = f.read()
        word = client.recv(100).decode()
        if word: f.write(word)
    client.sendall(text.encode())
    client.close()
)";
constexpr std::string_view kAsk =
    "import socket,sys; s=socket.create_connection(('127.0.0.1',7000)); s.sendall(sys.argv[1].encode()); "
    "print(s.recv(1000).decode(),end='')";

std::string ask(const std::string& word) { return "python3 -c \"" + std::string(kAsk) + "\" " + word; }

constexpr std::string_view kOwnServer = R"(
[service.db]
run = "python3 server.py data"
data = "data"
prepare = ["sh", "-c", "cat seed > data/lines; date +%N >> data/made"]
inputs = ["seed"]
port = 7000
)";

TEST_P(Services, AreReadyBeforeTheCommandAndStoppedAfterIt) {
    file("server.py", kServer);
    file("seed", "seeded;");
    rulesOf(std::string(kOwnServer));
    const std::string before = fingerprint();
    const Ended ended = triedWith(ask("hello") + "; echo; " + ask("again"), {"--discard", "--json", "--service", "db"});
    const Json data = ended.json()["data"];
    EXPECT_EQ(data["execution"]["stdout"], "seeded;\nseeded;hello") << ended.out;
    EXPECT_EQ(data["execution"]["exit_code"], 0);
    const Json& service = data["execution"]["services"][0];
    EXPECT_EQ(service["name"], "db");
    EXPECT_EQ(service["ready"], true);
    EXPECT_EQ(service["status"], 0) << "stopped in order";
    EXPECT_EQ(service["forced"], false);
    EXPECT_EQ(service["log"], "listening\n");
    EXPECT_EQ(data["changes"], Json::array()) << "its data is no part of a change";
    EXPECT_EQ(fingerprint(), before);
    EXPECT_EQ(triedWith("exit 7").exit, 7);
    EXPECT_EQ(triedWith("kill -TERM $$").exit, 128 + SIGTERM);
}

TEST_P(Services, PrepareRunsOnceForOneDefinitionAndAgainForOthers) {
    file("server.py", kServer);
    file("seed", "one;");
    rulesOf(std::string(kOwnServer));
    const std::string made = triedWith("cat data/made").out;
    EXPECT_FALSE(made.empty());
    EXPECT_EQ(triedWith("cat data/made; echo spoilt > data/made").out, made);
    EXPECT_EQ(triedWith("cat data/made").out, made) << "every sandbox has its own copy";
    file("other", "not an input\n");
    EXPECT_EQ(triedWith("cat data/made").out, made);
    file("seed", "two;");
    const std::string again = triedWith("cat data/made").out;
    EXPECT_NE(again, made) << "an input changed";
    EXPECT_EQ(triedWith(ask("x")).out, "two;");
    file("seed", "one;");
    EXPECT_EQ(triedWith("cat data/made").out, made) << "as it was before";
}

TEST_P(Services, ManySandboxesUseOnePortAtOnceEachWithItsOwnData) {
    file("server.py", kServer);
    file("seed", "seeded;");
    rulesOf(std::string(kOwnServer));
    std::vector<std::unique_ptr<Running>> running;
    for (int i = 0; i < 3; ++i)
        running.push_back(
            startCommand({program(), "try", "--discard", "--service", "db", "--", "sh", "-c",
                          ask("first" + std::to_string(i)) + "; echo; echo up; sleep 1; " + ask("second")}));
    for (int i = 0; i < 3; ++i) {
        const Ended ended = running[static_cast<std::size_t>(i)]->wait();
        EXPECT_EQ(ended.out, "seeded;\nup\nseeded;first" + std::to_string(i)) << ended.err;
    }
}

TEST_P(Services, AKeptSandboxGoesOnWithItsDataAndForksHaveTheirOwn) {
    file("server.py", kServer);
    file("seed", "");
    rulesOf("[sandbox]\nservices = [\"db\"]\n" + std::string(kOwnServer));
    ASSERT_EQ(gradus({"sandbox", "new", "--name", "one"}).exit, 0);
    const auto say = [&](const std::string& sandbox, const std::string& word) {
        return gradus({"sandbox", "exec", sandbox, "--", "sh", "-c", ask(word)}).out;
    };
    EXPECT_EQ(say("one", "a"), "");
    EXPECT_EQ(say("one", "b"), "a");
    EXPECT_EQ(gradus({"sandbox", "snapshot", "one", "ab"}).exit, 0);
    EXPECT_EQ(gradus({"sandbox", "fork", "one", "--name", "two"}).exit, 0);
    EXPECT_EQ(say("two", "x"), "ab");
    EXPECT_EQ(say("one", "c"), "ab");
    EXPECT_EQ(say("two", "y"), "abx");
    EXPECT_EQ(gradus({"sandbox", "restore", "one", "ab"}).exit, 0);
    EXPECT_EQ(say("one", "d"), "ab");
    const Json kept = triedJson(ask("k"), {"--keep"});
    EXPECT_EQ(say(kept["sandbox"]["id"], "l"), "k");
    EXPECT_EQ(gradus({"gc"}).exit, 0);
    EXPECT_EQ(say("two", "z"), "abxy") << "what a kept one lies on is not collected";
}

// As root its layers lie in an image: what `prepare` is to see lies there as well.
TEST_P(Services, ASandboxWithADiskLimitHasThemOverWhatWasChangedInIt) {
    file("server.py", kServer);
    file("seed", "seeded;");
    rulesOf("[sandbox]\nservices = [\"db\"]\n" + std::string(kOwnServer));
    ASSERT_EQ(gradus({"sandbox", "new", "--name", "one"}).exit, 0);
    const auto run = [&](const std::string& script) {
        const Ended ended = gradus({"sandbox", "exec", "one", "--disk", "16M", "--", "sh", "-c", script});
        EXPECT_EQ(ended.exit, 0) << ended.err;
        return ended.out;
    };
    EXPECT_EQ(run(ask("a") + "; printf 'changed inside;' > seed"), "seeded;");
    EXPECT_EQ(run(ask("b")), "changed inside;") << "an input changed, so its data was made anew";
    EXPECT_EQ(run(ask("c")), "changed inside;b");
}

TEST_P(Services, ChecksHaveThem) {
    file("server.py", kServer);
    file("seed", "seeded;");
    rulesOf(std::string(kOwnServer) + "[check.asks]\nrun = [\"python3\", \"-c\", \"\"\"" + std::string(kAsk) +
            "\"\"\", \"word\"]\nservices = [\"db\"]\n");
    const Ended ended = gradus({"check"});
    EXPECT_EQ(ended.exit, 0) << ended.err << ended.out;
    EXPECT_EQ(gradus({"promote"}).exit, 0);
}

TEST_P(Services, OneThatDiesEarlyIsToldWithTheEndOfItsLog) {
    rulesOf("[service.db]\nrun = [\"sh\", \"-c\", \"echo cannot open the vault; exit 4\"]\nport = 7000\n");
    const Ended ended = triedWith("echo never");
    EXPECT_EQ(ended.exit, 125);
    EXPECT_EQ(ended.out, "");
    EXPECT_TRUE(has(ended.err, "service db")) << ended.err;
    EXPECT_TRUE(has(ended.err, "cannot open the vault")) << ended.err;
    const Json data = triedJson("echo never", {"--discard", "--service", "db"});
    EXPECT_EQ(data["execution"]["verdict"], "setup-failed");
    rulesOf("[service.db]\nrun = \"no-such-server\"\nport = 7000\n");
    EXPECT_TRUE(has(triedWith("true").err, "No such file or directory"));
}

TEST_P(Services, OneThatIsNeverReadyIsGivenUp) {
    rulesOf(
        "[service.db]\nrun = [\"sh\", \"-c\", \"echo waiting; exec sleep 60\"]\nport = 7000\nstart-timeout = "
        "\"300ms\"\n");
    const Ended ended = triedWith("echo never");
    EXPECT_EQ(ended.exit, 125);
    EXPECT_TRUE(has(ended.err, "not ready within 300ms")) << ended.err;
    EXPECT_TRUE(has(ended.err, "waiting")) << ended.err;
}

TEST_P(Services, ReadyIsACommandALineOrAPort) {
    rulesOf(
        "[service.db]\nrun = [\"sh\", \"-c\", \"sleep 0.2; echo now I am ready; touch /tmp/there; exec sleep 60\"]\n"
        "ready-log = \"now I am\"\nready = \"test -e /tmp/there\"\n");
    EXPECT_EQ(triedWith("test -e /tmp/there && echo yes").out, "yes\n");
    rulesOf("[service.db]\nrun = \"sleep 60\"\nready = \"false\"\nstart-timeout = \"300ms\"\n");
    EXPECT_EQ(triedWith("true").exit, 125);
}

TEST_P(Services, OneThatWillNotEndIsKilledAndOneThatEndsByItselfIsTold) {
    rulesOf(
        "[service.db]\nrun = [\"sh\", \"-c\", \"trap '' TERM; echo up; while :; do sleep 0.1; done\"]\n"
        "ready-log = \"up\"\nstop-timeout = \"200ms\"\n");
    const Ended stubborn = triedWith("echo done");
    EXPECT_EQ(stubborn.exit, 0);
    EXPECT_TRUE(has(stubborn.err, "service db had to be killed")) << stubborn.err;
    rulesOf("[service.db]\nrun = \"sleep 0.1\"\n");
    const Ended early = triedWith("sleep 0.5");
    EXPECT_EQ(early.exit, 0);
    EXPECT_TRUE(has(early.err, "service db ended by itself")) << early.err;
}

TEST_P(Services, AFailedPrepareSaysWhyAndIsTriedAgain) {
    rulesOf("[service.db]\nrun = \"sleep 60\"\ndata = \"data\"\nprepare = [\"sh\", \"-c\", \"cat schema.sql\"]\n");
    file("schema.sql", "create table t\n");
    const Ended ended = triedWith("true");
    EXPECT_EQ(ended.exit, 125);
    EXPECT_TRUE(has(ended.err, "schema.sql: No such file")) << ended.err;
    EXPECT_TRUE(has(ended.err, "nothing of the project but its `inputs`")) << ended.err;
    rulesOf(
        "[service.db]\nrun = \"sleep 60\"\ndata = \"data\"\nprepare = [\"sh\", \"-c\", \"sleep 60 & echo > "
        "data/x\"]\n");
    EXPECT_TRUE(has(triedWith("true").err, "not at rest"));
}

TEST_P(Services, DataAtRestIsCopiedAndWhatBecomesOfItIsNotSeenInside) {
    rulesOf("[service.db]\nrun = \"sleep 60\"\ndata = \"data\"\n");
    file("data/rows", "at rest\n");
    const auto running = startCommand(
        {program(), "try", "--discard", "--service", "db", "--", "sh", "-c", "echo up; sleep 1.5; cat data/rows"});
    waitForUp(*running);
    file("data/rows", "written since\n");
    EXPECT_EQ(running->wait().out, "up\nat rest\n");
    EXPECT_EQ(triedWith("cat data/rows").out, "written since\n") << "another sandbox has what is there by then";
}

TEST_P(Services, DataOfALiveServerIsRefusedWithTheReason) {
    rulesOf("[service.db]\nrun = \"sleep 60\"\ndata = \"data\"\n");
    file("data/base/1", "rows\n");
    EXPECT_EQ(triedWith("cat data/base/1; echo mine > data/base/1").out, "rows\n");
    EXPECT_EQ(bytesOf(project / "data/base/1"), "rows\n");
    // A process that has a file open for writing.
    auto writer = startCommand({"sh", "-c", "exec 9>>data/base/1; echo up; exec sleep 60"});
    waitForUp(*writer);
    const Ended open = triedWith("true");
    EXPECT_EQ(open.exit, 7);
    EXPECT_TRUE(has(open.err, "is in use")) << open.err;
    EXPECT_TRUE(has(open.err, "base/1")) << open.err;
    writer->stop(SIGKILL);
    // A pid file whose process lives.
    auto holder = startCommand({"sh", "-c", "echo $$ > data/postmaster.pid; echo up; exec sleep 60"});
    waitForUp(*holder);
    EXPECT_TRUE(has(triedWith("true").err, "postmaster.pid names"));
    holder->stop(SIGKILL);
    EXPECT_EQ(triedWith("cat data/base/1").out, "rows\n") << "a stale one is no obstacle";
    // A lock.
    auto locker = startCommand({"flock", "data/base/1", "sh", "-c", "echo up; exec sleep 5"});
    waitForUp(*locker);
    EXPECT_TRUE(has(triedWith("true").err, "base/1"));
    locker->stop(SIGKILL);
}

// A change can put a link into its place, which no rule named.
TEST_P(Services, DataIsNeverCopiedThroughALink) {
    file("data/key", "own\n");
    file("behind/data/key", "through a link\n");
    writeBytes(scratch.path() / "elsewhere/key", "somebody else's\n");
    rulesOf("[service.db]\nrun = \"sleep 60\"\ndata = \"data\"\n");
    EXPECT_EQ(triedWith("cat data/key").out, "own\n");
    fs::remove_all(project / "data");
    fs::create_symlink(scratch.path() / "elsewhere", project / "data");
    const Ended linked = triedWith("cat data/key");
    EXPECT_NE(linked.exit, 0);
    EXPECT_FALSE(has(linked.out, "somebody")) << linked.out;
    EXPECT_TRUE(has(linked.err, "is a link, or lies behind one")) << linked.err;
    rulesOf("[service.db]\nrun = \"sleep 60\"\ndata = \"way/data\"\n");
    fs::create_symlink("behind", project / "way");
    EXPECT_TRUE(has(triedWith("cat way/data/key").err, "is a link, or lies behind one"));
}

TEST_P(Services, DataIsNothingThatNoSandboxShows) {
    writeBytes(home / ".ssh/id", "secret\n");
    for (const std::string& place : {home.native() + "/.ssh", home.native(), std::string("/etc/ssl/private")}) {
        rulesOf("[service.db]\nrun = \"sleep 60\"\ndata = \"" + place + "\"\n");
        const Ended ended = triedWith("cat '" + place + "/id'");
        EXPECT_NE(ended.exit, 0);
        EXPECT_EQ(ended.out, "");
        EXPECT_TRUE(has(ended.err, "which no sandbox shows")) << ended.err;
    }
}

TEST_P(Services, CopyingDataChangesNothingOfIt) {
    rulesOf("[service.db]\nrun = \"sleep 60\"\ndata = \"data\"\n");
    file("data/closed/rows", "rows\n");
    shell("chmod 0555 data/closed");
    const auto looks = [&] { return shell("find data -printf '%P %m %C@\\n' | sort").out; };
    const std::string before = looks();
    EXPECT_EQ(triedWith("cat data/closed/rows; stat -c %a data/closed").out, "rows\n555\n");
    EXPECT_EQ(looks(), before);
    shell("chmod 0755 data/closed; echo > data/unreadable; chmod 0200 data/unreadable");
    const Ended ended = triedWith("true");
    if (GetParam() == As::kOrdinaryUser) {
        EXPECT_NE(ended.exit, 0);
        EXPECT_TRUE(has(ended.err, "unreadable")) << ended.err;
    }
    EXPECT_EQ(shell("stat -c %a data/unreadable").out, "200\n");
}

TEST_P(Services, WhatAKilledPrepareLeftBehindIsCollected) {
    file("server.py", kServer);
    file("seed", "seeded;");
    rulesOf(std::string(kOwnServer));
    const std::string made = triedWith("cat data/made").out;
    const std::string key(64, 'a');
    const std::string place = stateDirectory().root / "sandboxes/data";
    shell("cd '" + place + "' && mkdir -p inputs-abcdef/tree inputs-abcdef/work " + key + ".new/data && touch " + key +
          ".lock inputs-abcdef/tree/x " + key + ".new/data/half");
    EXPECT_EQ(shell("ls '" + place + "' | grep -vc '^nothing'").out, "4\n") << "no lock is left of what was made";
    EXPECT_EQ(gradus({"gc"}).exit, 0);
    EXPECT_EQ(shell("ls '" + place + "' | grep -vc '^nothing'").out, "1\n") << shell("ls '" + place + "'").out;
    EXPECT_EQ(triedWith("cat data/made").out, made) << "what is whole stays";
}

// What one command may fetch is no evidence for another that may not.
TEST_P(Services, PrepareHasTheNetworkOfItsCommandAndIsOnRecordWithIt) {
    file("server.py", kServer);
    file("seed", "seeded;");
    rulesOf(std::string(kOwnServer));
    const std::string without = triedWith("cat data/made").out;
    const Words byName{"--discard", "--service", "db", "--network", "allow:shop.test:80=127.0.0.1"};
    const std::string with = triedWith("cat data/made", byName).out;
    EXPECT_FALSE(with.empty());
    EXPECT_NE(with, without);
    EXPECT_EQ(triedWith("cat data/made", byName).out, with);
    EXPECT_EQ(triedWith("cat data/made").out, without);
    const std::string events = gradus({"audit", "query", "--json"}).out;
    std::size_t count = 0;
    for (std::size_t at = 0; (at = events.find("shop.test:80=127.0.0.1", at)) != std::string::npos; ++at) ++count;
    EXPECT_EQ(count, 3U) << "of `prepare` and of the two commands:" << events;
}

TEST_P(Services, WhatAskingForThemWronglySays) {
    EXPECT_TRUE(has(triedWith("true").err, "no rules are trusted"));
    rulesOf(std::string(kOwnServer));
    EXPECT_TRUE(has(tried("true", {"--discard", "--service", "bd"}).err, "no service 'bd'"));
    EXPECT_TRUE(has(tried("true", {"--discard", "--service", "db", "--network", "host"}).err, "network of their own"));
    writeBytes(project / "gradus.toml", std::string(kBegin) + "[sandbox]\nservices = [\"typo\"]\n");
    EXPECT_TRUE(has(gradus({"policy", "lint"}).out + gradus({"policy", "lint"}).err, "unknown service 'typo'"));
}

/// redis-check-rdb is the server's own program under another name: no daemon has to be installed for it.
TEST_P(Services, RedisFromOneTemplateOnOnePortInTwoSandboxes) {
    if (!fs::exists("/usr/bin/redis-cli")) GTEST_SKIP() << "redis-tools is not installed";
    fs::create_symlink("/usr/bin/redis-check-rdb", project / "redis-server");
    rulesOf(R"([service.db]
run = "./redis-server --port 6379 --dir data --appendonly yes"
data = "data"
inputs = ["redis-server"]
prepare = ["sh", "-c", "./redis-server --port 6379 --dir data --appendonly yes --daemonize yes && until redis-cli ping; do sleep 0.05; done && redis-cli set k template && redis-cli shutdown && while redis-cli ping; do sleep 0.05; done"]
ready = ["sh", "-c", "redis-cli get k | grep -q template"]
)");
    std::vector<std::unique_ptr<Running>> running;
    for (const char* word : {"left", "right"})
        running.push_back(
            startCommand({program(), "try", "--discard", "--service", "db", "--", "sh", "-c",
                          std::string("redis-cli get k; redis-cli set k ") + word + "; sleep 1; redis-cli get k"}));
    const Ended left = running[0]->wait();
    const Ended right = running[1]->wait();
    EXPECT_EQ(left.out, "template\nOK\nleft\n") << left.err;
    EXPECT_EQ(right.out, "template\nOK\nright\n") << right.err;
}

TEST_P(Services, PostgresFromOneTemplateOnOnePortInTwoSandboxes) {
    const fs::path programs = "/usr/lib/postgresql/15/bin";
    if (!fs::exists(programs / "postgres")) GTEST_SKIP() << "postgresql is not installed";
    // It refuses root, and a user that the machine has no name for.
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make the project nobody's";
    const bool byNobody = GetParam() == As::kOrdinaryUser;
    const fs::path theirs = byNobody ? scratch.path() : project;
    start({"chown", "-R", "nobody:nogroup", theirs.native()})->wait();
    start({"chmod", "755", scratch.path().native()})->wait();
    const auto begin = [&](Words words) {
        const Words prefix{"setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"};
        if (byNobody) words.insert(words.begin(), prefix.begin(), prefix.end());
        return start(words);
    };
    variables["PATH"] = programs.native() + ":" + variables["PATH"];
    writeBytes(project / "gradus.toml", std::string(kBegin) + R"([service.db]
run = "postgres -D data -k /tmp -c listen_addresses=127.0.0.1 -c fsync=off"
data = "data"
prepare = ["sh", "-c", "initdb -D data -U app --no-sync -A trust && pg_ctl -D data -w -o '-k /tmp' start && psql -h /tmp -U app -d postgres -c 'create table t (x text); ' -c \"insert into t values ('template')\" && pg_ctl -D data -w stop"]
ready = "pg_isready -h 127.0.0.1"
start-timeout = "60s"
)");
    ASSERT_EQ(begin({program(), "trust", "--yes"})->wait().exit, 0);
    std::vector<std::unique_ptr<Running>> running;
    const std::string psql = "psql -h 127.0.0.1 -U app -d postgres -At ";
    for (const char* word : {"left", "right"})
        running.push_back(
            begin({program(), "try", "--discard", "--service", "db", "--", "sh", "-c",
                   psql + "-c \"insert into t values ('" + word + "')\"; sleep 1; " + psql + "-c 'select x from t'"}));
    const Ended left = running[0]->wait();
    const Ended right = running[1]->wait();
    EXPECT_EQ(left.out, "INSERT 0 1\ntemplate\nleft\n") << left.err;
    EXPECT_EQ(right.out, "INSERT 0 1\ntemplate\nright\n") << right.err;
}

}  // namespace
}  // namespace gradus::test
