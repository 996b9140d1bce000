// A branch of a repository on this machine.
#include <gtest/gtest.h>

#include <fstream>

#include "store/model/error.h"
#include "tests/stages/drivers/driver_rig.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;
using Observed = StageDriver::Observed;

std::string trimmed(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    return text;
}

class BranchStage : public testing::Test {
  protected:
    BranchStage() : rig_("branch") {
        build(rig_.project(), tree_);
        git(rig_.project(), "config user.name alice && git config user.email alice@example.org");
        git(rig_.project(), "add -A && git commit -q -m first && git branch staging");
        rig_.setText("repository", ".");
        rig_.setText("branch", "staging");
    }

    static void git(const fs::path& where, const std::string& words) {
        run("cd '" + where.native() + "' && git " + words);
    }
    static std::string says(const fs::path& where, const std::string& words) {
        return trimmed(outputOf("cd '" + where.native() + "' && git " + words + " 2>&1"));
    }
    std::string says(const std::string& words) { return says(rig_.project(), words); }
    std::string tip(const std::string& branch = "staging") { return says("rev-parse refs/heads/" + branch); }

    /// Somebody's commit on top of a branch, from a clone.
    void commitElsewhere(const fs::path& repository, const std::string& branch) {
        const std::string clone = (rig_.base() / "state" / "clone").native();
        run("rm -rf '" + clone + "' && git clone -q -b " + branch + " '" + repository.native() + "' '" + clone +
            "' && cd '" + clone +
            "' && echo theirs > theirs && git add -A && git -c user.name=b -c user.email=b@c commit -q -m theirs && "
            "git "
            "push -q origin " +
            branch);
    }
    fs::path withRemote() {
        fs::path remote = rig_.base() / "upstream";
        git(rig_.project(), "init -q --bare '" + remote.native() + "' && git remote add origin '" + remote.native() +
                                "' && git push -q origin staging");
        rig_.setNumber("push", 1);
        rig_.setText("remote", "origin");
        return remote;
    }

    StageChange change() { return changeTo(rig_, tree_, next_); }
    std::string conflictsText() {
        std::string text;
        for (const Conflict& conflict : rig_.driver()->conflicts(change())) text += describe(conflict) + "\n";
        return text;
    }
    static std::string messageOf(const std::function<void()>& act) {
        try {
            act();
        } catch (const Error& error) {
            return std::string(error.what()) + " -- " + error.hint();
        }
        return "";
    }

    Tree tree_ = {{"src", folder()}, {"src/a", file("one\n")}, {"src/b", file("two\n", 0755)}, {"gone", file("x\n")}};
    Tree next_ = {{"src", folder()}, {"src/a", file("uno\n")}, {"src/b", file("two\n", 0644)}, {"link", link("src/a")}};
    DriverRig rig_;
};

TEST_F(BranchStage, MakesOneCommitThatSaysWhoAndWhat) {
    StageChange one = change();
    one.author = "Alice Ä <alice@example.org>";
    const std::string before = tip();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(one);
    EXPECT_EQ(tip(), before);
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(says("rev-parse staging^"), before);
    EXPECT_EQ(says("log -1 --format='%an <%ae>|%cn|%B' staging"),
              "Alice Ä <alice@example.org>|Gradus|Fix the login\n\nGradus-Change: c12.1");
    EXPECT_EQ(says("ls-tree -r staging --format='%(objectmode) %(path)'"), "120000 link\n100644 src/a\n100644 src/b");
}

TEST_F(BranchStage, TheFileMayNameTheAuthorAndTheFirstLine) {
    rig_.setText("author", "Bot <bot@example.org>");
    rig_.setText("message", "promote by gradus");
    EXPECT_TRUE(rig_.driver()->apply(rig_.driver()->checkpoint(change())).applied);
    EXPECT_EQ(says("log -1 --format='%an <%ae>|%B' staging"),
              "Bot <bot@example.org>|promote by gradus\n\nFix the login\n\nGradus-Change: c12.1");
    rig_.setText("author", "nobody in particular");
    EXPECT_NE(messageOf([&] { rig_.driver()->checkpoint(changeTo(rig_, next_, tree_)); }).find("author = "),
              std::string::npos);
}

TEST_F(BranchStage, WorkTreeAndIndexAreUntouched) {
    std::ofstream(rig_.project() / "src/a") << "edited\n";
    git(rig_.project(), "add src/a");
    std::ofstream(rig_.project() / "untracked") << "mine\n";
    const Tree before = rig_.world();
    const std::string status = says("status --porcelain -uall");
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(difference(rig_.world(), before), "");
    EXPECT_EQ(says("status --porcelain -uall"), status);
    EXPECT_EQ(says("symbolic-ref HEAD"), "refs/heads/main");
}

TEST_F(BranchStage, SomebodyWhoCommitsInBetweenWinsAndNothingIsLost) {
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    commitElsewhere(rig_.project(), "staging");
    const std::string theirs = tip();
    const ApplyOutcome outcome = rig_.driver()->apply(checkpoint);
    EXPECT_FALSE(outcome.applied);
    ASSERT_EQ(outcome.conflicts.size(), 1U);
    EXPECT_EQ(outcome.conflicts.front().found, theirs);
    EXPECT_EQ(tip(), theirs);
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kBefore);
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(tip(), theirs);
}

TEST_F(BranchStage, CommitsOnTopOfOursAreKeptAndSaid) {
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    commitElsewhere(rig_.project(), "staging");
    const std::string theirs = tip();
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kAfter);
    const auto obstruction = rig_.driver()->obstruction(checkpoint);
    ASSERT_TRUE(obstruction) << "whoever asks for it is told before";
    EXPECT_NE(obstruction->cure.find("git revert"), std::string::npos) << obstruction->cure;
    const RollbackOutcome back = rig_.driver()->rollback(checkpoint);
    EXPECT_TRUE(back.complete);
    ASSERT_EQ(back.kept.size(), 1U);
    EXPECT_NE(back.kept.front().reason.find("git revert"), std::string::npos);
    EXPECT_EQ(tip(), theirs);
}

TEST_F(BranchStage, ABranchThatWasCheckedOutSinceIsSaidBeforeGoingBack) {
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_FALSE(rig_.driver()->obstruction(checkpoint));
    git(rig_.project(), "worktree add -q '" + (rig_.base() / "linked").native() + "' staging");
    const auto found = rig_.driver()->obstruction(checkpoint);
    ASSERT_TRUE(found);
    EXPECT_NE(found->reason.find("switch --detach"), std::string::npos) << found->reason;
    git(rig_.base() / "linked", "switch -q --detach");
    EXPECT_FALSE(rig_.driver()->obstruction(checkpoint));
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
}

TEST_F(BranchStage, ARemoteThatIsOutOfReachIsSaidBeforeGoingBack) {
    const fs::path remote = withRemote();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    fs::rename(remote, rig_.base() / "away");
    const auto found = rig_.driver()->obstruction(checkpoint);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->code, ErrorCode::kInfrastructure);
    EXPECT_NE(found->reason.find("origin"), std::string::npos) << found->reason;
    fs::rename(rig_.base() / "away", remote);
    EXPECT_FALSE(rig_.driver()->obstruction(checkpoint));
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
}

TEST_F(BranchStage, ABranchThatIsCheckedOutIsRefusedWithTheCure) {
    git(rig_.project(), "worktree add -q '" + (rig_.base() / "linked").native() + "' staging");
    const std::string before = tip();
    const std::string said = messageOf([&] { rig_.driver()->held(); });
    EXPECT_NE(said.find((rig_.base() / "linked").native()), std::string::npos) << said;
    EXPECT_NE(said.find("switch --detach"), std::string::npos) << said;
    EXPECT_NE(conflictsText().find("checked out in"), std::string::npos);
    EXPECT_THROW(rig_.driver()->checkpoint(change()), Error);
    EXPECT_EQ(tip(), before);
    rig_.setText("branch", "main");
    EXPECT_THROW(rig_.driver()->held(), Error) << "checked out in the main work tree";
}

TEST_F(BranchStage, ABranchThatWasCheckedOutMeanwhileIsNotMovedUnderItsWorkTree) {
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    const std::string ours = tip();
    git(rig_.project(), "worktree add -q '" + (rig_.base() / "linked").native() + "' staging");
    const RollbackOutcome back = rig_.driver()->rollback(checkpoint);
    EXPECT_FALSE(back.complete);
    EXPECT_EQ(back.problems.size(), 1U);
    EXPECT_EQ(tip(), ours);
    git(rig_.base() / "linked", "switch -q --detach");
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_NE(tip(), ours);
}

TEST_F(BranchStage, NoHookRunsAndNoConfigurationHasASay) {
    const fs::path witness = rig_.base() / "state" / "witness";
    const fs::path remote = withRemote();
    for (const fs::path& directory : {rig_.project() / ".git", remote})
        for (const char* hook : {"reference-transaction", "post-commit", "pre-commit", "commit-msg", "update",
                                 "pre-receive", "post-receive", "post-update", "pre-push", "post-index-change"}) {
            const fs::path path = directory / "hooks" / hook;
            fs::create_directories(path.parent_path());
            std::ofstream(path) << "#!/bin/sh\necho " << hook << " >> '" << witness.native() << "'\nexit 1\n";
            fs::permissions(path, fs::perms::owner_all);
        }
    git(rig_.project(), "config commit.gpgSign true && git config core.autocrlf true && git config user.name other");
    std::ofstream(rig_.base() / ".gitconfig") << "[user]\nname = mallory\n[core]\nhooksPath = /nowhere\n";
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(says("log -1 --format='%an|%cn' staging"), "Gradus|Gradus");
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    rig_.driver()->tidy({});
    EXPECT_FALSE(fs::exists(witness)) << outputOf("cat '" + witness.native() + "'");
}

TEST_F(BranchStage, WhatIsPreparedSurvivesACollectionOfGarbage) {
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_NE(says("for-each-ref refs/gradus"), "");
    git(rig_.project(), "gc -q --prune=now");
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(says("fsck --no-dangling"), "");
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(says("for-each-ref refs/gradus"), "");
}

TEST_F(BranchStage, PushesWhatLandsAndTakesItBack) {
    const fs::path remote = withRemote();
    const std::string before = says(remote, "rev-parse staging");
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_EQ(says(remote, "rev-parse staging"), before);
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(says(remote, "rev-parse staging"), tip());
    EXPECT_EQ(says(remote, "fsck --no-dangling"), "notice: HEAD points to an unborn branch (master)");
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(says(remote, "rev-parse staging"), before);
}

TEST_F(BranchStage, ARemoteThatMovedBeforeIsAConflictAndTheBranchHereGoesBack) {
    const fs::path remote = withRemote();
    const std::string here = tip();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    commitElsewhere(remote, "staging");
    const std::string there = says(remote, "rev-parse staging");
    const ApplyOutcome outcome = rig_.driver()->apply(checkpoint);
    EXPECT_FALSE(outcome.applied);
    ASSERT_EQ(outcome.conflicts.size(), 1U);
    EXPECT_EQ(outcome.conflicts.front().path, "origin/staging");
    EXPECT_EQ(tip(), here);
    EXPECT_EQ(says(remote, "rev-parse staging"), there);
    EXPECT_NE(conflictsText().find("which is not on the branch here"), std::string::npos) << conflictsText();
}

TEST_F(BranchStage, ARemoteThatMovedOnPastOurCommitIsKeptAndSaid) {
    const fs::path remote = withRemote();
    const std::string here = tip();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    commitElsewhere(remote, "staging");
    const std::string there = says(remote, "rev-parse staging");
    const RollbackOutcome back = rig_.driver()->rollback(checkpoint);
    EXPECT_TRUE(back.complete);
    ASSERT_EQ(back.kept.size(), 1U);
    EXPECT_EQ(back.kept.front().path, "origin/staging");
    EXPECT_EQ(says(remote, "rev-parse staging"), there);
    EXPECT_EQ(tip(), here);
}

TEST_F(BranchStage, ARemoteThatIsGoneDoesNotKeepTheBranchHereFromGoingBack) {
    const fs::path remote = withRemote();
    const std::string here = tip();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    fs::rename(remote, rig_.base() / "elsewhere");
    const RollbackOutcome back = rig_.driver()->rollback(checkpoint);
    EXPECT_FALSE(back.complete);
    EXPECT_EQ(back.problems.size(), 1U);
    EXPECT_EQ(tip(), here);
}

TEST_F(BranchStage, ARemoteThatShowsTheBranchInAWorkTreeIsRefusedWithTheCure) {
    const fs::path remote = rig_.base() / "worked";
    git(rig_.project(), "clone -q -b staging . '" + remote.native() + "' && git remote add origin ../worked/.git");
    rig_.setNumber("push", 1);
    rig_.setText("remote", "origin");
    EXPECT_NE(conflictsText().find("git -C " + remote.native() + " switch --detach"), std::string::npos)
        << conflictsText();
    git(remote, "switch -q --detach");
    EXPECT_EQ(conflictsText(), "");
    EXPECT_TRUE(rig_.driver()->apply(rig_.driver()->checkpoint(change())).applied);
    EXPECT_EQ(says(remote, "rev-parse staging"), tip());
}

TEST_F(BranchStage, ARemoteElsewhereIsRefusedWithTheReason) {
    rig_.setNumber("push", 1);
    rig_.setText("remote", "origin");
    EXPECT_NE(messageOf([&] { rig_.driver()->conflicts(change()); }).find("remote add"), std::string::npos);
    git(rig_.project(), "remote add origin x");
    for (const char* url : {"ssh://git@host/shop.git", "git@host:shop.git", "https://host/shop", "ext::sh -c true"}) {
        git(rig_.project(), "config remote.origin.url '" + std::string(url) + "'");
        const std::string said = messageOf([&] { rig_.driver()->checkpoint(change()); });
        EXPECT_NE(said.find("no path on this machine"), std::string::npos) << url << ": " << said;
    }
}

TEST_F(BranchStage, AnEmptyBranchBeginsAsTheSeedAndGoesBackToNothing) {
    rig_.setText("branch", "fresh/one");
    EXPECT_FALSE(rig_.driver()->held());
    std::ofstream(rig_.project() / "ignored") << "no\n";
    std::ofstream(rig_.project() / "with \"quotes\" and more") << "yes\n";
    StageChange one = change();
    one.seed = rig_.project();
    one.leftOut = {"ignored"};
    const Checkpoint checkpoint = rig_.driver()->checkpoint(one);
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    Tree expected = next_;
    expected["with \"quotes\" and more"] = file("yes\n");
    EXPECT_EQ(difference(plain(committedTree(rig_.base(), rig_.project(), "fresh/one")), expected), "");
    EXPECT_EQ(difference(plain(readTree(rig_.driver()->held()->directory)), expected), "");
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_FALSE(rig_.driver()->held());
    EXPECT_EQ(says("for-each-ref refs/heads/fresh refs/gradus"), "");
}

TEST_F(BranchStage, AProjectInARepositoryChangesItsOwnDirectoryAlone) {
    const fs::path around = rig_.base() / "around";
    fs::create_directories(around / "app");
    build(around / "app", tree_);
    std::ofstream(around / "other") << "not the project's\n";
    git(around,
        "init -q -b main && git add -A && git -c user.name=a -c user.email=a@b commit -q -m x && git branch staging");
    rig_.setText("repository", (around / "app").native());
    EXPECT_EQ(difference(plain(readTree(rig_.driver()->held()->directory)), tree_), "");
    EXPECT_TRUE(rig_.driver()->apply(rig_.driver()->checkpoint(change())).applied);
    EXPECT_EQ(says(around, "ls-tree -r --name-only staging"), "app/link\napp/src/a\napp/src/b\nother");
}

TEST_F(BranchStage, RefusesNamesThatLeadElsewhere) {
    for (const char* name : {"refs/heads/staging", "a..b", "-x ", "a b", "x.lock"}) {
        rig_.setText("branch", name);
        EXPECT_THROW(rig_.driver()->identity(), Error) << name;
    }
    rig_.setText("branch", "alias");
    git(rig_.project(), "symbolic-ref refs/heads/alias refs/heads/staging");
    EXPECT_NE(messageOf([&] { rig_.driver()->held(); }).find("another name for another branch"), std::string::npos);
    rig_.setText("repository", "../nothing-here");
    EXPECT_NE(messageOf([&] { rig_.driver(); }).find("git init --bare"), std::string::npos);
}

TEST_F(BranchStage, FilesThatGitKeepsInAnotherFormAreRefused) {
    tree_[".gitattributes"] = file("*.bin filter=lfs\n");
    std::ofstream(rig_.project() / ".gitattributes") << "*.bin filter=lfs\n";
    git(rig_.project(), "add -A && git commit -q -m attributes && git branch -f staging");
    next_[".gitattributes"] = tree_[".gitattributes"];
    next_["big.bin"] = file("large\n");
    EXPECT_NE(conflictsText().find("filter=lfs"), std::string::npos) << conflictsText();
    EXPECT_THROW(rig_.driver()->checkpoint(change()), Error);
}

TEST_F(BranchStage, OneRepositoryAndBranchIsOneTargetWhicheverWayItIsNamed) {
    const TargetIdentity first = rig_.driver()->identity();
    rig_.setText("repository", rig_.project() / ".git");
    EXPECT_EQ(rig_.driver()->identity().canonical, first.canonical);
    git(rig_.project(), "worktree add -q --detach '" + (rig_.base() / "linked").native() + "'");
    rig_.setText("repository", rig_.base() / "linked");
    EXPECT_EQ(rig_.driver()->identity().canonical, first.canonical);
    EXPECT_EQ(rig_.driver()->identity().marker, first.marker);
    rig_.setText("branch", "other");
    EXPECT_NE(rig_.driver()->identity().canonical, first.canonical);
}

}  // namespace
}  // namespace gradus::test
