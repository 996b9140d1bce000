#include "pipeline/service/project.h"

#include <gtest/gtest.h>

#include <fstream>

#include "store/model/error.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class ProjectTest : public testing::Test {
  protected:
    ProjectTest() { fs::create_directories(top / "a/b/c"); }

    fs::path rootOf(const fs::path& directory, std::optional<std::string> home = std::nullopt) {
        return findProjectRoot(directory,
                               [&](const std::string& name) { return name == "HOME" ? home : std::nullopt; });
    }
    void touch(const fs::path& path) { std::ofstream(path) << ""; }

    test::ScratchDirectory scratch;
    fs::path top = fs::canonical(scratch.path());
};

TEST_F(ProjectTest, IsTheDirectoryItselfWhereNothingSaysOtherwise) { EXPECT_EQ(rootOf(top / "a/b"), top / "a/b"); }

TEST_F(ProjectTest, IsTheNearestDirectoryWithAPipelineFile) {
    touch(top / "gradus.toml");
    touch(top / "a/b/gradus.toml");
    EXPECT_EQ(rootOf(top / "a/b/c"), top / "a/b");
    EXPECT_EQ(rootOf(top / "a"), top);
}

TEST_F(ProjectTest, PrefersAPipelineFileFurtherUpToANearerRepository) {
    touch(top / "gradus.toml");
    fs::create_directories(top / "a/.git");
    EXPECT_EQ(rootOf(top / "a/b"), top);
}

TEST_F(ProjectTest, IsTheTopOfTheRepositoryWithoutAPipelineFile) {
    fs::create_directories(top / "a/.git");
    EXPECT_EQ(rootOf(top / "a/b/c"), top / "a");
    touch(top / "a/b/.git");  // a linked work tree has a file there
    EXPECT_EQ(rootOf(top / "a/b/c"), top / "a/b");
}

TEST_F(ProjectTest, IsKnownByItsRealPath) {
    fs::create_directory_symlink(top / "a/b", top / "link");
    EXPECT_EQ(rootOf(top / "link"), top / "a/b");
    EXPECT_EQ(rootOf(top / "a/../a/b"), top / "a/b");
}

TEST_F(ProjectTest, SeesALinkThatLeadsNowhereAsAPipelineFile) {
    fs::create_symlink("nowhere", top / "gradus.toml");
    EXPECT_EQ(rootOf(top / "a"), top);
}

TEST_F(ProjectTest, IsNeverTheWholeFileSystemOrAHome) {
    EXPECT_THROW(rootOf("/"), Error);
    EXPECT_THROW(rootOf(top / "a", top / "a"), Error);
    fs::create_directory_symlink(top / "a", top / "link");
    EXPECT_THROW(rootOf(top / "a", top / "link"), Error);
    EXPECT_EQ(rootOf(top / "a/b", top / "a"), top / "a/b");
    EXPECT_NO_THROW(rootOf(top / "a", top / "gone"));
    EXPECT_NO_THROW(rootOf(top / "a", ""));
}

TEST_F(ProjectTest, ThatIsNotThereIsNamed) {
    try {
        rootOf(top / "missing");
        FAIL();
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kUsage);
        EXPECT_NE(std::string(e.what()).find((top / "missing").native()), std::string::npos);
    }
}

TEST_F(ProjectTest, IsAnotherOneOnceItsDirectoryIsAnotherOne) {
    const ProjectIdentity before = identify(top / "a");
    EXPECT_EQ(identify(top / "a"), before);
    fs::rename(top / "a", top / "old");
    fs::create_directory(top / "a");
    EXPECT_NE(identify(top / "a"), before);
}

}  // namespace
}  // namespace gradus
