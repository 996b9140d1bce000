// What moved below a directory, even where its bytes are again what they were.
#include "stages/changes/tree_stamp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "stages/changes/harvest.h"
#include "tests/support/scratch.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<std::string>;

constexpr std::size_t kAll = 100;

class TreeStampTest : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directories(root / ".git/info");
        writeBytes(root / ".git/HEAD", "ref: refs/heads/main\n");
        fs::create_directories(root / ".git/objects");
        fs::create_directories(root / ".git/refs");
        fs::create_directories(root / "src");
        fs::create_directories(root / "ignored");
        writeBytes(root / ".gitignore", "ignored/\n*.log\n");
        writeBytes(root / "src/a", "one");
        writeBytes(root / "b", "two");
        writeBytes(root / "ignored/x", "x");
        writeBytes(root / "c.log", "log");
        tick();
    }
    static void writeBytes(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
    /// Until the file system's clock has gone on twice, so that what happens next has another time: a tick that is
    /// handled late is behind the finer times that the kernel gives to files.
    static void tick() {
        for (int i = 0; i < 2; ++i) {
            const timespec now = fileSystemNow();
            for (timespec next = now; next.tv_sec == now.tv_sec && next.tv_nsec == now.tv_nsec; next = fileSystemNow())
                std::this_thread::yield();
        }
    }
    ScratchDirectory scratch;
    fs::path root = scratch.path();
};

TEST_F(TreeStampTest, NothingMovedWhereNothingWasTouched) {
    const TreeStamp stamp(root);
    EXPECT_EQ(stamp.moved(kAll), Paths{});
    EXPECT_EQ(stamp.movedIgnored(kAll), Paths{});
}

TEST_F(TreeStampTest, AnEditThatWasTakenBackIsSeen) {
    const TreeStamp stamp(root);
    writeBytes(root / "src/a", "other");
    writeBytes(root / "src/a", "one");
    EXPECT_EQ(stamp.moved(kAll), Paths{"src/a"});
}

TEST_F(TreeStampTest, AFileThatCameAndWentIsSeenByItsDirectory) {
    const TreeStamp stamp(root);
    writeBytes(root / "src/new", "text");
    fs::remove(root / "src/new");
    EXPECT_EQ(stamp.moved(kAll), Paths{"src"});
}

TEST_F(TreeStampTest, AnotherFileOfTheSameNameIsSeenWhateverItsTimeSays) {
    writeBytes(root / "src/other", "one");
    tick();
    const TreeStamp stamp(root);
    fs::rename(root / "src/other", root / "src/a");
    const Paths moved = stamp.moved(kAll);
    EXPECT_EQ(moved.front(), "src/a");
    EXPECT_NE(std::ranges::find(moved, "src"), moved.end());
}

TEST_F(TreeStampTest, WhatGitIgnoresIsToldApart) {
    const TreeStamp stamp(root);
    writeBytes(root / "ignored/x", "y");
    writeBytes(root / "c.log", "more");
    EXPECT_EQ(stamp.moved(kAll), Paths{});
    EXPECT_EQ(stamp.movedIgnored(kAll), (Paths{"c.log", "ignored/x"}));
}

}  // namespace
}  // namespace gradus::test
