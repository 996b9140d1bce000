// What is not there inside, and why.
#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus {
namespace {

using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::writeBytes;

class Absent : public ClimbingProgram {};
INSTANTIATE_TEST_SUITE_P(Users, Absent, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Absent, ADirectoryThatGitIgnoresIsNamedWhereAReleaseDoesNotHaveIt) {
    repository();
    edit(".gitignore", ".venv/\nnode_modules/\n");
    edit(".venv/bin/tool", "#!/bin/sh\nexit 0\n");
    shell("chmod 755 .venv/bin/tool");
    edit("gradus.toml",
         fmt::format(
             "[pipeline]\nname = \"shop\"\nstages = [\"production\"]\n[check.unit]\nrun = \".venv/bin/tool -q\"\n"
             "[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\nchecks = [\"unit\"]\n"
             "[policy.production]\nextends = \"none\"\n",
             production.native()));
    commitAll("rules");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    edit("app.txt", "v2\n");
    const Ended ended = gradus({"promote"});
    EXPECT_NE(ended.exit, 0);
    EXPECT_TRUE(has(ended.out + ended.err, "'.venv' is in your project")) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out + ended.err, "outputs = [\".venv/**\"]")) << ended.out << ended.err;
}

TEST_P(Absent, AFileBelowTmpIsSaidToBeOutside) {
    const test::ScratchDirectory elsewhere;
    std::filesystem::permissions(elsewhere.path(), std::filesystem::perms(0755));
    writeBytes(elsewhere / "input", "x");
    const Ended ended = gradus({"try", "--discard", "--", "cat", (elsewhere / "input").native()});
    EXPECT_NE(ended.exit, 0);
    EXPECT_EQ(has(ended.err, "a sandbox has a /tmp of its own"), elsewhere.path().native().starts_with("/tmp/"))
        << ended.err;
    EXPECT_FALSE(has(gradus({"try", "--discard", "--", "false"}).err, "/tmp of its own"));
}

}  // namespace
}  // namespace gradus
