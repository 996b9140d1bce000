// Releases and the link to the one in use.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "stages/drivers/release_link.h"
#include "tests/stages/drivers/release_fixture.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;
using Observed = StageDriver::Observed;

HostOutcome exitWith(int code) {
    HostOutcome outcome;
    outcome.exitCode = code;
    return outcome;
}

std::string environmentOf(const HostCommand& command, const std::string& name) {
    for (const std::string& entry : command.environment)
        if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    return "(not set)";
}

class ReleaseDirectory : public ReleaseFixture {};

TEST_F(ReleaseDirectory, AnEmptyStageIsSeededAndGoesBackToNothingAtAll) {
    GRADUS_CASES("I22");
    const Tree before = rig_.world();
    EXPECT_EQ(rig_.driver()->held(), std::nullopt);
    {
        const TargetLock lock = rig_.lock();
        const Checkpoint checkpoint = promote(seeded(next_));
        EXPECT_EQ(difference(plain(readTree(current())), next_), "");
        EXPECT_TRUE(rig_.driver()->held());
        EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
        EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kBefore);
    }
    EXPECT_EQ(difference(rig_.world(), before), "");
    EXPECT_EQ(rig_.driver()->held(), std::nullopt);
}

TEST_F(ReleaseDirectory, ADirectoryThatSomebodyHadMadeStays) {
    fs::create_directories(rig_.target() / "shared");
    const TargetLock lock = rig_.lock();
    const Tree before = rig_.world();
    const Checkpoint checkpoint = promote(seeded(next_));
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(difference(rig_.world(), before), "");
}

TEST_F(ReleaseDirectory, SeedsNeitherWhatIsLeftOutNorGit) {
    const TargetLock lock = rig_.lock();
    fs::create_directories(rig_.project() / "node_modules/x");
    fs::create_directories(rig_.project() / "sub");
    write(rig_.project() / "sub/.git", "gitdir: ../.git/modules/sub\n");
    write(rig_.project() / "sub/file", "of a submodule\n");
    write(rig_.project() / "debug.log", "ignored\n");
    StageChange change = seeded(next_);
    change.leftOut = {"node_modules", "debug.log"};
    promote(change);
    Tree expected = next_;
    expected["sub"] = folder();
    EXPECT_EQ(difference(plain(readTree(current())), expected), "");
}

TEST_F(ReleaseDirectory, KeepsOwnersModesTimesAndNeverLinksContents) {
    const TargetLock lock = rig_.lock();
    const timespec old[2] = {{1'000'000, 5}, {1'000'000, 5}};
    ::utimensat(AT_FDCWD, (rig_.project() / "etc/conf").c_str(), old, 0);
    const uid_t owner = isRoot() ? 1234 : ::geteuid();
    ASSERT_EQ(::chown((rig_.project() / "etc/conf").c_str(), owner, static_cast<gid_t>(-1)), 0);
    promote(seeded(next_));
    const fs::path first = current();
    Tree last = next_;
    last["app"] = file("version 3\n", 0755);
    promote(changeTo(rig_, next_, last));
    EXPECT_NE(current(), first);
    struct stat copied {};
    ASSERT_EQ(::stat((current() / "etc/conf").c_str(), &copied), 0);
    EXPECT_EQ(copied.st_mtim.tv_sec, 1'000'000);
    EXPECT_EQ(copied.st_mode & 07777U, 0640U);
    EXPECT_EQ(copied.st_nlink, 1U);
    EXPECT_EQ(copied.st_uid, owner);
    // An edit of one release is none of the other.
    std::ofstream(current() / "etc/conf", std::ios::app) << "b=2\n";
    EXPECT_EQ(read(first / "etc/conf"), "a=1\n");
}

TEST_F(ReleaseDirectory, EverythingIsSyncedBeforeTheLinkIsSwitched) {
    const TargetLock lock = rig_.lock();
    std::size_t lastWrite = 0;
    std::size_t lastSync = 0;
    std::size_t shown = 0;
    WatchedOperations files([&](std::size_t number, std::string_view call, std::string_view name) {
        const bool isContent = call == "create" || call == "write" || call == "symlink" || call == "mkdir";
        if (isContent && shown == 0 && lastSync == 0) lastWrite = number;
        if (call == "syncfs") lastSync = number;
        if (name == ".gradus-current>current") shown = number;
        return 0;
    });
    const auto driver = rig_.driver(files);
    driver->apply(driver->checkpoint(seeded(next_)));
    EXPECT_GT(lastWrite, 0U);
    EXPECT_GT(lastSync, lastWrite);
    EXPECT_GT(shown, lastSync);
}

TEST_F(ReleaseDirectory, TellsActivateWhereItIsForwardAndBack) {
    rig_.setList("activate", {"restart", "shop"});
    const TargetLock lock = rig_.lock();
    promote(seeded(next_));
    const std::string first = current().filename();
    Tree last = next_;
    last["app"] = file("version 3\n", 0755);
    const Checkpoint checkpoint = promote(changeTo(rig_, next_, last));
    const std::string second = current().filename();
    rig_.driver()->rollback(checkpoint);
    ASSERT_EQ(rig_.activations.size(), 3U);
    const HostCommand& there = rig_.activations[1];
    EXPECT_EQ(there.arguments, (std::vector<std::string>{"restart", "shop"}));
    EXPECT_EQ(there.directory, rig_.target() / "current");
    EXPECT_EQ(environmentOf(there, "GRADUS_STAGE"), "staging");
    EXPECT_EQ(environmentOf(there, "GRADUS_RELEASE"), second);
    EXPECT_EQ(environmentOf(there, "GRADUS_PREVIOUS"), first);
    EXPECT_EQ(environmentOf(there, "GRADUS_CHANGE"), "c12.1");
    EXPECT_EQ(environmentOf(there, "GRADUS_PROMOTION"), "p7");
    EXPECT_EQ(environmentOf(there, "GRADUS_HOME"), "(not set)");
    EXPECT_EQ(environmentOf(there, "PATH"), "/usr/bin:/bin");
    const HostCommand& back = rig_.activations[2];
    EXPECT_EQ(environmentOf(back, "GRADUS_RELEASE"), first);
    EXPECT_EQ(environmentOf(back, "GRADUS_PREVIOUS"), second);
}

TEST_F(ReleaseDirectory, WhenActivateSaysNoEverythingIsSwitchedBackAndActivatedAgain) {
    rig_.setList("activate", {"restart"});
    const TargetLock lock = rig_.lock();
    promote(seeded(next_));
    const Tree before = rig_.world();
    const std::string first = current().filename();
    rig_.activations.clear();
    rig_.onActivate = [&](const HostCommand& command) {
        return exitWith(environmentOf(command, "GRADUS_RELEASE") == first ? 0 : 3);
    };
    Tree last = next_;
    last["app"] = file("version 3\n", 0755);
    const Checkpoint checkpoint = rig_.driver()->checkpoint(changeTo(rig_, next_, last));
    const ApplyOutcome outcome = rig_.driver()->apply(checkpoint);
    EXPECT_FALSE(outcome.applied);
    EXPECT_EQ(outcome.failure, "activate: exit code 3");
    EXPECT_TRUE(outcome.notes.empty());
    EXPECT_EQ(rig_.activations.size(), 2U);
    EXPECT_EQ(difference(rig_.world(), before), "");
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kBefore);
}

TEST_F(ReleaseDirectory, AFailingActivateAfterGoingBackIsAProblem) {
    rig_.setList("activate", {"restart"});
    const TargetLock lock = rig_.lock();
    promote(seeded(next_));
    Tree last = next_;
    last["app"] = file("version 3\n", 0755);
    const Checkpoint checkpoint = promote(changeTo(rig_, next_, last));
    rig_.onActivate = [](const HostCommand&) { return exitWith(1); };
    const RollbackOutcome outcome = rig_.driver()->rollback(checkpoint);
    EXPECT_FALSE(outcome.complete);
    ASSERT_EQ(outcome.problems.size(), 1U);
    EXPECT_EQ(outcome.problems.front(), "activate, after going back: exit code 1");
    // And once it is well again, so is the stage.
    rig_.onActivate = {};
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
}

TEST_F(ReleaseDirectory, BetweenTheSwitchAndActivateIsBetween) {
    rig_.setList("activate", {"restart"});
    const TargetLock lock = rig_.lock();
    promote(seeded(next_));
    Tree last = next_;
    last["app"] = file("version 3\n", 0755);
    const Checkpoint checkpoint = rig_.driver()->checkpoint(changeTo(rig_, next_, last));
    Observed seen = Observed::kBefore;
    rig_.onActivate = [&](const HostCommand&) {
        seen = rig_.driver()->observe(checkpoint);
        return exitWith(0);
    };
    rig_.driver()->apply(checkpoint);
    EXPECT_EQ(seen, Observed::kBetween);
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kAfter);
}

TEST_F(ReleaseDirectory, SharedPathsLiveBesideAndNoChangeTouchesThem) {
    tree_["uploads"] = folder();
    tree_["uploads/.keep"] = file("");
    tree_["var"] = folder();
    tree_["var/app.db"] = file("rows\n");
    build(rig_.project(),
          {{"uploads", folder()}, {"uploads/.keep", file("")}, {"var", folder()}, {"var/app.db", file("rows\n")}});
    rig_.setList("shared", {"uploads", "var/app.db", "log/deep"});
    const Tree before = rig_.world();
    {
        const TargetLock lock = rig_.lock();
        Tree next = tree_;
        next["app"] = file("version 2\n", 0755);
        const Checkpoint checkpoint = promote(seeded(next));
        EXPECT_EQ(fs::read_symlink(current() / "uploads"), fs::path("../..") / "shared" / "uploads");
        EXPECT_EQ(read(current() / "var/app.db"), "rows\n");
        EXPECT_TRUE(fs::is_directory(current() / "log/deep"));
        StageChange touching;
        touching.changes = ChangeSet({{"uploads/x", std::nullopt, entryOf(file("x")), true}});
        const auto conflicts = rig_.driver()->conflicts(touching);
        ASSERT_EQ(conflicts.size(), 1U);
        EXPECT_EQ(conflicts.front().kind, ConflictKind::kShared);
        EXPECT_THROW(rig_.driver()->checkpoint(touching), Error);
        EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    }
    EXPECT_EQ(difference(rig_.world(), before), "");
}

TEST_F(ReleaseDirectory, WhatARunningReleasePutIntoSharedPathsIsKeptWhenGoingBackToNothing) {
    rig_.setList("shared", {"uploads"});
    const TargetLock lock = rig_.lock();
    const Checkpoint checkpoint = promote(seeded(next_));
    write(current() / "uploads/photo", "of somebody\n");
    const RollbackOutcome outcome = rig_.driver()->rollback(checkpoint);
    EXPECT_TRUE(outcome.problems.empty());
    ASSERT_EQ(outcome.kept.size(), 2U);
    EXPECT_EQ(outcome.kept.front().path, "shared/uploads");
    EXPECT_EQ(read(rig_.target() / "shared/uploads/photo"), "of somebody\n");
    EXPECT_FALSE(fs::exists(fs::symlink_status(rig_.target() / "current")));
}

TEST_F(ReleaseDirectory, AReleaseThatSomebodyEditedIsKeptAndListed) {
    GRADUS_CASES("DL1");
    const TargetLock lock = rig_.lock();
    promote(seeded(next_));
    const fs::path first = current();
    Tree last = next_;
    last["app"] = file("version 3\n", 0755);
    const Checkpoint checkpoint = promote(changeTo(rig_, next_, last));
    const fs::path second = current();
    write(second / "etc/conf", "by hand\n");
    write(second / "note", "added\n");
    const RollbackOutcome outcome = rig_.driver()->rollback(checkpoint);
    EXPECT_TRUE(outcome.complete);
    EXPECT_EQ(current(), first);
    EXPECT_EQ(read(second / "etc/conf"), "by hand\n");
    ASSERT_EQ(outcome.kept.size(), 2U);
    EXPECT_TRUE(outcome.kept[0].path.ends_with("/etc/conf"));
    EXPECT_TRUE(outcome.kept[1].path.ends_with("/note"));
    rig_.driver()->tidy({});
    EXPECT_EQ(read(second / "note"), "added\n");
}

TEST_F(ReleaseDirectory, AnOldReleaseThatIsNotWhatItWasIsAProblem) {
    const TargetLock lock = rig_.lock();
    promote(seeded(next_));
    const fs::path first = current();
    Tree last = next_;
    last["app"] = file("version 3\n", 0755);
    const Checkpoint checkpoint = promote(changeTo(rig_, next_, last));
    write(first / "etc/conf", "rotten\n");
    fs::remove(first / "app");
    const RollbackOutcome outcome = rig_.driver()->rollback(checkpoint);
    EXPECT_FALSE(outcome.complete);
    ASSERT_EQ(outcome.problems.size(), 2U);
    EXPECT_NE(outcome.problems[0].find("it is gone"), std::string::npos) << outcome.problems[0];
    EXPECT_NE(outcome.problems[1].find("it was changed"), std::string::npos) << outcome.problems[1];
    EXPECT_EQ(current(), first);
}

TEST_F(ReleaseDirectory, DoesNotBuildOnAReleaseThatSomebodyChanged) {
    const TargetLock lock = rig_.lock();
    promote(seeded(next_));
    Tree last = next_;
    last["app"] = file("version 3\n", 0755);
    write(current() / "cache.pyc", "added by what runs\n");
    const Checkpoint clean = rig_.driver()->checkpoint(changeTo(rig_, next_, last));
    write(current() / "etc/conf", "by hand\n");
    const std::string why = whyNot([&] { rig_.driver()->checkpoint(changeTo(rig_, next_, last)); });
    EXPECT_NE(why.find("'etc/conf': it was changed"), std::string::npos) << why;
    // Taken as it is, it is what the next one is built on.
    const HeldTree held = rig_.driver()->adopt(StageDriver::Adopting::kTake);
    EXPECT_EQ(held.directory, current());
    promote(changeTo(rig_, next_, last));
    EXPECT_EQ(read(current() / "etc/conf"), "by hand\n");
}

TEST_F(ReleaseDirectory, SomebodyElsesSwitchIsNeitherOverwrittenNorUndone) {
    const TargetLock lock = rig_.lock();
    promote(seeded(next_));
    Tree last = next_;
    last["app"] = file("version 3\n", 0755);
    const Checkpoint checkpoint = rig_.driver()->checkpoint(changeTo(rig_, next_, last));
    fs::create_directories(rig_.target() / "releases/by-hand");
    fs::remove(rig_.target() / "current");
    fs::create_symlink("releases/by-hand", rig_.target() / "current");
    const ApplyOutcome outcome = rig_.driver()->apply(checkpoint);
    EXPECT_FALSE(outcome.applied);
    ASSERT_EQ(outcome.conflicts.size(), 1U);
    EXPECT_EQ(outcome.conflicts.front().found, "releases/by-hand");
    EXPECT_EQ(rig_.driver()->observe(checkpoint), Observed::kBetween);
    const RollbackOutcome back = rig_.driver()->rollback(checkpoint);
    EXPECT_FALSE(back.complete);
    EXPECT_EQ(back.kept.size(), 1U);
    EXPECT_EQ(back.problems.size(), 1U);
    EXPECT_EQ(fs::read_symlink(rig_.target() / "current"), "releases/by-hand");
    EXPECT_NE(whyNot([&] { rig_.driver()->held(); }).find("did not put there"), std::string::npos);
}

TEST_F(ReleaseDirectory, KeepsAsManyReleasesAsItShould) {
    rig_.setNumber("keep", 2);
    const TargetLock lock = rig_.lock();
    Tree tree = next_;
    promote(seeded(next_));
    std::vector<Checkpoint> all;
    for (int version = 3; version < 8; ++version) {
        rig_.clock().advance(Milliseconds(1000));
        Tree next = tree;
        next["app"] = file("version " + std::to_string(version) + "\n", 0755);
        all.push_back(promote(changeTo(rig_, tree, next)));
        tree = next;
    }
    EXPECT_EQ(releases(), 6U);
    rig_.driver()->tidy({all[0], all.back()});
    EXPECT_EQ(releases(), 4U) << "two, and what the needed checkpoints name";
    rig_.driver()->tidy({});
    EXPECT_EQ(releases(), 2U);
    EXPECT_EQ(difference(plain(readTree(current())), tree), "");
}

// Three releases, of which the newest is taken back; somebody's edit keeps it on disk.
TEST_F(ReleaseDirectory, WhatWasTakenBackTakesNoPlaceOfThoseThatAreKept) {
    rig_.setNumber("keep", 2);
    const TargetLock lock = rig_.lock();
    promote(seeded(next_));
    std::vector<Tree> trees{next_};
    std::vector<Checkpoint> all;
    for (const char* text : {"version 3\n", "version 4\n", "version 5\n"}) {
        rig_.clock().advance(Milliseconds(1000));
        Tree next = trees.back();
        next["app"] = file(text, 0755);
        all.push_back(promote(changeTo(rig_, trees.back(), next)));
        trees.push_back(next);
    }
    EXPECT_TRUE(rig_.driver()->rollback(all[2]).complete);
    write(current() / "mine", "an edit");
    EXPECT_TRUE(rig_.driver()->rollback(all[1]).complete);
    EXPECT_EQ(difference(plain(readTree(current())), trees[1]), "");
    rig_.driver()->tidy({});
    EXPECT_EQ(releases(), 3U) << "the one in use, the one before it, and the edit";
    EXPECT_TRUE(rig_.driver()->lost(all[0]).empty());
}

TEST_F(ReleaseDirectory, LeavesReleasesOfOthersAlone) {
    rig_.setNumber("keep", 2);
    const TargetLock lock = rig_.lock();
    promote(seeded(next_));
    fs::create_directories(rig_.target() / "releases/2019-by-hand");
    rig_.driver()->tidy({});
    EXPECT_TRUE(fs::exists(rig_.target() / "releases/2019-by-hand"));
}

TEST_F(ReleaseDirectory, ATargetInTheProjectOrAroundItIsRefused) {
    for (const char* path : {".", "deploy", "..", "/"}) {
        rig_.setText("path", path);
        EXPECT_NE(whyNot([&] { rig_.driver(); }).find("lie in each other"), std::string::npos) << path;
    }
}

TEST_F(ReleaseDirectory, ACurrentThatSomebodySwitchedIsSaidBeforeGoingBack) {
    const TargetLock lock = rig_.lock();
    promote(seeded(tree_));
    const Checkpoint checkpoint = promote(changeTo(rig_, tree_, next_));
    EXPECT_FALSE(rig_.driver()->obstruction(checkpoint));
    const fs::path ours = fs::read_symlink(rig_.target() / "current");
    fs::remove(rig_.target() / "current");
    fs::create_symlink("elsewhere", rig_.target() / "current");
    const auto found = rig_.driver()->obstruction(checkpoint);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->code, ErrorCode::kNotAllowed);
    EXPECT_NE(found->reason.find("switched it to 'elsewhere'"), std::string::npos) << found->reason;
    fs::remove(rig_.target() / "current");
    fs::create_symlink(ours, rig_.target() / "current");
    EXPECT_FALSE(rig_.driver()->obstruction(checkpoint));
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_FALSE(rig_.driver()->obstruction(checkpoint)) << "it is back";
}

}  // namespace
}  // namespace gradus::test
