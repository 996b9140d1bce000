// What happens to a repository itself is no change, and is told all the same.
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

class RepositoryCountTest : public test::OverlayTest {
  protected:
    void SetUp() override {
        if (!test::hasGit()) GTEST_SKIP() << "git is not installed";
        OverlayTest::SetUp();
        if (IsSkipped()) return;
        writeText(base("file"), "start");
        writeText(base(".gitignore"), "build/\n");
        test::shell(rig().base, "git init -q . && git add -A && git commit -qm x");
    }
    void inside(const std::string& script) { test::shell(rig().merged, script); }
};

TEST_F(RepositoryCountTest, CountsACommit) {
    rig().begin();
    inside("echo more >> file && git commit -qam more");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), Lines{"modified file"});
    EXPECT_GE(harvest.inRepository, 4U) << "three objects and a branch at least";
}

TEST_F(RepositoryCountTest, CountsABranchAHookAndASetting) {
    rig().begin();
    inside("git branch index");
    const std::uint64_t branch = rig().harvest().inRepository;
    EXPECT_GE(branch, 1U) << "a branch of that name is not the index";
    rig().snapshot();
    inside("git config some.key value && echo true > .git/hooks/pre-commit");
    EXPECT_EQ(rig().harvest().inRepository, branch + 2);
}

TEST_F(RepositoryCountTest, DoesNotCountWhatGitRefreshesWhenItLooks) {
    rig().begin();
    inside("touch file && git status -s && chmod 600 .git/config && chmod 644 .git/config");
    const Harvest harvest = rig().harvest();
    EXPECT_TRUE(fs::exists(rig().topLayer() / ".git/index")) << "git did not refresh it";
    EXPECT_TRUE(fs::exists(rig().topLayer() / ".git/config"));
    EXPECT_EQ(harvest.inRepository, 0U);
    EXPECT_EQ(told(harvest), Lines{});
}

TEST_F(RepositoryCountTest, CountsARepositoryThatIsGoneOrMadeAnew) {
    rig().begin();
    inside("rm -rf .git");
    EXPECT_GT(rig().harvest().inRepository, 5U);
}

TEST_F(RepositoryCountTest, CountsWhatANewRepositoryHidesOfTheOldOne) {
    rig().begin();
    inside("rm -rf .git && git init -q .");
    EXPECT_GE(rig().harvest().inRepository, 3U) << "the objects of the commit are gone";
}

TEST_F(RepositoryCountTest, CountsARepositoryMadeInsideButNotInAnIgnoredDirectory) {
    rig().begin();
    inside("mkdir build && git init -q build/dependency");
    EXPECT_EQ(rig().harvest().inRepository, 0U);
    rig().snapshot();
    inside("git init -q nested");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), Lines{"added nested"});
    EXPECT_GE(harvest.inRepository, 2U);
}

TEST_F(RepositoryCountTest, CountsInARepositoryThatLiesElsewhere) {
    rig().begin();
    inside("git branch other");
    HarvestSource source = rig().source();
    const FileDescriptor git = openFile(rig().topLayer() / ".git", O_RDONLY | O_DIRECTORY);
    source.repositories.push_back({{git.get()}, rig().base / ".git"});
    source.notOurs = {".git"};
    EXPECT_GE(harvest(source, {}).inRepository, 1U);
}

}  // namespace
}  // namespace gradus
