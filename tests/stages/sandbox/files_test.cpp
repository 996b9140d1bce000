// Files that are copied out of kept sandboxes.
#include "tests/stages/sandbox/sandboxes_fixture.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class FilesTest : public SandboxesTest {};

TEST_F(FilesTest, NoLinkThatIsCopiedLeadsOutOfTheCopy) {
    const SandboxRecord kept = createKept();
    exec(kept.id,
         "mkdir -p t/a/b; echo in > t/f; ln -s ../../f t/a/b/up; ln -s a/b t/down; ln -s ../.. t/a/b/top; "
         "ln -s top/../../x t/a/b/through; ln -s /etc/passwd t/absolute; ln -s ../x t/above; ln -s t/f alone");
    const fs::path out = place_.path() / "out";
    const CopyReport report = sandboxes().get(kept.id, "t", out, false, shell(""));
    EXPECT_EQ(report.files, 4U);
    EXPECT_EQ(fs::read_symlink(out / "a/b/up"), "../../f");
    EXPECT_EQ(fs::read_symlink(out / "a/b/top"), "../..");
    EXPECT_EQ(fs::read_symlink(out / "down"), "a/b");
    const std::string why = ": a link that could lead out of what is copied";
    std::vector<std::string> left = report.leftOut;
    std::sort(left.begin(), left.end());
    EXPECT_EQ(left, (std::vector<std::string>{"t/a/b/through" + why, "t/above" + why, "t/absolute" + why}));
    EXPECT_EQ(sandboxes().get(kept.id, "alone", place_.path() / "alone", false, shell("")).leftOut,
              std::vector<std::string>{"alone" + why});
}

TEST_F(FilesTest, AFileOfSeveralNamesCountsOnce) {
    const SandboxRecord kept = createKept();
    exec(kept.id, "head -c 1000000 /dev/urandom > one; ln one two; mkdir d; ln one d/three; chmod 0 d");
    EXPECT_GE(sandboxes().stats(kept.id).diskBytes, 1'000'000U);
    EXPECT_LE(sandboxes().stats(kept.id).diskBytes, 1'100'000U);
    EXPECT_EQ(exec(kept.id, "stat -c %a d"), "0\n") << "looking changes nothing";
}

}  // namespace
}  // namespace gradus
