// Somebody edits the project while a sandbox is open on it. What was there before is then not what is there now, and
// harvesting must say so rather than pass a user's edit off as the sandbox's starting point.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "stages/changes/harvest.h"
#include "tests/stages/changes/overlay_rig.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::OverlayRig;
using test::told;
using test::writeText;
using Lines = std::vector<std::string>;

class BaseMovedTest : public test::OverlayTest {};

TEST_F(BaseMovedTest, MarksAFileThatTheUserEditedMeanwhile) {
    writeText(base("f"), "start");
    writeText(base("g"), "start");
    rig().begin();
    writeText(in("f"), "sandbox");
    writeText(in("g"), "sandbox");
    writeText(base("f"), "user");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), (Lines{"modified f ?", "modified g"}));
    EXPECT_EQ(harvest.baseMoved, Lines{"f"});
    EXPECT_EQ(harvest.changes.changes()[0].before, std::nullopt);
    EXPECT_EQ(harvest.changes.changes()[1].before, test::fileEntry("start"));
    EXPECT_EQ(std::ifstream(base("f")).get(), 'u');
}

TEST_F(BaseMovedTest, MarksAFileThatTheUserReplacedDeletedOrMade) {
    writeText(base("replaced"), "start");
    writeText(base("deleted"), "start");
    writeText(base("both-deleted"), "start");
    rig().begin();
    writeText(in("replaced"), "sandbox");
    writeText(in("deleted"), "sandbox");
    writeText(in("made"), "sandbox");
    fs::remove(in("both-deleted"));
    writeText(base("temporary"), "user");
    fs::rename(base("temporary"), base("replaced"));
    fs::remove(base("deleted"));
    fs::remove(base("both-deleted"));
    writeText(base("made"), "user");
    // In a user namespace overlayfs does not note that a file is a copy: then it is new, as far as anybody can see.
    const Lines moved = ::geteuid() == 0 ? Lines{"both-deleted", "deleted", "made", "replaced"}
                                         : Lines{"both-deleted", "made", "replaced"};
    EXPECT_EQ(rig().harvest().baseMoved, moved);
}

TEST_F(BaseMovedTest, KnowsOfAFileBesideOneThatTheUserMade) {
    fs::create_directory(base("d"));
    writeText(base("d/f"), "start");
    rig().begin();
    writeText(in("d/f"), "sandbox");
    writeText(in("d/new"), "sandbox");
    writeText(base("d/other"), "user");
    // This is the same directory as ever, and nothing is where `d/new` belongs.
    EXPECT_EQ(told(rig().harvest()), (Lines{"modified d/f", "added d/new"}));
}

TEST_F(BaseMovedTest, TakesForAnAdditionWhatIsNewInsideAndNotThereOutside) {
    rig().begin();
    writeText(in("file"), "first");
    rig().snapshot();
    writeText(in("file"), "sandbox");
    fs::create_symlink("file", in("link"));
    fs::create_directories(in("d/e"));
    writeText(in("d/e/f"), "sandbox");
    writeText(in("made"), "sandbox");
    writeText(base("other"), "user");
    writeText(base("made"), "user");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest),
              (Lines{"added d", "added d/e", "added d/e/f", "added file", "added link", "modified made ?"}));
    EXPECT_EQ(harvest.baseMoved, Lines{"made"});
}

TEST_F(BaseMovedTest, KnowsADirectoryByTheHandleThatTheOverlayNoted) {
    fs::create_directory(base("d"));
    writeText(base("d/f"), "start");
    rig().begin();
    writeText(in("d/f"), "sandbox");
    writeText(base("d/other"), "user");
    writeText(base("another"), "user");
    // In a user namespace overlayfs notes no handle: then it is not known, which is the safe side.
    EXPECT_EQ(told(rig().harvest()), Lines{::geteuid() == 0 ? "modified d/f" : "modified d/f ?"});
}

TEST_F(BaseMovedTest, IsNotFooledByAnotherDirectoryOfOldFilesInTheSamePlace) {
    fs::create_directory(base("d"));
    fs::create_directory(base("other"));
    writeText(base("d/f"), "start");
    writeText(base("other/f"), "never seen inside under this name");
    rig().begin();
    writeText(in("d/f"), "sandbox");
    writeText(in("d/new"), "sandbox");
    fs::rename(base("d"), base("away"));
    fs::rename(base("other"), base("d"));
    EXPECT_EQ(rig().harvest().baseMoved, Lines{"d/f"});
}

TEST_F(BaseMovedTest, MarksWhatLiesInADeletedDirectoryThatTheUserWroteTo) {
    fs::create_directory(base("d"));
    writeText(base("d/f"), "start");
    rig().begin();
    fs::remove_all(in("d"));
    writeText(base("d/new"), "user");
    // `d/f` itself is as it was, and so is the way to it.
    EXPECT_EQ(told(rig().harvest()), (Lines{"deleted d ?", "deleted d/f", "deleted d/new ?"}));
}

TEST_F(BaseMovedTest, MarksAChangeOfModeByTheUser) {
    writeText(base("f"), "start");
    rig().begin();
    writeText(in("f"), "sandbox");
    fs::permissions(base("f"), fs::perms(0600));
    EXPECT_EQ(rig().harvest().baseMoved, Lines{"f"});
}

TEST_F(BaseMovedTest, BelievesAPinnedBase) {
    writeText(base("f"), "start");
    rig().begin();
    writeText(in("f"), "sandbox");
    writeText(in("new"), "sandbox");
    HarvestSource source = rig().source();
    source.pinned = true;
    source.since = {};
    EXPECT_EQ(told(harvest(source, {})), (Lines{"modified f", "added new"}));
}

TEST_F(BaseMovedTest, KnowsNothingWhenTheStampIsNotOlderThanTheStart) {
    writeText(base("f"), "start");
    rig().begin();
    writeText(in("f"), "sandbox");
    struct stat info {};
    ASSERT_EQ(::stat(base("f").c_str(), &info), 0);
    HarvestSource source = rig().source();
    source.since = info.st_ctim;
    EXPECT_EQ(harvest(source, {}).baseMoved, Lines{"f"});
}

// The file is read while somebody writes it: whatever the reader got, it may be called known only if it is what was
// there at the start.
TEST_F(BaseMovedTest, NeverTakesAnEditForTheBeginningWhileBothRun) {
    const std::string start(200'000, 's');
    const Entry atStart = test::fileEntry(start);
    int known = 0;
    int unknown = 0;
    for (int round = 0; round < (std::getenv("GRADUS_LONG") != nullptr ? 2000 : 100); ++round) {
        OverlayRig rig;
        for (const char* name : {"a", "b", "c", "d"}) writeText(rig.base / name, start);
        rig.begin();
        for (const char* name : {"a", "b", "c", "d", "absent"}) writeText(rig.merged / name, "sandbox");
        const HarvestSource source = rig.source();
        std::atomic<bool> go = false;
        std::atomic<bool> wrote = false;
        std::thread user([&] {
            while (!go) std::this_thread::yield();
            const FileDescriptor file = openFile(rig.base / "c", O_WRONLY);
            for (off_t at = 0; at < 200'000; at += 50'000) wrote = ::pwrite(file.get(), "user", 4, at) == 4;
            writeText(rig.base / "absent", "user");
        });
        go = true;
        // Sometimes the reader is first, sometimes the writer, mostly neither.
        while (round % 4 == 0 && !wrote) std::this_thread::yield();
        for (int i = 0; i < round % 10 * 3; ++i) std::this_thread::yield();
        const Harvest harvest = gradus::harvest(source, {});
        user.join();
        for (const PathChange& change : harvest.changes.changes()) {
            ++(change.beforeKnown ? known : unknown);
            if (!change.beforeKnown) continue;
            ASSERT_EQ(change.before, change.path == "absent" ? std::nullopt : std::optional(atStart)) << change.path;
        }
    }
    EXPECT_GT(known, 0);
    EXPECT_GT(unknown, 0) << "the writer never met the reader";
}

}  // namespace
}  // namespace gradus
