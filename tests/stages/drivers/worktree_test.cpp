// The project's own work tree, and a commit of the change.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "store/model/error.h"
#include "tests/stages/drivers/driver_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;
using Observed = StageDriver::Observed;

class WorktreeStage : public testing::Test {
  protected:
    WorktreeStage() : rig_("worktree") {
        build(project(), tree_);
        git("config user.name alice && git config user.email alice@example.org");
        git("add -A && git commit -q -m first");
    }

    fs::path project() const { return rig_.project(); }
    void git(const std::string& words) { run("cd '" + project().native() + "' && git " + words); }
    std::string says(const std::string& words) {
        return outputOf("cd '" + project().native() + "' && git " + words + " 2>&1");
    }

    StageChange change() { return changeTo(rig_, tree_, next_); }
    std::string conflictsText(const StageChange& one) {
        std::string text;
        for (const Conflict& conflict : rig_.driver()->conflicts(one)) text += describe(conflict) + "\n";
        return text;
    }
    void expectRefused(const std::string& reason) {
        const Tree before = rig_.world();
        const std::string head = says("rev-parse HEAD");
        EXPECT_NE(conflictsText(change()).find(reason), std::string::npos) << conflictsText(change());
        EXPECT_THROW(rig_.driver()->checkpoint(change()), Error);
        EXPECT_EQ(difference(rig_.world(), before), "");
        EXPECT_EQ(says("rev-parse HEAD"), head);
    }

    Tree tree_ = {{"src", folder()}, {"src/a", file("one\n")}, {"src/b", file("two\n", 0755)}, {"gone", file("x\n")}};
    Tree next_ = {{"src", folder()},
                  {"src/a", file("uno\n")},
                  {"src/b", file("two\n", 0644)},
                  {"src/c", file("three\n", 0755)},
                  {"link", link("src/a")}};
    DriverRig rig_;
};

TEST_F(WorktreeStage, WritesAroundWhatSomebodyElseEdits) {
    GRADUS_CASES("ST8");
    tree_["src/other"] = file("committed\n");
    next_["src/other"] = tree_["src/other"];
    write(project() / "src/other", "committed\n");
    git("add -A && git commit -q -m more");
    write(project() / "src/other", "edited by hand\n");
    write(project() / "untracked", "mine\n");
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(read(project() / "src/a"), "uno\n");
    EXPECT_EQ(read(project() / "src/other"), "edited by hand\n");
    EXPECT_EQ(read(project() / "untracked"), "mine\n");
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(read(project() / "src/other"), "edited by hand\n");
}

TEST_F(WorktreeStage, RefusesToTouchWhatSomebodyEditedOrPutInTheWay) {
    GRADUS_CASES("ST8", "CA12");
    write(project() / "src/a", "edited by hand\n");
    expectRefused("'src/a': it is not what the change expects");
    write(project() / "src/a", "one\n");
    write(project() / "src/c", "untracked, in the way\n");
    expectRefused("'src/c': something is in the way");
}

TEST_F(WorktreeStage, RefusesToDeleteWhatSomebodyHasMadeMeanwhile) {
    GRADUS_CASES("DL2");
    next_.erase("src/a");
    next_.erase("src/b");
    next_.erase("src/c");
    next_.erase("src");
    write(project() / "src/untracked", "mine\n");
    expectRefused("'src': the directory is not empty");
}

TEST_F(WorktreeStage, SaysWhatItCannotTakeBackAnyMore) {
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_TRUE(rig_.driver()->lost(checkpoint).empty());
    const fs::path undo = rig_.objects().pathOf(checkpoint.objects.front());
    fs::rename(undo, rig_.base() / "undo");
    EXPECT_EQ(rig_.driver()->lost(checkpoint),
              std::vector<std::string>{"the copy of what it replaced is not kept any more"});
    fs::rename(rig_.base() / "undo", undo);
    rig_.driver()->tidy({});
    EXPECT_EQ(rig_.driver()->lost(checkpoint),
              std::vector<std::string>{"the journal of what it wrote is not kept any more"});
}

TEST_F(WorktreeStage, WhatStandsInTheWayIsSaidBeforeGoingBack) {
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_FALSE(rig_.driver()->obstruction(checkpoint));
    fs::rename(project() / "src", rig_.base() / "moved");
    fs::create_symlink(rig_.base() / "moved", project() / "src");
    const auto found = rig_.driver()->obstruction(checkpoint);
    ASSERT_TRUE(found);
    EXPECT_NE(found->reason.find("'src/a'"), std::string::npos) << found->reason;
    EXPECT_NE(found->reason.find("symbolic link"), std::string::npos) << found->reason;
    fs::remove(project() / "src");
    fs::rename(rig_.base() / "moved", project() / "src");
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_FALSE(rig_.driver()->obstruction(checkpoint));
}

// What a person takes as it is stays so: nothing of the way back that got stuck is gone on with later.
TEST_F(WorktreeStage, AdoptingEndsAWayBackThatWasCutOff) {
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    fs::rename(project() / "src", rig_.base() / "moved");
    fs::create_symlink(rig_.base() / "moved", project() / "src");
    ASSERT_FALSE(rig_.driver()->rollback(checkpoint).complete);
    fs::remove(project() / "src");
    fs::rename(rig_.base() / "moved", project() / "src");
    const auto isStaging = [](const auto& entry) {
        return entry.path().filename().native().starts_with(".gradus-staging-");
    };
    const auto stagings = [&] { return std::ranges::count_if(fs::directory_iterator(project()), isStaging); };
    rig_.driver()->adopt(StageDriver::Adopting::kLook);
    const Digest adopted = rig_.driver()->adopt(StageDriver::Adopting::kTake).digest;
    EXPECT_EQ(stagings(), 0);
    EXPECT_EQ(read(project() / "src/a"), "uno\n");
    rig_.driver()->tidy({});
    EXPECT_EQ(read(project() / "src/a"), "uno\n");
    EXPECT_EQ(rig_.driver()->held()->digest, adopted);
}

class WorktreeStageReplaced : public WorktreeStage {
  protected:
    /// Another directory with the same content at the same path; both are there at once, so it has another inode.
    void replace() {
        run("cp -a '" + project().native() + "' '" + (rig_.base() / "clone").native() + "'");
        fs::rename(project(), rig_.base() / "old");
        fs::rename(rig_.base() / "clone", project());
    }
    std::vector<std::string> journals() const {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(rig_.state() / "journals"))
            names.push_back(entry.path().extension());
        return names;
    }
};

TEST_F(WorktreeStageReplaced, GoesOnInADirectoryThatTookThePlaceOfTheOldOne) {
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    replace();
    const Tree before = rig_.world();
    rig_.driver()->tidy({checkpoint});
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kBefore);
    const RollbackOutcome outcome = rig_.driver()->rollback(checkpoint);
    EXPECT_TRUE(outcome.complete && outcome.problems.empty());
    ASSERT_EQ(outcome.kept.size(), 1U);
    EXPECT_NE(outcome.kept.front().reason.find("is gone"), std::string::npos);
    EXPECT_EQ(difference(rig_.world(), before), "") << "what an old journal says is not done to another directory";
    rig_.driver()->tidy({});
    EXPECT_TRUE(journals().empty());
    const Tree further{{"src", folder()}, {"src/a", file("tre\n")}};
    const StageChange next = changeTo(rig_, {{"src", folder()}, {"src/a", file("uno\n")}}, further);
    EXPECT_TRUE(rig_.driver()->apply(rig_.driver()->checkpoint(next)).applied);
    EXPECT_EQ(read(project() / "src/a"), "tre\n");
}

TEST_F(WorktreeStageReplaced, SetsAsideWhatWasNotFinishedInTheOldDirectory) {
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    replace();
    const Tree before = rig_.world();
    rig_.driver()->tidy({});
    EXPECT_EQ(journals(), std::vector<std::string>{".aside"});
    EXPECT_EQ(difference(rig_.world(), before), "");
    EXPECT_TRUE(rig_.driver()->apply(rig_.driver()->checkpoint(change())).applied);
    EXPECT_EQ(read(project() / "src/a"), "uno\n");
}

TEST_F(WorktreeStage, KeepsAndListsWhatWasEditedBeforeGoingBack) {
    GRADUS_CASES("DL1");
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    rig_.driver()->apply(checkpoint);
    write(project() / "src/a", "edited after it landed\n");
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kAfter);
    const RollbackOutcome outcome = rig_.driver()->rollback(checkpoint);
    EXPECT_TRUE(outcome.complete);
    ASSERT_EQ(outcome.kept.size(), 1U);
    EXPECT_EQ(outcome.kept.front().path, "src/a");
    EXPECT_EQ(read(project() / "src/a"), "edited after it landed\n");
    EXPECT_EQ(read(project() / "gone"), "x\n");
}

TEST_F(WorktreeStage, ItsMarkerIsNoFileOfTheTree) {
    const TargetLock lock = rig_.lock();
    EXPECT_EQ(says("status --porcelain"), "");
    EXPECT_EQ(rig_.driver()->identity().marker, fs::canonical(project()) / ".git/gradus-target");
    EXPECT_TRUE(TargetLock::claimOf(rig_.driver()->identity().marker));
}

TEST_F(WorktreeStage, ALinkedWorkTreeHasAMarkerOfItsOwn) {
    const fs::path first = rig_.driver()->identity().marker;
    git("worktree add -q ../linked");
    const fs::path main = rig_.base() / "main";
    fs::rename(project(), main);
    run("git -C '" + main.native() + "' worktree repair '" + (rig_.base() / "linked").native() + "'");
    fs::rename(rig_.base() / "linked", project());
    run("git -C '" + main.native() + "' worktree repair '" + project().native() + "'");
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    EXPECT_EQ(rig_.driver()->identity().marker.parent_path().filename(), "linked");
    EXPECT_NE(rig_.driver()->identity().marker, first);
    EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(says("status --porcelain"), "");
}

TEST_F(WorktreeStage, AGitDirectoryThatIsNotTheTreesOwnIsRefused) {
    GRADUS_CASES("CA14");
    fs::rename(project() / ".git", rig_.base() / "elsewhere");
    fs::create_directories(rig_.base() / "elsewhere/worktrees/x");
    write(rig_.base() / "elsewhere/worktrees/x/commondir", "../..\n");
    write(rig_.base() / "elsewhere/worktrees/x/HEAD", "ref: refs/heads/main\n");
    write(rig_.base() / "elsewhere/worktrees/x/gitdir", "/somewhere/else/.git\n");
    write(project() / ".git", "gitdir: " + (rig_.base() / "elsewhere/worktrees/x").native() + "\n");
    EXPECT_THROW(rig_.driver()->identity(), Error);
    EXPECT_THROW(rig_.driver()->checkpoint(change()), Error);
    if (!isRoot()) return;
    fs::remove(project() / ".git");
    fs::rename(rig_.base() / "elsewhere", project() / ".git");
    EXPECT_NO_THROW(rig_.driver()->identity());
    ASSERT_EQ(::chown((project() / ".git").c_str(), 4711, 4711), 0);
    EXPECT_THROW(rig_.driver()->identity(), Error);
}

TEST_F(WorktreeStage, LeavesSubmodulesAloneAndSaysSo) {
    GRADUS_CASES("CA5");
    fs::create_directories(project() / "sub/dir");
    write(project() / "sub/.git", "gitdir: ../.git/modules/sub\n");
    next_ = tree_;
    next_["sub/dir/x"] = file("into a submodule\n");
    expectRefused("'sub/dir/x': it lies in another repository, which is left alone");
}

class CommitStage : public WorktreeStage {
  protected:
    CommitStage() { rig_.setNumber("commit", 1); }
    Checkpoint promote() {
        StageChange one = change();
        one.author = "Bot <bot@example.org>";
        Checkpoint checkpoint = rig_.driver()->checkpoint(one);
        const ApplyOutcome outcome = rig_.driver()->apply(checkpoint);
        EXPECT_TRUE(outcome.applied && outcome.notes.empty());
        return checkpoint;
    }
    /// The files are back, and what the answer advises makes them a commit.
    void expectCompletedByACommit(const RollbackOutcome& outcome) {
        EXPECT_EQ(read(project() / "src/a"), "one\n");
        EXPECT_NE(outcome.kept.front().reason.find("'git commit' completes it"), std::string::npos)
            << outcome.kept.front().reason;
        git("commit -q -m back");
        EXPECT_EQ(says("status --porcelain"), "");
        EXPECT_EQ(says("show HEAD:src/a"), "one\n");
        EXPECT_EQ(says("show HEAD:gone"), "x\n");
    }
};

TEST_F(CommitStage, WritingTheIndexRunsNoFilterOfTheRepository) {
    GRADUS_CASES("CA16");
    const fs::path canary = rig_.base() / "canary";
    tree_["racy"] = file("same\n");
    next_["racy"] = tree_["racy"];
    write(project() / "racy", "same\n");
    git("add -A && git commit -q -m racy");
    // One is named in a file that the configuration includes.
    write(project() / ".git/more", "[filter \"Up.x\"]\n\tclean = touch '" + canary.native() + "'; cat\n");
    git("config include.path more");
    write(project() / ".git/info/attributes", "racy filter=Up.x\n");
    // Of the size and the time that the index has, and written when the index was: git looks into it again.
    const auto race = [&] {
        run("cd '" + project().native() +
            "' && touch racy && git -c filter.Up.x.clean= update-index racy && touch -r racy "
            ".git/index");
        fs::remove(canary);
    };
    race();
    write(rig_.base() / "other", "x\n");
    says("update-index --add --cacheinfo 100644,$(git hash-object -w ../other),other");
    ASSERT_TRUE(fs::exists(canary)) << "the trap works";
    says("update-index --force-remove other");
    race();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    ASSERT_TRUE(rig_.driver()->apply(checkpoint).applied);
    EXPECT_FALSE(fs::exists(canary));
    race();
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_FALSE(fs::exists(canary));
}

TEST_F(CommitStage, TheChangeAndNothingElseIsCommitted) {
    write(project() / "staged", "staged by hand\n");
    git("add staged");
    write(project() / "untracked", "mine\n");
    const std::string before = says("status --porcelain") + says("rev-parse HEAD");
    const Checkpoint checkpoint = promote();
    EXPECT_EQ(says("log -1 --format='%an <%ae>|%s|%(trailers:only,unfold)'"),
              "Bot <bot@example.org>|Fix the login|Gradus-Change: c12.1\n\n");
    EXPECT_EQ(says("show --format= --name-status --no-renames HEAD"),
              "D\tgone\nA\tlink\nM\tsrc/a\nM\tsrc/b\nA\tsrc/c\n");
    EXPECT_EQ(says("status --porcelain"), "A  staged\n?? untracked\n");
    EXPECT_EQ(says("fsck --strict"), "");
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kAfter);
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(says("status --porcelain") + says("rev-parse HEAD"), before);
}

TEST_F(CommitStage, NothingThatTheRepositoryNamesIsRun) {
    GRADUS_CASES("CA16");
    const std::string canary = (rig_.base() / "canary").native();
    for (const char* hook : {"pre-commit", "post-commit", "reference-transaction", "post-index-change", "commit-msg"}) {
        write(project() / ".git/hooks" / hook, "#!/bin/sh\ntouch '" + canary + "'\n");
        fs::permissions(project() / ".git/hooks" / hook, fs::perms::all);
    }
    git("config core.fsmonitor 'touch " + canary + "' && git config filter.x.clean 'touch " + canary +
        "; cat' && git config commit.gpgsign true && git config gpg.program 'touch " + canary + "'");
    fs::remove(canary);
    promote();
    EXPECT_FALSE(fs::exists(canary));
}

TEST_F(CommitStage, WhatIsNotCommittedYetIsNotTakenAlong) {
    write(project() / "src/a", "staged by hand\n");
    git("add src/a");
    write(project() / "src/a", "one\n");
    expectRefused("'src/a': a commit would take along what you have not committed; found another version is staged");
    git("reset -q");
    tree_["src/a"] = file("edited, and the change knows of it\n");
    write(project() / "src/a", "edited, and the change knows of it\n");
    expectRefused("found edits that are not committed");
}

TEST_F(CommitStage, WhatGitStoresInAnotherFormIsLeftToThePerson) {
    write(project() / ".gitattributes", "src/c filter=lfs\n*.txt text\n");
    git("add .gitattributes && git commit -q -m attributes");
    expectRefused("'src/c': git stores it in another form, so it is left to you to commit; found filter=lfs");
    next_.erase("src/c");
    next_["dos.txt"] = file("a\r\nb\r\n");
    expectRefused("'dos.txt': git stores it in another form");
    next_["dos.txt"] = file("a\nb\n");
    promote();
}

TEST_F(CommitStage, InTheMiddleOfAMergeNothingIsCommitted) {
    write(project() / ".git/MERGE_HEAD", says("rev-parse HEAD"));
    expectRefused("a merge under way");
}

TEST_F(CommitStage, ABranchThatMovedMeanwhileIsAConflictAndTheFilesGoBack) {
    const Tree before = rig_.world();
    const Checkpoint checkpoint = rig_.driver()->checkpoint(change());
    git("commit -q --allow-empty -m faster");
    const ApplyOutcome outcome = rig_.driver()->apply(checkpoint);
    EXPECT_FALSE(outcome.applied);
    ASSERT_EQ(outcome.conflicts.size(), 1U);
    EXPECT_EQ(outcome.conflicts.front().path, "refs/heads/main");
    EXPECT_EQ(difference(rig_.world(), before), "");
    EXPECT_EQ(says("status --porcelain"), "");
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kBefore);
}

TEST_F(CommitStage, CommitsMadeAfterOursKeepItAndAreListed) {
    const Checkpoint checkpoint = promote();
    git("commit -q --allow-empty -m 'on top'");
    const std::string head = says("rev-parse HEAD");
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kAfter);
    const RollbackOutcome outcome = rig_.driver()->rollback(checkpoint);
    ASSERT_EQ(outcome.kept.size(), 1U);
    EXPECT_EQ(outcome.kept.front().path, "refs/heads/main");
    EXPECT_EQ(says("rev-parse HEAD"), head);
    expectCompletedByACommit(outcome);
}

TEST_F(CommitStage, ACommitThatWasAmendedIsListed) {
    const Checkpoint checkpoint = promote();
    git("commit -q --amend -m 'in my words'");
    const RollbackOutcome outcome = rig_.driver()->rollback(checkpoint);
    ASSERT_EQ(outcome.kept.size(), 1U);
    EXPECT_EQ(outcome.kept.front().path, "refs/heads/main");
    expectCompletedByACommit(outcome);
}

TEST_F(CommitStage, AnotherBranchThatHasTheCommitIsListedAndOursGoesBack) {
    const std::string before = says("rev-parse main");
    const Checkpoint checkpoint = promote();
    git("checkout -q -b other");
    const RollbackOutcome outcome = rig_.driver()->rollback(checkpoint);
    EXPECT_EQ(says("rev-parse main"), before);
    ASSERT_EQ(outcome.kept.size(), 1U);
    EXPECT_EQ(outcome.kept.front().path, "refs/heads/other");
    EXPECT_EQ(rig_.driver()->rollback(checkpoint).kept, outcome.kept);
    expectCompletedByACommit(outcome);
}

TEST_F(CommitStage, CommitsAfterOursOnABranchThatIsNotCheckedOutAreRevertedThere) {
    const Checkpoint checkpoint = promote();
    const std::string ours = says("rev-parse --short=12 HEAD");
    git("commit -q --allow-empty -m 'on top' && git checkout -q -b other HEAD~2");
    const RollbackOutcome outcome = rig_.driver()->rollback(checkpoint);
    ASSERT_EQ(outcome.kept.size(), 1U);
    EXPECT_EQ(outcome.kept.front().path, "refs/heads/main");
    const std::string advice = "git revert " + ours.substr(0, 12);
    EXPECT_NE(outcome.kept.front().reason.find("'" + advice + "'"), std::string::npos);
    git("checkout -q main && " + advice + " --no-edit > /dev/null");
    EXPECT_EQ(says("show HEAD:src/a"), "one\n");
}

TEST_F(CommitStage, TheFirstCommitOfARepositoryGoesBackToNone) {
    fs::remove_all(project() / ".git");
    git("init -q -b trunk");
    tree_.clear();
    for (const char* path : {"src/a", "src/b", "gone", "src"}) fs::remove(project() / path);
    const Checkpoint checkpoint = promote();
    EXPECT_EQ(says("log --format=%s"), "Fix the login\n");
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(says("rev-parse --verify -q HEAD; git status --porcelain"), "");
}

TEST_F(CommitStage, ADetachedHeadIsMovedAndNoBranch) {
    git("checkout -q --detach");
    const std::string main = says("rev-parse main");
    const Checkpoint checkpoint = promote();
    EXPECT_EQ(says("rev-parse main"), main);
    EXPECT_EQ(says("rev-parse HEAD~"), main);
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(says("rev-parse HEAD"), main);
}

}  // namespace
}  // namespace gradus::test
