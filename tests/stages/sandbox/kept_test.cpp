// Kept sandboxes: rows and layers between commands.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <thread>

#include "stages/sandbox/layers.h"
#include "stages/sandbox/sandbox_lock.h"
#include "tests/stages/sandbox/sandboxes_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class KeptTest : public SandboxesTest {
  protected:
    std::string refusalOf(const std::function<void()>& work, ErrorCode code) {
        try {
            work();
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), code) << e.what();
            return e.what();
        }
        ADD_FAILURE() << "nothing was refused";
        return "";
    }
};

TEST_F(KeptTest, GoesOnWhereItWasAndLeavesNothingRunning) {
    GRADUS_CASES("OV32");
    const std::string before = project_.fingerprint();
    const SandboxRecord sandbox = createKept("fix");
    const HostCounts idle = countHost();
    EXPECT_EQ(exec(sandbox.id, "cat README.md; echo one > f; rm README.md; mkdir d; chmod 0700 d; pwd"),
              "hello\n" + project_.path().native() + "\n");
    EXPECT_EQ(countHost(), idle) << "between commands there is nothing but layers";
    Side other(*this);
    const ExecutionReport report = other.sandboxes.exec(sandbox.id, shell("cat f; test ! -e README.md; stat -c %a d"));
    EXPECT_EQ(report.out.text(), "one\n700\n") << describe(report);
    EXPECT_EQ(changedPaths(sandboxes().diff(sandbox.id)), (std::vector<std::string>{"-README.md", "+d", "+f"}));
    EXPECT_EQ(project_.fingerprint(), before);
    expectConsistent();
}

TEST_F(KeptTest, IsFoundByHandleNameAndAsTheLatest) {
    const SandboxRecord first = createKept("fix");
    const SandboxRecord second = createKept();
    EXPECT_EQ(sandboxes().find("fix")->id, first.id);
    EXPECT_EQ(sandboxes().find("s1")->id, first.id);
    EXPECT_EQ(sandboxes().find("@")->id, second.id);
    for (const char* nobody : {"s9", "fi", "c1", "", "e1"}) EXPECT_FALSE(sandboxes().find(nobody)) << nobody;
    const auto all = sandboxes().list(project_.path());
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].project, project_.path());
    EXPECT_TRUE(sandboxes().list("/elsewhere").empty());
    sandboxes().remove(first.id);
    EXPECT_FALSE(sandboxes().find("fix"));
    EXPECT_EQ(sandboxes().list().size(), 1U);
    EXPECT_THROW(sandboxes().exec(first.id, shell("true")), Error);
    EXPECT_THROW(sandboxes().remove(first.id), Error);
}

TEST_F(KeptTest, HasOneUserAtATime) {
    GRADUS_CASES("R10", "ST10");
    const SandboxRecord sandbox = createKept();
    std::stop_source stop;
    std::atomic<bool> running = false;
    Side other(*this);
    std::thread user([&] {
        CommandRequest command = shell("echo ready; sleep 60; true");
        command.cancel = stop.get_token();
        command.live = [&](Stream, std::string_view) {
            running = true;
            running.notify_all();
        };
        EXPECT_EQ(other.sandboxes.exec(sandbox.id, command).execution.verdict, Verdict::kKilled);
    });
    running.wait(false);
    const std::string busy = refusalOf([&] { sandboxes().exec(sandbox.id, shell("true")); }, ErrorCode::kBusy);
    EXPECT_NE(busy.find(std::to_string(::getpid())), std::string::npos) << busy;
    for (const auto& use : std::vector<std::function<void()>>{
             [&] { sandboxes().snapshot(sandbox.id, "x"); }, [&] { sandboxes().remove(sandbox.id); },
             [&] { sandboxes().fork(sandbox.id, 1); }, [&] { sandboxes().diff(sandbox.id); }})
        refusalOf(use, ErrorCode::kBusy);
    EXPECT_EQ(sandboxes().view(sandbox.id).inUseBy, ::getpid());
    std::thread waiting([&] {
        EXPECT_EQ(sandboxes().exec(sandbox.id, shell("true"), {60s, {}}).execution.verdict, Verdict::kOk);
    });
    stop.request_stop();
    user.join();
    waiting.join();
    EXPECT_FALSE(sandboxes().view(sandbox.id).inUseBy);
}

TEST_F(KeptTest, RestoringBringsEverythingBack) {
    GRADUS_CASES("L8");
    const SandboxRecord sandbox = createKept();
    exec(sandbox.id,
         "mkdir -p d/e; echo 1 > d/e/f; ln -s d/e/f link; chmod 640 src/main.c; touch -d @1000000000 README.md; rm "
         "src/util.c");
    const std::string then = seen(sandbox.id);
    const SnapshotRecord snapshot = sandboxes().snapshot(sandbox.id, "before");
    EXPECT_EQ(seen(sandbox.id), then);
    exec(sandbox.id, "rm -r d src link; mkdir d; echo 2 > d/new; ln -s x link; echo changed > README.md; chmod 711 .");
    EXPECT_NE(seen(sandbox.id), then);
    sandboxes().snapshot(sandbox.id, "after");
    const std::string after = seen(sandbox.id);
    sandboxes().restore(sandbox.id, "before");
    EXPECT_EQ(seen(sandbox.id), then);
    exec(sandbox.id, "rm -rf d");
    sandboxes().restore(sandbox.id, "after");
    EXPECT_EQ(seen(sandbox.id), after) << "later snapshots stay";
    sandboxes().restore(sandbox.id, "before");
    EXPECT_EQ(seen(sandbox.id), then) << "any number of times";
    refusalOf([&] { sandboxes().restore(sandbox.id, "never"); }, ErrorCode::kNotFound);
    refusalOf([&] { sandboxes().snapshot(sandbox.id, "before"); }, ErrorCode::kUsage);
    EXPECT_EQ(sandboxes().view(sandbox.id).snapshots.size(), 2U);
    sandboxes().collect();
    expectConsistent();
    EXPECT_EQ(seen(sandbox.id), then);
}

TEST_F(KeptTest, ForksStartAlikeAndGoTheirOwnWays) {
    const SandboxRecord parent = createKept("parent");
    exec(parent.id, "echo shared > f; rm README.md");
    const auto forks = sandboxes().fork(parent.id, 3, {"left", "right"});
    ASSERT_EQ(forks.size(), 3U);
    EXPECT_EQ(forks[0].name, "left");
    EXPECT_EQ(forks[2].name, std::nullopt);
    EXPECT_EQ(forks[0].forkedFrom, parent.id);
    for (const SandboxRecord& fork : forks)
        EXPECT_EQ(exec(fork.id, fmt::format("cat f; test ! -e README.md; echo {} > f", fork.id)), "shared\n");
    exec(parent.id, "rm f");
    for (const SandboxRecord& fork : forks) EXPECT_EQ(exec(fork.id, "cat f"), std::to_string(fork.id) + "\n");
    sandboxes().remove(parent.id);
    sandboxes().collect();
    EXPECT_EQ(exec(forks[1].id, "cat f"), std::to_string(forks[1].id) + "\n") << "layers outlive their maker";
    EXPECT_EQ(changedPaths(sandboxes().diff(forks[1].id)), (std::vector<std::string>{"-README.md", "+f"}));
    for (const SandboxRecord& fork : forks) sandboxes().remove(fork.id);
    sandboxes().collect();
    EXPECT_EQ(layerDirectories(), 0U) << "and no longer than that";
    expectConsistent();
}

TEST_F(KeptTest, ASnapshotThatOthersStandOnIsNotRemoved) {
    GRADUS_CASES("L7");
    const SandboxRecord parent = createKept();
    exec(parent.id, "echo 1 > f");
    sandboxes().snapshot(parent.id, "first");
    exec(parent.id, "echo 2 > f");
    const auto forks = sandboxes().fork(parent.id, 1);
    const std::string why = refusalOf([&] { sandboxes().removeSnapshot(parent.id, "first"); }, ErrorCode::kNotAllowed);
    EXPECT_NE(why.find("s" + std::to_string(forks[0].id)), std::string::npos) << why;
    sandboxes().remove(forks[0].id);
    sandboxes().removeSnapshot(parent.id, "first");
    EXPECT_EQ(exec(parent.id, "cat f"), "2\n");
    sandboxes().collect();
    expectConsistent();
}

TEST_F(KeptTest, AForkOfOneThatNothingRanInIsAsGood) {
    const SandboxRecord parent = createKept();
    const auto forks = sandboxes().fork(parent.id, 2);
    EXPECT_EQ(exec(forks[1].id, "cat README.md"), "hello\n");
    EXPECT_EQ(sandboxes().view(forks[1].id).depth, 0U);
}

/// Things a program might do to a small tree, each in a way an overlay has its own mark for.
std::string randomEdit(std::mt19937& chance) {
    const auto pick = [&](std::initializer_list<const char*> all) {
        return std::string(all.begin()[chance() % all.size()]);
    };
    const std::string one = pick({"a", "b", "a/x", "a/y", "b/x", "a/x/p", "src", "src/main.c", "README.md", "c"});
    const std::string edit =
        pick({"rm -rf $1", "mkdir -p $1", "rm -rf $1; mkdir -p $1", "rm -rf $1; echo $2 > $1", "echo $2 >> $1",
              "chmod 7$3 $1", "rm -rf $1; ln -s $2 $1", "rm -rf $1/x; mkdir -p $1; echo $2 > $1/x", "touch -d @$2 $1",
              "mv $1 z; mv z b", "ln -f $1 hard"});
    return fmt::format("set -- {} {} {}; {}", one, chance() % 100000, pick({"00", "50", "55"}), edit);
}

TEST_F(KeptTest, SquashingShowsTheSame) {
    std::mt19937 chance(20261116);
    const SandboxRecord sandbox = createKept();
    std::string script;
    for (std::size_t depth = 0; depth < Sandboxes::kMostLayers; ++depth) {
        script.clear();
        for (int i = 0; i < 4; ++i) script += "(" + randomEdit(chance) + ") 2>/dev/null; ";
        exec(sandbox.id, script + "true");
        sandboxes().snapshot(sandbox.id, "n" + std::to_string(depth));
    }
    EXPECT_EQ(sandboxes().view(sandbox.id).depth, Sandboxes::kMostLayers);
    exec(sandbox.id, "rm -rf src; mkdir src; echo again > src/f; echo last > last");
    const std::string before = seen(sandbox.id);
    const auto changes = changedPaths(sandboxes().diff(sandbox.id));
    sandboxes().snapshot(sandbox.id, "deep");
    EXPECT_EQ(sandboxes().view(sandbox.id).depth, 1U) << "they were merged";
    EXPECT_EQ(seen(sandbox.id), before);
    EXPECT_EQ(changedPaths(sandboxes().diff(sandbox.id)), changes);
    for (std::size_t i = 0; i < Sandboxes::kMostLayers; i += 7)
        sandboxes().restore(sandbox.id, "n" + std::to_string(i));
    sandboxes().restore(sandbox.id, "deep");
    EXPECT_EQ(seen(sandbox.id), before) << "the snapshot itself still has all its layers";
    sandboxes().collect();
    expectConsistent();
}

TEST_F(KeptTest, ASquashCutShortIsFinishedByTheNext) {
    const SandboxRecord sandbox = createKept();
    for (std::size_t depth = 0; depth <= Sandboxes::kMostLayers; ++depth) {
        exec(sandbox.id, fmt::format("echo {} > f{}", depth, depth));
        sandboxes().snapshot(sandbox.id, "n" + std::to_string(depth));
    }
    const auto chain = records().chain(records().sandbox(sandbox.id)->layer);
    ASSERT_EQ(chain.size(), 2U);
    const std::string before = seen(sandbox.id);
    // As if it had been killed between the record and the renaming.
    fs::rename(layer(chain[1].id), layer(records().sandbox(sandbox.id)->layer) / "merged");
    fs::remove(layer(records().sandbox(sandbox.id)->layer) / "merged" / "mark");
    sandboxes().collect();
    EXPECT_EQ(seen(sandbox.id), before);
    expectConsistent();
}

TEST_F(KeptTest, WhatACrashCutShortIsFinished) {
    const SandboxRecord sandbox = createKept();
    fs::remove_all(layer(sandbox.layer));  // as if killed right after the record
    EXPECT_EQ(exec(sandbox.id, "cat README.md; echo x > f; stat -c %a ."), "hello\n755\n");
    sandboxes().snapshot(sandbox.id, "s");
    fs::remove_all(layer(records().sandbox(sandbox.id)->layer));
    EXPECT_EQ(exec(sandbox.id, "cat f"), "x\n");
}

struct Intrusion {
    const char* name;
    std::function<void(const fs::path&)> act;
};

TEST_F(KeptTest, ATamperedDirectoryIsRejected) {
    GRADUS_CASES("OV32");
    const std::vector<Intrusion> kinds{
        {"gone", [](const fs::path& p) { fs::rename(p, p.native() + ".away"); }},
        {"upper gone", [](const fs::path& p) { fs::rename(p / "upper", p / "upper.away"); }},
        {"a link elsewhere",
         [](const fs::path& p) {
             fs::rename(p / "upper", p / "real");
             fs::create_symlink("/etc", p / "upper");
         }},
        {"another layer's", [](const fs::path& p) { std::ofstream(p / "mark") << "gradus-layer 1 0 0\n"; }},
        {"no mark", [](const fs::path& p) { fs::remove(p / "mark"); }},
        {"open to all", [](const fs::path& p) { fs::permissions(p, fs::perms::all); }},
        {"a file", [](const fs::path& p) {
             fs::rename(p, p.native() + ".away");
             std::ofstream(p.native()) << "x";
         }}};
    for (const Intrusion& kind : kinds) {
        const SandboxRecord sandbox = createKept();
        exec(sandbox.id, "echo x > f");
        kind.act(layer(sandbox.layer));
        const std::string why = refusalOf([&] { sandboxes().exec(sandbox.id, shell("true")); }, ErrorCode::kDamaged);
        EXPECT_NE(why.find("s" + std::to_string(sandbox.id)), std::string::npos) << why;
        EXPECT_TRUE(sandboxes().view(sandbox.id).damage) << kind.name;
        EXPECT_NO_THROW(sandboxes().remove(sandbox.id)) << kind.name << ": it can still be removed";
    }
}

TEST_F(KeptTest, KeepsTheGitDirectoryOfALinkedWorktree) {
    if (::access("/usr/bin/git", X_OK) != 0) GTEST_SKIP() << "git is not installed";
    const auto git = [&](const fs::path& at, const std::string& words) {
        const std::string drop = ::geteuid() == 0 ? "setpriv --reuid=41234 --regid=41234 --clear-groups " : "";
        const std::string line = drop + "env HOME=/nonexistent git -C " + at.native() +
                                 " -c user.name=a -c user.email=a@a " + words + " >/dev/null 2>&1";
        return std::system(line.c_str()) == 0;
    };
    const HostProject main(projectOwner());
    ASSERT_TRUE(git(main.path(), "init") && git(main.path(), "add -A") && git(main.path(), "commit -m first"));
    ASSERT_TRUE(git(main.path(), "worktree add -f " + project_.path().native() + "/tree"));
    CreateRequest request;
    request.project = project_.path() / "tree";
    const SandboxRecord sandbox = sandboxes().create(request);
    const std::string commit = "echo more > more; git add -A; git -c user.name=b -c user.email=b@b commit -qm second";
    exec(sandbox.id, commit);
    EXPECT_EQ(exec(sandbox.id, "git log --format=%s"), "second\nfirst\n");
    sandboxes().snapshot(sandbox.id, "two");
    exec(sandbox.id, "git -c user.name=b -c user.email=b@b commit --allow-empty -qm third");
    EXPECT_EQ(exec(sandbox.id, "git log --format=%s | head -n1"), "third\n");
    sandboxes().restore(sandbox.id, "two");
    EXPECT_EQ(exec(sandbox.id, "git log --format=%s | head -n1; git status --short"), "second\n");
}

TEST_F(KeptTest, IsRefusedOnceItsProjectIsAnother) {
    const SandboxRecord sandbox = createKept();
    const fs::path away = project_.path().native() + ".away";
    fs::rename(project_.path(), away);
    refusalOf([&] { sandboxes().exec(sandbox.id, shell("true")); }, ErrorCode::kNotFound);
    fs::create_directory(project_.path());
    refusalOf([&] { sandboxes().exec(sandbox.id, shell("true")); }, ErrorCode::kNotAllowed);
    fs::remove(project_.path());
    fs::rename(away, project_.path());
    EXPECT_EQ(exec(sandbox.id, "cat README.md"), "hello\n");
}

TEST_F(KeptTest, EndsWhenNobodyUsedItForItsLifetime) {
    GRADUS_CASES("L5");
    CreateRequest request;
    request.project = project_.path();
    request.lifetime = 1h;
    const SandboxRecord never = sandboxes().create(request);
    const SandboxRecord used = sandboxes().create(request);
    clock_.advance(50min);
    exec(used.id, "echo x > f; rm README.md");
    clock_.advance(30min);
    EXPECT_EQ(sandboxes().collect().expired, std::vector{never.id});
    EXPECT_EQ(exec(used.id, "cat f"), "x\n");
    clock_.advance(61min);
    EXPECT_EQ(sandboxes().collect().expired, std::vector{used.id});
    const auto record = records().sandbox(used.id);
    EXPECT_EQ(record->ended, SandboxEnd::kExpired);
    ASSERT_TRUE(record->changeSet) << "its change set is stored first";
    const Objects objects(state_.objects(), clock_);
    const ChangeSet changes = ChangeSet::decode(objects.readAll(*record->changeSet, 1 << 20));
    EXPECT_EQ(changes.changes().size(), 2U);
    const auto referenced = store().records().referencedObjects();
    EXPECT_NE(std::find(referenced.begin(), referenced.end(), *record->changeSet), referenced.end());
    EXPECT_EQ(layerDirectories(), 0U);
    expectConsistent();
}

TEST_F(KeptTest, ALifetimeThatEndsDuringARunEndsTheRun) {
    GRADUS_CASES("L4");
    CreateRequest request;
    request.project = project_.path();
    request.lifetime = 300ms;
    const SandboxRecord sandbox = sandboxes().create(request);
    const ExecutionReport report = sandboxes().exec(sandbox.id, shell("echo x > f; sleep 60"));
    EXPECT_EQ(report.execution.verdict, Verdict::kTimeout) << describe(report);
    EXPECT_EQ(exec(sandbox.id, "cat f"), "x\n") << "what it changed is kept";
}

TEST_F(KeptTest, CanBeRemovedWithAnythingInIt) {
    const SandboxRecord sandbox = createKept();
    exec(sandbox.id, "i=0; while [ $i -lt 600 ]; do mkdir d && cd d; i=$((i+1)); done; echo x > f; cd /; true");
    exec(sandbox.id, "mkdir -p shut/in; echo x > shut/in/f; chmod 0 shut/in shut; ln -s / root; mkfifo p; : > 'a\n b'");
    sandboxes().remove(sandbox.id);
    const CollectReport report = sandboxes().collect();
    EXPECT_TRUE(report.problems.empty()) << report.problems.front();
    EXPECT_EQ(layerDirectories(), 0U);
    expectConsistent();
}

TEST_F(KeptTest, ManyAtOnceDoNotMixUp) {
    GRADUS_CASES("R15");
    std::vector<SandboxRecord> all;
    exec((all.emplace_back(createKept())).id, "echo base > f");
    for (SandboxRecord& fork : sandboxes().fork(all[0].id, 15)) all.push_back(std::move(fork));
    std::vector<std::thread> threads;
    for (const SandboxRecord& sandbox : all)
        threads.emplace_back([&, id = sandbox.id] {
            const auto text = [&](const char* script) {
                return sandboxes().exec(id, shell(fmt::format(fmt::runtime(script), id))).out.text();
            };
            EXPECT_EQ(text("cat f; echo {0} >> f"), "base\n");
            sandboxes().snapshot(id, "one");
            EXPECT_EQ(text("tail -n1 f; rm f"), std::to_string(id) + "\n");
            sandboxes().restore(id, "one");
            EXPECT_EQ(text("tail -n1 f"), std::to_string(id) + "\n");
        });
    for (int i = 0; i < 16; ++i)
        threads.emplace_back([&, i] {
            const Trial trial = sandboxes().attempt(tryShell(fmt::format("echo {} > mine; cat mine; ls | wc -l", i)));
            EXPECT_EQ(trial.report().out.text(), fmt::format("{}\n3\n", i)) << describe(trial.report());
        });
    for (std::thread& thread : threads) thread.join();
    sandboxes().collect();
    expectConsistent();
}

TEST_F(KeptTest, ATreeOfACommitGoesWhenNothingStandsOnItAnyMore) {
    const auto git = [&](const std::string& words) {
        return std::system(("git -C " + project_.path().native() +
                            " -c safe.directory='*' -c user.name=a -c user.email=a@a " + words + " >/dev/null 2>&1")
                               .c_str()) == 0;
    };
    ASSERT_TRUE(git("init") && git("add -A") && git("commit -m first"));
    ASSERT_EQ(
        std::system(("chown -R --reference=" + project_.path().native() + " " + project_.path().native()).c_str()), 0);
    CreateRequest request;
    request.project = project_.path();
    request.commit = "HEAD";
    request.lifetime = std::chrono::hours(24 * 3000);
    const SandboxRecord sandbox = sandboxes().create(request);
    const auto trees = [&] {
        return std::distance(fs::directory_iterator(state_.root / "commits"), fs::directory_iterator());
    };
    EXPECT_EQ(trees(), 1);
    clock_.set(systemClock_.now() + std::chrono::hours(24 * 8));
    EXPECT_EQ(sandboxes().collect().commits, 0U) << "a sandbox stands on it";
    EXPECT_EQ(exec(sandbox.id, "cat README.md"), "hello\n");
    sandboxes().remove(sandbox.id);
    clock_.set(systemClock_.now());
    EXPECT_EQ(sandboxes().collect().commits, 0U) << "it was used a moment ago";
    clock_.set(systemClock_.now() + std::chrono::hours(24 * 8));
    EXPECT_EQ(sandboxes().collect().commits, 1U);
    EXPECT_EQ(trees(), 0);
}

}  // namespace
}  // namespace gradus
