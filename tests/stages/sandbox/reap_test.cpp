// What is left when owners die: exactly what is proven dead is taken away.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <fstream>
#include <random>

#include "stages/sandbox/layers.h"
#include "stages/sandbox/owner.h"
#include "store/sandbox_writer.h"
#include "tests/stages/sandbox/sandboxes_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// The program sandbox_owner, killed at the latest with this.
class OwnerProcess {
  public:
    OwnerProcess(const StateDirectory& state, const fs::path& project, std::string mode, std::string argument) {
        int ends[2];
        EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        output_ = FileDescriptor(ends[0]);
        const FileDescriptor write(ends[1]);
        std::string program = GRADUS_SANDBOX_OWNER;
        std::string root = state.root;
        std::string directory = project;
        char* words[] = {program.data(), root.data(), directory.data(), mode.data(), argument.data(), nullptr};
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, write.get(), 1);
        char* environment[] = {nullptr};
        EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), &actions, nullptr, words, environment), 0);
        posix_spawn_file_actions_destroy(&actions);
    }
    OwnerProcess(const OwnerProcess&) = delete;
    OwnerProcess& operator=(const OwnerProcess&) = delete;
    ~OwnerProcess() { kill(); }

    /// Waits until it has said the word; false if it ended first.
    bool hears(const std::string& word) {
        while (said_.find(word) == std::string::npos) {
            char buffer[4096];
            const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
            if (got <= 0) return false;
            said_.append(buffer, static_cast<std::size_t>(got));
        }
        return true;
    }
    /// Listens for so long.
    void listen(std::chrono::microseconds most) {
        const auto deadline = std::chrono::steady_clock::now() + most;
        while (true) {
            const auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
            pollfd event{output_.get(), POLLIN, 0};
            if (left.count() <= 0 || ::poll(&event, 1, static_cast<int>(left.count())) <= 0) return;
            char buffer[4096];
            const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
            if (got <= 0) return;
            said_.append(buffer, static_cast<std::size_t>(got));
        }
    }
    const std::string& said() const { return said_; }
    pid_t pid() const { return pid_; }
    /// Without waiting for it: it stays as a zombie.
    void strike() const { ::kill(pid_, SIGKILL); }
    void kill() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }

  private:
    pid_t pid_ = -1;
    FileDescriptor output_;
    std::string said_;
};

class ReapTest : public SandboxesTest {
  protected:
    void TearDown() override {
        awaitOrphans();
        SandboxesTest::TearDown();
    }
    // Jails of a killed owner end by themselves, and are then ours to wait for.
    void awaitOrphans() {
        while (::waitpid(-1, nullptr, 0) > 0) continue;
    }
    void SetUp() override { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

    SandboxRecord recordWithOwner(const ProcessIdentity& owner) {
        SandboxRecord record;
        store().write([&](Writer& w) {
            const ActorId by = w.actor({ActorKind::kAgent, "other"});
            SandboxWriter writer(w, by);
            SandboxDraft draft;
            draft.project = w.project(identityOfProject(), by);
            draft.owner = owner;
            record = writer.create(draft);
            writer.start({record.id, owner, "namespaces", {}, {"true"}, "/"});
        });
        return record;
    }
    ProjectIdentity identityOfProject() {
        struct stat info {};
        ::stat(project_.path().c_str(), &info);
        return {project_.path(), static_cast<std::int64_t>(info.st_dev), static_cast<std::int64_t>(info.st_ino)};
    }
};

TEST_F(ReapTest, AfterAKilledOwnerExactlyItsSandboxesGo) {
    GRADUS_CASES("L2", "CR14");
    const SandboxRecord kept = createKept("kept");
    exec(kept.id, "echo x > f");
    OwnerProcess foreign(state_, project_.path(), "run", "2");
    ASSERT_TRUE(foreign.hears("ready"));
    OwnerProcess victim(state_, project_.path(), "run", "10");
    ASSERT_TRUE(victim.hears("ready"));
    EXPECT_EQ(records().living(SandboxKind::kTransient).size(), 12U);
    EXPECT_TRUE(sandboxes().collect().reaped.empty()) << "all owners live";
    victim.kill();
    const CollectReport report = sandboxes().collect();
    EXPECT_EQ(report.reaped.size(), 10U);
    EXPECT_TRUE(sandboxes().collect().reaped.empty());
    EXPECT_EQ(records().living(SandboxKind::kTransient).size(), 2U) << "the foreign ones are untouched";
    EXPECT_EQ(records().running().size(), 2U);
    EXPECT_EQ(exec(kept.id, "cat f"), "x\n") << "kept ones survive";
    foreign.kill();
    EXPECT_EQ(sandboxes().reap().reaped.size(), 2U);
    for (std::int64_t id = 2; id <= 13; ++id) EXPECT_EQ(records().sandbox(id)->ended, SandboxEnd::kReaped) << id;
    expectConsistent();
}

TEST_F(ReapTest, TheLayersOfChangesGoWithTheirKilledOwner) {
    OwnerProcess victim(state_, project_.path(), "over", "3");
    ASSERT_TRUE(victim.hears("ready"));
    EXPECT_EQ(layerDirectories(), 3U);
    EXPECT_TRUE(sandboxes().collect().reaped.empty());
    EXPECT_EQ(layerDirectories(), 3U) << "its owner lives";
    victim.kill();
    awaitOrphans();
    EXPECT_EQ(sandboxes().collect().reaped.size(), 3U);
    EXPECT_EQ(layerDirectories(), 0U);
    expectConsistent();
}

TEST_F(ReapTest, WhatAKilledOwnerLeftRunningStillHoldsItsSandbox) {
    // The owner goes by the real clock.
    CreateRequest request;
    request.project = project_.path();
    request.lifetime = Milliseconds(std::int64_t{100} * 365 * 24 * 3600 * 1000);
    const SandboxRecord kept = sandboxes().create(request);
    for (int round = 0; round < 10; ++round) {
        OwnerProcess victim(state_, project_.path(), "write", std::to_string(kept.id));
        ASSERT_TRUE(victim.hears("ready"));
        victim.strike();
        const std::string name = "n" + std::to_string(round);
        const SnapshotRecord snapshot = sandboxes().snapshot(kept.id, name, {10s, {}});
        const fs::path log = layer(snapshot.layer) / "upper" / "log";
        const auto frozen = fs::file_size(log);
        victim.kill();
        awaitOrphans();
        EXPECT_EQ(fs::file_size(log), frozen) << "a process went on writing into a layer that was frozen";
    }
    EXPECT_EQ(exec(kept.id, "tail -n1 log"), "line\n");
}

TEST_F(ReapTest, AnOwnerThatNobodyWaitedForIsDead) {
    OwnerProcess victim(state_, project_.path(), "run", "1");
    ASSERT_TRUE(victim.hears("ready"));
    victim.strike();
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(victim.pid()), &info, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(sandboxes().reap().reaped.size(), 1U);
}

TEST_F(ReapTest, OnlyWhatIsProvenDeadIsReaped) {
    GRADUS_CASES("CR12");
    const ProcessIdentity me = thisProcess();
    EXPECT_FALSE(isProvenDead(me));
    ProcessIdentity reused = me;  // the pid was given out again: to us
    reused.startTime -= 1;
    EXPECT_TRUE(isProvenDead(reused));
    ProcessIdentity otherBoot = me;
    otherBoot.bootId = "11111111-2222-3333-4444-555555555555";
    EXPECT_TRUE(isProvenDead(otherBoot));
    ProcessIdentity elsewhere = me;  // a container's pid means nothing here
    elsewhere.pidNamespace += 1;
    elsewhere.pid = 4'000'000;
    EXPECT_FALSE(isProvenDead(elsewhere));
    ProcessIdentity absent = me;
    absent.pid = 4'194'305;  // beyond the largest there is
    EXPECT_TRUE(isProvenDead(absent));

    const SandboxRecord mine = recordWithOwner(me);
    const SandboxRecord theirs = recordWithOwner(reused);
    const SandboxRecord far = recordWithOwner(elsewhere);
    const SandboxRecord old = recordWithOwner(otherBoot);
    EXPECT_EQ(sandboxes().collect().reaped, (std::vector{theirs.id, old.id}));
    EXPECT_FALSE(records().sandbox(mine.id)->ended);
    EXPECT_FALSE(records().sandbox(far.id)->ended);
    EXPECT_EQ(records().execution(2)->state, ExecutionState::kLost);
    EXPECT_EQ(records().execution(1)->state, ExecutionState::kRunning);
    EXPECT_EQ(::kill(::getpid(), 0), 0) << "nobody was killed for having a pid";
}

TEST_F(ReapTest, DirectoriesThatNoRowNamesGo) {
    GRADUS_CASES("CR14");
    const SandboxRecord kept = createKept();
    exec(kept.id, "echo x > f");
    const Layers layers(root(), store().storeId());
    layers.make(4711, project_.path());
    std::ofstream(layers.lockFile(4711)) << "1\n";
    fs::create_directories(root() / "trash" / "l9.1.1.1" / "upper" / "shut");
    fs::permissions(root() / "trash" / "l9.1.1.1" / "upper" / "shut", fs::perms::none);
    fs::create_directory(root() / "layers" / "notes");  // not a name of ours: not ours to remove
    const CollectReport report = sandboxes().collect();
    EXPECT_EQ(report.layers, 1U);
    EXPECT_FALSE(fs::exists(layers.lockFile(4711)));
    EXPECT_TRUE(fs::exists(root() / "layers" / "notes"));
    EXPECT_EQ(exec(kept.id, "cat f"), "x\n");
    expectConsistent();
}

TEST_F(ReapTest, AnExecutionOfADeadOwnerInAKeptOneIsLost) {
    const SandboxRecord kept = createKept();
    ProcessIdentity dead = thisProcess();
    dead.startTime -= 1;
    store().write([&](Writer& w) {
        SandboxWriter(w, w.actor({ActorKind::kAgent, "other"})).start({kept.id, dead, "namespaces", {}, {"x"}, "/"});
    });
    Layers(root(), store().storeId()).make(kept.layer, project_.path());
    EXPECT_EQ(sandboxes().collect().lostExecutions, 1U);
    EXPECT_EQ(records().execution(1)->state, ExecutionState::kLost);
    EXPECT_EQ(exec(kept.id, "cat README.md"), "hello\n");
}

TEST_F(ReapTest, ALayerThatWasBegunAndNotMadeIsMadeAnew) {
    const SandboxRecord kept = createKept();
    exec(kept.id, "echo x > f");
    sandboxes().snapshot(kept.id, "one");
    // As a crash leaves it between the directory and its look.
    const fs::path layer = root() / "layers" / fmt::format("l{}", records().sandbox(kept.id)->layer);
    ASSERT_TRUE(fs::remove(layer / "mark"));
    fs::permissions(layer / "upper", fs::perms::owner_all);
    ASSERT_EQ(::chown((layer / "upper").c_str(), ::geteuid(), ::getegid()), 0);
    EXPECT_EQ(exec(kept.id, "cat f"), "x\n");
}

TEST_F(ReapTest, KilledAtAnyMomentEverythingIsWholeOrEnded) {
    std::mt19937 chance(20261116);
    const int rounds = std::getenv("GRADUS_LONG") != nullptr ? 300 : 15;
    std::size_t done = 0;
    for (int round = 0; round < rounds; ++round) {
        {
            OwnerProcess victim(state_, project_.path(), "churn", std::to_string(round + 1));
            victim.listen(std::chrono::microseconds(40'000 + chance() % 200'000));
            victim.kill();
            EXPECT_EQ(victim.said().find("damaged"), std::string::npos) << victim.said();
            for (std::size_t at = 0; (at = victim.said().find("done", at)) != std::string::npos; ++at) ++done;
        }
        awaitOrphans();
        const CollectReport report = sandboxes().collect();
        EXPECT_TRUE(report.problems.empty()) << report.problems.front();
        EXPECT_TRUE(records().living(SandboxKind::kTransient).empty());
        EXPECT_TRUE(records().running().empty());
        expectConsistent();
        for (const SandboxView& view : sandboxes().list()) {
            EXPECT_FALSE(view.damage) << *view.damage;
            const ExecutionReport usable = sandboxes().exec(view.record.id, shell("test ! -e d || test -d d"));
            EXPECT_EQ(usable.execution.verdict, Verdict::kOk) << describe(usable);
        }
        if (HasFailure()) return;
    }
    EXPECT_GT(done, static_cast<std::size_t>(rounds)) << "the victims did something before they died";
    for (const SandboxView& view : sandboxes().list()) sandboxes().remove(view.record.id);
    sandboxes().collect();
    EXPECT_EQ(layerDirectories(), 0U);
}

TEST_F(ReapTest, ManyProcessesAtOnceDoNotMixUp) {
    GRADUS_CASES("R15");
    std::vector<std::unique_ptr<OwnerProcess>> owners;
    for (int i = 0; i < 4; ++i)
        owners.push_back(std::make_unique<OwnerProcess>(state_, project_.path(), "churn", std::to_string(100 + i)));
    for (const auto& owner : owners) owner->listen(1s);
    for (const auto& owner : owners) {
        owner->kill();
        EXPECT_EQ(owner->said().find("damaged"), std::string::npos) << owner->said();
        EXPECT_NE(owner->said().find("done"), std::string::npos);
    }
    awaitOrphans();
    sandboxes().collect();
    expectConsistent();
}

}  // namespace
}  // namespace gradus
