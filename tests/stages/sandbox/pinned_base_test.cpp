// What a base that stands still is made of: what is copied, what is shown as it is, and who finds out when that moves.
#include "stages/sandbox/pinned_base.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "stages/changes/harvest.h"
#include "stages/sandbox/layer_entries.h"
#include "store/file.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class PinPlanTest : public testing::Test {
  protected:
    test::ScratchDirectory scratch;
    fs::path project = scratch / "project";
    fs::path copy = scratch / "copy";

    void SetUp() override {
        fs::create_directories(copy);
        write("a.txt", "one");
        write("lib/b.txt", "two");
        write(".gitignore", "built/\n*.log\n");
        write(".git/HEAD", "ref: refs/heads/main\n");  // enough of a repository for its rules to hold
        write(".git/objects/aa/bb", "an object");
        write("built/out.o", "machine code");
        write("noise.log", "line");
    }
    void write(const std::string& path, std::string_view text) const {
        fs::create_directories((project / path).parent_path());
        std::ofstream(project / path, std::ios::binary) << text;
    }
    std::string copied(const std::string& path) const {
        return fs::exists(copy / path) ? readSmallFile(copy / path, 4096, "the copy") : "nothing";
    }
    /// Once the clock that stamps files has moved on.
    static timespec later() {
        ::usleep(20'000);
        return fileSystemNow();
    }
    bool isOpaqueAt(const std::string& path) const {
        return isOpaque(openFile(copy / path, O_RDONLY | O_DIRECTORY).get());
    }
    PinPlan plan(const PinBudget& budget = {}) const { return PinPlan::make(project, budget).value(); }
};

TEST_F(PinPlanTest, CopiesEverythingWhereTheIgnoredIsSmall) {
    fs::permissions(project / "a.txt", fs::perms(0640));
    fs::create_symlink("a.txt", project / "link");
    const auto when = fs::last_write_time(project / "lib/b.txt");
    const PinPlan all = plan();
    EXPECT_TRUE(all.shownAsTheyAre().empty());
    EXPECT_TRUE(all.hasGit());
    ASSERT_TRUE(all.copyTo(copy));
    for (const auto& [path, text] : {std::pair{"a.txt", "one"},
                                     {"lib/b.txt", "two"},
                                     {"built/out.o", "machine code"},
                                     {"noise.log", "line"},
                                     {".git/objects/aa/bb", "an object"}})
        EXPECT_EQ(copied(path), text) << path;
    EXPECT_EQ(fs::read_symlink(copy / "link"), "a.txt");
    EXPECT_EQ(fs::status(copy / "a.txt").permissions(), fs::perms(0640));
    EXPECT_EQ(fs::last_write_time(copy / "lib/b.txt"), when);
    // Not the same file: somebody who writes into the one does not write into the other.
    write("a.txt", "changed");
    EXPECT_EQ(copied("a.txt"), "one");
}

TEST_F(PinPlanTest, ShowsWhatIsIgnoredAndLargeAsItIs) {
    write("built/deep/er/x.o", "more");
    write("src/plain.txt", "nothing is shown as it is in here");
    write("lib/built/y.o", "in the middle of what is copied");
    PinBudget small;
    small.mostIgnoredPaths = 1;
    const PinPlan some = plan(small);
    const auto live = some.shownAsTheyAre();
    const std::set<std::string> shown(live.begin(), live.end());
    EXPECT_TRUE(shown.contains("built") && shown.contains("lib/built")) << live.size();
    ASSERT_TRUE(some.copyTo(copy));
    EXPECT_EQ(copied("lib/b.txt"), "two");
    EXPECT_FALSE(fs::exists(copy / "built"));
    EXPECT_TRUE(isOpaqueAt("src"));
    EXPECT_FALSE(isOpaqueAt("lib")) << "what is below it would be hidden";
    // Objects come and go as a whole, and a fetch changes nothing of what a candidate sees.
    EXPECT_TRUE(shown.contains(".git/objects"));
    const timespec since = later();
    write(".git/objects/cc/dd", "fetched");
    EXPECT_EQ(some.firstMoved(since), std::nullopt);
}

TEST_F(PinPlanTest, FindsWhatMovesOfThat) {
    for (int i = 0; i < 10; ++i) write("built/" + std::to_string(i), "x");
    PinBudget small;
    small.mostIgnoredPaths = 8;
    const PinPlan some = plan(small);
    ASSERT_FALSE(some.shownAsTheyAre().empty());
    const timespec since = later();
    EXPECT_EQ(some.firstMoved(since), std::nullopt);
    write("a.txt", "what is copied may change");
    EXPECT_EQ(some.firstMoved(since), std::nullopt);
    write("built/3", "y");
    EXPECT_EQ(some.firstMoved(since), "built/3");
}

TEST_F(PinPlanTest, FindsANewNameThatCouldBeSeen) {
    for (int i = 0; i < 10; ++i) write("built/" + std::to_string(i), "x");
    PinBudget small;
    small.mostIgnoredPaths = 8;
    const PinPlan some = plan(small);
    const timespec since = later();
    write("lib/new.txt", "hidden: nothing of lib is shown as it is");
    EXPECT_EQ(some.firstMoved(since), std::nullopt);
    write("new.txt", "beside what is shown");
    EXPECT_EQ(some.firstMoved(since), "new.txt");
}

TEST_F(PinPlanTest, WhatIsNeverStillIsLeftUnwatchedAndSaid) {
    for (int i = 0; i < 10; ++i) write("built/" + std::to_string(i), "x");
    PinBudget small;
    small.mostIgnoredPaths = 8;
    PinPlan some = plan(small);
    const timespec since = later();
    write("built/3", "y");
    EXPECT_EQ(some.settle(since), std::vector<std::string>{"built"});
    EXPECT_EQ(some.firstMoved(since), std::nullopt);
}

TEST_F(PinPlanTest, FindsWhatWasTouchedWhileItWasCopied) {
    const timespec since = later();
    const PinPlan all = plan();
    EXPECT_EQ(all.firstTouched(since), std::nullopt);
    write("noise.log", "a log may be written at any time");
    EXPECT_EQ(all.firstTouched(since), std::nullopt);
    write("lib/b.txt", "three");
    EXPECT_EQ(all.firstTouched(since), "lib/b.txt");
    fs::remove(project / "lib/b.txt");
    EXPECT_EQ(all.firstTouched(since), "lib/b.txt");
    EXPECT_FALSE(all.copyTo(copy)) << "one of them is gone";
}

TEST_F(PinPlanTest, ANewFileCountsAsTouched) {
    const timespec since = later();
    const PinPlan all = plan();
    write("lib/c.txt", "new");
    EXPECT_EQ(all.firstTouched(since), "lib/c.txt");
}

TEST_F(PinPlanTest, MoreThanTheBudgetIsNotCopied) {
    PinBudget tiny;
    tiny.mostPaths = 3;
    EXPECT_FALSE(PinPlan::make(project, tiny));
    tiny = {};
    tiny.mostBytes = 1;
    EXPECT_FALSE(PinPlan::make(project, tiny));
}

TEST_F(PinPlanTest, WhatCannotBeReadIsLeftWhereItIs) {
    if (::geteuid() == 0) GTEST_SKIP() << "root can read everything";
    write("closed/in.txt", "x");
    write("shut.txt", "x");
    fs::permissions(project / "closed", fs::perms(0));
    fs::permissions(project / "shut.txt", fs::perms(0));
    const PinPlan some = plan();
    EXPECT_EQ(some.shownAsTheyAre().size(), 2);
    EXPECT_TRUE(some.copyTo(copy));
    EXPECT_EQ(fs::status(project / "shut.txt").permissions(), fs::perms(0)) << "nothing of it is touched";
    fs::permissions(project / "closed", fs::perms(0755));
}

TEST_F(PinPlanTest, ASocketIsNobodysBytes) {
    ASSERT_EQ(::mkfifo((project / "pipe").c_str(), 0600), 0);
    const PinPlan some = plan();
    EXPECT_EQ(some.shownAsTheyAre(), std::vector<std::string>{"pipe"});
    EXPECT_TRUE(some.copyTo(copy));
    EXPECT_EQ(some.firstMoved(later()), std::nullopt);
}

}  // namespace
}  // namespace gradus
