// Ignored files are environment: counted, and part of a change only when asked for.
#include <gtest/gtest.h>

#include "stages/changes/harvest.h"
#include "tests/stages/changes/git_program.h"
#include "tests/stages/changes/overlay_rig.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::told;
using test::writeText;
using Lines = std::vector<std::string>;

class IgnoredTest : public test::OverlayTest {
  protected:
    void SetUp() override {
        if (!test::hasGit()) GTEST_SKIP() << "git is not installed";
        OverlayTest::SetUp();
        if (!IsSkipped()) fs::create_directories(base("src"));
    }
    void commit(const std::string& first = "true") {
        test::shell(rig().base, "git init -q . && " + first + " && git add -A && git commit -qm x");
    }
};

TEST_F(IgnoredTest, CountsANewIgnoredDirectoryByItsFiles) {
    writeText(base(".gitignore"), "build/\n*.o\n");
    writeText(base("src/a.c"), "c");
    commit();
    rig().begin();
    fs::create_directories(in("build/deep"));
    writeText(in("build/x"), "x");
    writeText(in("build/deep/y"), "y");
    fs::create_symlink("x", in("build/deep/z"));
    writeText(in("src/a.o"), "o");
    writeText(in("src/a.c"), "changed");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), Lines{"modified src/a.c"});
    EXPECT_EQ(harvest.ignored, 4U);
    const Harvest all = rig().harvest({.withIgnored = true});
    EXPECT_EQ(told(all), (Lines{"added build", "added build/deep", "added build/deep/y", "added build/deep/z",
                                "added build/x", "modified src/a.c", "added src/a.o"}));
    EXPECT_EQ(all.ignored, 4U);
}

TEST_F(IgnoredTest, NeverIgnoresWhatGitHas) {
    writeText(base(".gitignore"), "*.log\nout/\n");
    fs::create_directories(base("out/sub"));
    writeText(base("kept.log"), "x");
    writeText(base("out/sub/kept"), "x");
    commit("git add -f kept.log out");
    rig().begin();
    writeText(in("kept.log"), "changed");
    writeText(in("other.log"), "new");
    writeText(in("out/sub/kept"), "changed");
    writeText(in("out/sub/new"), "new");
    writeText(in("out/new"), "new");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), (Lines{"modified kept.log", "modified out/sub/kept"}));
    EXPECT_EQ(harvest.ignored, 3U);
}

TEST_F(IgnoredTest, CountsDeletedIgnoredFilesAndKeepsTheirDirectory) {
    writeText(base(".gitignore"), "*.o\nnode_modules/\n");
    writeText(base("src/a.c"), "c");
    fs::create_directories(base("node_modules/p"));
    commit();
    writeText(base("src/a.o"), "o");
    writeText(base("node_modules/p/index.js"), "x");
    rig().begin();
    fs::remove_all(in("src"));
    fs::remove_all(in("node_modules"));
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), Lines{"deleted src/a.c"});
    EXPECT_EQ(harvest.ignored, 2U);
    EXPECT_TRUE(harvest.refused.empty());
}

// Whoever makes a change must not hide a part of it
TEST_F(IgnoredTest, ObeysTheRulesOfTheBaseWhateverTheSandboxMadeOfThem) {
    writeText(base(".gitignore"), "*.o\n");
    writeText(base("src/.gitignore"), "*.tmp\n");
    commit();
    rig().begin();
    writeText(in(".gitignore"), "*\n");
    fs::remove(in("src/.gitignore"));
    writeText(in("a.o"), "o");
    writeText(in("a.x"), "x");
    writeText(in("src/a.tmp"), "x");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), (Lines{"modified .gitignore", "added a.x", "deleted src/.gitignore"}));
    EXPECT_EQ(harvest.ignored, 2U);
}

TEST_F(IgnoredTest, ShowsWhatTheChangeItselfIgnores) {
    writeText(base("src/a.c"), "c");
    commit();
    rig().begin();
    writeText(in(".gitignore"), "*\n");
    writeText(in("evil"), "x");
    writeText(in("src/.gitignore"), "*\n");
    writeText(in("src/evil"), "x");
    fs::create_directory(in("new"));
    writeText(in("new/.gitignore"), "target/\n");
    fs::create_directory(in("new/target"));
    EXPECT_EQ(told(rig().harvest()), (Lines{"added .gitignore", "added evil", "added new", "added new/.gitignore",
                                            "added new/target", "added src/.gitignore", "added src/evil"}));
}

TEST_F(IgnoredTest, ANewDirectoryThatIgnoresItselfIsNoChange) {
    writeText(base("src/a.c"), "c");
    commit();
    rig().begin();
    fs::create_directories(in(".pytest_cache/v/cache"));
    writeText(in(".pytest_cache/.gitignore"), "# Created by pytest automatically.\n*\n");
    writeText(in(".pytest_cache/v/cache/lastfailed"), "{}");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), Lines{});
    EXPECT_EQ(harvest.ignored, 2U);
    EXPECT_EQ(harvest.ignoredBySelf, 2U);
    EXPECT_EQ(rig().harvest({.withIgnored = true}).changes.changes().size(), 5U);
}

TEST_F(IgnoredTest, ObeysTheRepositorysOwnExcludesAndAPersons) {
    commit("echo '*.mine' > .git/info/exclude");
    writeText(rig().elsewhere("excludes"), "*.home\n");
    rig().begin();
    writeText(in("a.mine"), "x");
    writeText(in("a.home"), "x");
    HarvestSource source = rig().source();
    EXPECT_EQ(told(harvest(source, {})), Lines{"added a.home"});
    source.excludesFile = rig().elsewhere("excludes");
    EXPECT_EQ(harvest(source, {}).ignored, 2U);
}

TEST_F(IgnoredTest, IgnoresNothingWithoutARepository) {
    writeText(base(".gitignore"), "*.o\n");
    rig().begin();
    writeText(in("a.o"), "o");
    EXPECT_EQ(told(rig().harvest()), Lines{"added a.o"});
}

TEST_F(IgnoredTest, FindsTheRulesOfALinkedWorkTreeAndOfAPinnedBase) {
    const fs::path main = rig().elsewhere("main");
    fs::create_directory(main);
    test::shell(main,
                "git init -q . && echo '*.o' > .gitignore && git add . && git commit -qm x && "
                "git worktree add -q ../linked && echo '*.x' >> .git/info/exclude");
    rig().begin();
    writeText(in("a.o"), "o");
    writeText(in("a.x"), "o");
    HarvestSource source = rig().source();
    source.repository = rig().elsewhere("linked");
    source.pinned = true;
    EXPECT_EQ(told(harvest(source, {})), Lines{"added a.o"}) << "rules lie in the base, which here has none";
}

TEST_F(IgnoredTest, ObeysTheRulesAboveAProjectInsideALargerRepository) {
    test::shell(rig().elsewhere("."),
                "git init -q . && printf '*.o\\n/base/only-here\\n' > .gitignore && git add .gitignore");
    rig().begin();
    writeText(in("a.o"), "o");
    writeText(in("only-here"), "x");
    writeText(in("src/only-here"), "x");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), Lines{"added src/only-here"});
    EXPECT_EQ(harvest.ignored, 2U);
}

TEST_F(IgnoredTest, IsOfNoRepositoryThatIgnoresTheWholeProject) {
    test::shell(rig().elsewhere("."), "git init -q . && echo '*' > .gitignore");
    rig().begin();
    writeText(in("a.o"), "o");
    EXPECT_EQ(told(rig().harvest()), Lines{"added a.o"});
}

TEST_F(IgnoredTest, ShowsEverythingWhenTheIndexCannotBeRead) {
    writeText(base(".gitignore"), "*.o\n");
    commit();
    writeText(base(".git/index"), "nonsense");
    rig().begin();
    writeText(in("a.o"), "o");
    EXPECT_EQ(told(rig().harvest()), Lines{"added a.o"});
}

}  // namespace
}  // namespace gradus
