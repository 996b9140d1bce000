// Git's index files of every form, written by git itself.
#include "stages/changes/tracked_names.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/stages/changes/git_program.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

std::string bytesOf(const fs::path& path) {
    std::ostringstream out;
    out << std::ifstream(path, std::ios::binary).rdbuf();
    return out.str();
}

class TrackedNamesTest : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        if (!test::hasGit()) GTEST_SKIP() << "git is not installed";
    }
    test::ScratchDirectory scratch_;
};

TEST_P(TrackedNamesTest, FindsEveryNameThatGitLists) {
    const std::string long1(200, 'l');
    test::shell(scratch_.path(),
                std::string("git init -q . ") + GetParam() +
                    " && mkdir -p d/e && for i in $(seq 300); do echo $i > d/f$i; done; echo x > d/e/g; "
                    "echo y > 'sp ace'; echo z > " +
                    long1 + "; git add . ; git commit -qm x; echo n > new; git add -N new; git status -s");
    const auto listed = test::splitNul(test::shell(scratch_.path(), "git ls-files -z"));
    ASSERT_EQ(listed.size(), 304U);
    const auto names = TrackedNames::parse(bytesOf(scratch_ / ".git/index"));
    ASSERT_TRUE(names);
    for (const std::string& name : listed) EXPECT_TRUE(names->contains(name)) << name;
    EXPECT_FALSE(names->contains("d"));
    EXPECT_FALSE(names->contains("d/f"));
    EXPECT_TRUE(names->containsBeneath("d"));
    EXPECT_TRUE(names->containsBeneath("d/e"));
    EXPECT_FALSE(names->containsBeneath("d/f"));
    EXPECT_FALSE(names->containsBeneath("ne"));
}

INSTANTIATE_TEST_SUITE_P(Forms, TrackedNamesTest,
                         testing::Values("", "&& git config index.version 4", "--object-format=sha256",
                                         "--object-format=sha256 && git config index.version 4",
                                         "&& git config index.skipHash true"));

TEST_F(TrackedNamesTest, SaysWhichOtherIndexHasTheRest) {
    test::shell(scratch_.path(),
                "git init -q . && for i in 1 2 3 4; do echo $i > f$i; done; git add .; git commit -qm x; "
                "git update-index --split-index; echo n > new; git add new; echo m > f2; git add f2");
    const auto top = TrackedNames::parse(bytesOf(scratch_ / ".git/index"));
    ASSERT_TRUE(top);
    ASSERT_FALSE(top->sharedWith().empty());
    EXPECT_TRUE(top->contains("new"));
    const auto shared = TrackedNames::parse(bytesOf(scratch_ / (".git/sharedindex." + top->sharedWith())));
    ASSERT_TRUE(shared);
    for (const char* name : {"f1", "f2", "f3", "f4"}) EXPECT_TRUE(shared->contains(name)) << name;
}

TEST_F(TrackedNamesTest, CoversWhatASparseIndexFoldsIntoADirectory) {
    test::shell(scratch_.path(),
                "git init -q . && mkdir -p in out/deep; echo 1 > in/a; echo 2 > out/deep/b; git add .; "
                "git commit -qm x; git sparse-checkout init --cone --sparse-index; git sparse-checkout set in");
    const auto names = TrackedNames::parse(bytesOf(scratch_ / ".git/index"));
    ASSERT_TRUE(names);
    EXPECT_TRUE(names->contains("in/a"));
    EXPECT_TRUE(names->contains("out/deep/b"));
    EXPECT_TRUE(names->containsBeneath("out"));
    EXPECT_TRUE(names->containsBeneath("out/deep"));
}

TEST_F(TrackedNamesTest, RefusesEveryCutAndSurvivesEveryBrokenByte) {
    test::shell(scratch_.path(),
                "git init -q . && git config index.version 4 && for i in 1 2 3 4; do echo $i > f$i; done; "
                "git add .");
    const std::string whole = bytesOf(scratch_ / ".git/index");
    ASSERT_TRUE(TrackedNames::parse(whole));
    for (std::size_t size = 0; size + 33 < whole.size(); ++size)
        static_cast<void>(TrackedNames::parse(whole.substr(0, size)));
    for (std::size_t at = 0; at < whole.size(); ++at)
        for (const char value : {'\0', '\x7f', '\xff'}) {
            std::string broken = whole;
            broken[at] = value;
            static_cast<void>(TrackedNames::parse(broken));
        }
    EXPECT_FALSE(TrackedNames::parse(""));
    EXPECT_FALSE(TrackedNames::parse("DIRC"));
    EXPECT_FALSE(TrackedNames::parse(whole.substr(0, whole.size() / 2)));
}

}  // namespace
}  // namespace gradus
