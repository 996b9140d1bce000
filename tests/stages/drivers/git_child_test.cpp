// git itself is killed, or cannot read what it is asked for: that is never an answer, and what it leaves behind is no
// end of all promotions.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "stages/drivers/branch_side.h"
#include "store/model/error.h"
#include "tests/stages/drivers/driver_rig.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;
using Observed = StageDriver::Observed;

/// A child that writes more than so many bytes into a file is killed by SIGXFSZ, for which git has no handler.
class KilledWriters {
  public:
    explicit KilledWriters(rlim_t bytes) {
        ::signal(SIGXFSZ, SIG_IGN);
        ::getrlimit(RLIMIT_FSIZE, &before_);
        set(bytes);
    }
    KilledWriters(const KilledWriters&) = delete;
    KilledWriters& operator=(const KilledWriters&) = delete;
    ~KilledWriters() { set(before_.rlim_cur); }

  private:
    void set(rlim_t bytes) const {
        const rlimit limit{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    rlimit before_{};
};

/// A lock file with a commit may be written, what git notes of a move may not.
constexpr rlim_t kOneCommit = 41;

class GitChild : public testing::Test {
  protected:
    GitChild() : rig_("branch"), commit_("worktree") {
        build(rig_.project(), tree_);
        git(rig_.project(), "config user.name alice && git config user.email alice@example.org");
        git(rig_.project(), "add -A && git commit -q -m first && git branch staging");
        rig_.setText("repository", ".");
        rig_.setText("branch", "staging");
    }

    static void git(const fs::path& where, const std::string& words) {
        run("cd '" + where.native() + "' && git " + words);
    }
    static std::string tip(const fs::path& where, const std::string& branch = "staging") {
        return outputOf("cd '" + where.native() + "' && git rev-parse refs/heads/" + branch + " 2>&1");
    }
    fs::path withRemote() {
        fs::path remote = rig_.base() / "upstream";
        git(rig_.project(), "init -q --bare '" + remote.native() + "' && git remote add origin '" + remote.native() +
                                "' && git push -q origin staging");
        git(remote, "config core.logAllRefUpdates true");
        rig_.setNumber("push", 1);
        rig_.setText("remote", "origin");
        return remote;
    }
    static void buildCommitting(DriverRig& rig, const Tree& tree) {
        build(rig.project(), tree);
        git(rig.project(), "config user.name alice && git config user.email alice@example.org");
        git(rig.project(), "add -A && git commit -q -m first");
        rig.setNumber("commit", 1);
    }
    StageChange change() { return changeTo(rig_, tree_, next_); }
    GitPlumbing plumbing() { return {openRepository(rig_.project(), rig_.project()), rig_.real()}; }
    static void expectNoAnswers(const GitPlumbing& asked, const std::string& head) {
        EXPECT_THROW(asked.headRef(), Error);
        EXPECT_THROW(asked.commitAt("refs/heads/staging"), Error);
        EXPECT_THROW(asked.treeOf(head, "src"), Error);
        EXPECT_THROW(asked.treeOf(head, ""), Error);
        EXPECT_THROW(asked.settings("core.bare"), Error);
        EXPECT_THROW(asked.entriesOf(head), Error);
    }
    /// gradus and its git are both killed while git has the ref locked.
    static void killWhileMoving(DriverRig& rig, const Checkpoint& checkpoint, const fs::path& lock) {
        const int status = inChild([&] {
            std::optional<KilledWriters> limit;
            std::optional<std::jthread> killer;
            WatchedOperations files([&](std::size_t, std::string_view, std::string_view name) {
                if (name != "git update-ref") return 0;
                limit.emplace(kOneCommit);
                killer.emplace([&] {
                    while (!fs::exists(lock)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                    dieNow();
                });
                return 0;
            });
            rig.driver(files)->rollback(checkpoint);
        });
        EXPECT_EQ(status, SIGKILL);
        EXPECT_TRUE(fs::exists(lock)) << lock;
    }

    Tree tree_ = {{"src", folder()}, {"src/a", file("one\n")}, {"src/b", file("two\n", 0755)}};
    Tree next_ = {{"src", folder()}, {"src/a", file("uno\n")}, {"src/b", file("two\n", 0755)}};
    DriverRig rig_;
    DriverRig commit_;
};

TEST_F(GitChild, OneThatWasKilledIsNoAnswer) {
    const GitPlumbing asked = plumbing();
    const std::string head = *asked.commitAt("HEAD");
    const KilledWriters limit(0);
    expectNoAnswers(asked, head);
}

TEST_F(GitChild, OneThatCannotReadItsConfigurationIsNoAnswer) {
    const GitPlumbing asked = plumbing();
    const std::string head = *asked.commitAt("HEAD");
    std::ofstream(rig_.project() / ".git/config", std::ios::app) << "[\n";
    expectNoAnswers(asked, head);
    EXPECT_THROW(asked.isAncestor(head, head), Error);
    EXPECT_THROW(asked.isSymbolic("refs/heads/staging"), Error);
}

TEST_F(GitChild, ARefThatCannotBeReadIsNotAbsent) {
    const GitPlumbing asked = plumbing();
    EXPECT_EQ(asked.commitAt("refs/heads/none"), std::nullopt);
    std::ofstream(rig_.project() / ".git/refs/heads/staging") << "";
    EXPECT_THROW(asked.commitAt("refs/heads/staging"), Error);
    fs::remove(rig_.project() / ".git/refs/heads/staging");
    std::ofstream(rig_.project() / ".git/packed-refs", std::ios::app)
        << std::string(40, '1') << " refs/heads/staging\n";
    EXPECT_THROW(asked.commitAt("refs/heads/staging"), Error);
}

TEST_F(GitChild, WhatARepositoryDoesNotHaveIsStillAnAnswer) {
    const GitPlumbing asked = plumbing();
    const std::string head = *asked.commitAt("HEAD");
    EXPECT_EQ(asked.treeOf(head, "src/a"), std::nullopt);
    EXPECT_EQ(asked.treeOf(head, "none/at/all"), std::nullopt);
    EXPECT_FALSE(asked.isAncestor(std::string(40, '1'), head));
    EXPECT_EQ(asked.settings("no.such"), std::vector<std::string>());
    EXPECT_FALSE(asked.isBranchName("a..b"));
}

TEST_F(GitChild, ARemoteThatCannotAnswerIsNotTakenBack) {
    const fs::path remote = withRemote();
    const std::string before = tip(remote);
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    ASSERT_TRUE(rig_.driver()->apply(checkpoint).applied);
    const std::string promoted = tip(remote);
    const std::string config = read(remote / "config");
    std::ofstream(remote / "config", std::ios::app) << "[\n";
    const RollbackOutcome failed = rig_.driver()->rollback(checkpoint);
    EXPECT_FALSE(failed.complete);
    EXPECT_FALSE(failed.problems.empty());
    EXPECT_THROW(rig_.driver()->observe(checkpoint), Error);
    write(remote / "config", config);
    EXPECT_EQ(tip(remote), promoted);
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(tip(remote), before);
    EXPECT_EQ(tip(rig_.project()), before);
}

TEST_F(GitChild, AMoveWhoseGitIsKilledFailsAndTheNextOneGoesAhead) {
    const fs::path remote = withRemote();
    const std::string before = tip(remote);
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    ASSERT_TRUE(rig_.driver()->apply(checkpoint).applied);
    {
        const KilledWriters limit(kOneCommit);
        EXPECT_FALSE(rig_.driver()->rollback(checkpoint).complete);
    }
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(tip(remote), before);
    EXPECT_EQ(tip(rig_.project()), before);
}

TEST_F(GitChild, ARollbackThatWasKilledWithItsGitIsFinishedByTheNext) {
    const fs::path remote = withRemote();
    const std::string before = tip(remote);
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    ASSERT_TRUE(rig_.driver()->apply(checkpoint).applied);
    killWhileMoving(rig_, checkpoint, remote / "refs/heads/staging.lock");
    const RollbackOutcome outcome = rig_.driver()->rollback(checkpoint);
    EXPECT_TRUE(outcome.complete) << (outcome.problems.empty() ? "" : outcome.problems.front());
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kBefore);
    EXPECT_EQ(tip(remote), before);
    EXPECT_EQ(tip(rig_.project()), before);
    EXPECT_EQ(outputOf("ls '" + remote.native() + "' | grep gradus-moving"), "");
}

TEST_F(GitChild, ACommitWhoseRollbackWasKilledWithItsGitIsTakenBackByTheNext) {
    buildCommitting(commit_, tree_);
    const fs::path project = commit_.project();
    const std::string before = tip(project, "main");
    const Checkpoint checkpoint = commit_.driver()->checkpoint(changeTo(commit_, tree_, next_));
    ASSERT_TRUE(commit_.driver()->apply(checkpoint).applied);
    ASSERT_NE(tip(project, "main"), before);
    killWhileMoving(commit_, checkpoint, project / ".git/refs/heads/main.lock");
    EXPECT_EQ(commit_.driver()->observe(checkpoint), Observed::kBetween);
    const RollbackOutcome outcome = commit_.driver()->rollback(checkpoint);
    EXPECT_TRUE(outcome.complete && outcome.kept.empty());
    EXPECT_EQ(tip(project, "main"), before);
    EXPECT_EQ(outputOf("cd '" + project.native() + "' && git status --porcelain && ls .git | grep lock"), "");
}

// Somebody's own git, or one of ours that nothing tells of: it is not deleted, and what to do is said.
TEST_F(GitChild, ALockOfAnotherGitStaysAndTheCureNamesIt) {
    buildCommitting(commit_, tree_);
    const fs::path lock = commit_.project() / ".git/refs/heads/main.lock";
    const Checkpoint checkpoint = commit_.driver()->checkpoint(changeTo(commit_, tree_, next_));
    ASSERT_TRUE(commit_.driver()->apply(checkpoint).applied);
    write(lock, "");
    const RollbackOutcome outcome = commit_.driver()->rollback(checkpoint);
    EXPECT_FALSE(outcome.complete);
    ASSERT_EQ(outcome.problems.size(), 1U);
    EXPECT_NE(outcome.problems.front().find("rm '" + lock.native() + "'"), std::string::npos)
        << outcome.problems.front();
    EXPECT_TRUE(fs::exists(lock));
    EXPECT_EQ(commit_.driver()->observe(checkpoint), Observed::kBetween);
    fs::remove(lock);
    EXPECT_TRUE(commit_.driver()->rollback(checkpoint).complete);
}

TEST_F(GitChild, AnIndexThatIsLockedIsNamed) {
    buildCommitting(commit_, tree_);
    const Checkpoint checkpoint = commit_.driver()->checkpoint(changeTo(commit_, tree_, next_));
    const fs::path lock = commit_.project() / ".git/index.lock";
    write(lock, "");
    const ApplyOutcome outcome = commit_.driver()->apply(checkpoint);
    EXPECT_TRUE(outcome.applied);
    ASSERT_EQ(outcome.notes.size(), 1U);
    EXPECT_NE(outcome.notes.front().find(lock.native()), std::string::npos) << outcome.notes.front();
}

TEST_F(GitChild, WhatAKilledGitLeftOfAnIndexOfOursIsInNobodysWay) {
    fs::create_directories(rig_.state());
    write(rig_.state() / "commit-index.lock", "");
    write(rig_.state() / "commit-index-0123456789ab.lock", "");
    EXPECT_TRUE(rig_.driver()->apply(rig_.driver()->checkpoint(change())).applied);
    EXPECT_EQ(outputOf("ls '" + rig_.state().native() + "' | grep index"), "");
    buildCommitting(commit_, tree_);
    fs::create_directories(commit_.state());
    write(commit_.state() / "commit-index.lock", "");
    EXPECT_TRUE(commit_.driver()->apply(commit_.driver()->checkpoint(changeTo(commit_, tree_, next_))).applied);
    EXPECT_EQ(outputOf("ls '" + commit_.state().native() + "' | grep index"), "");
}

}  // namespace
}  // namespace gradus::test
