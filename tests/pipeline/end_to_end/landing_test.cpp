// What a sandbox made comes to rest in the work tree, whatever else happens there meanwhile.
#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;

class Landing : public ClimbingProgram {
  protected:
    void expectApplied(const std::string& sandbox) {
        const Ended ended = gradus({"sandbox", "apply", sandbox});
        EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
};
INSTANTIATE_TEST_SUITE_P(Users, Landing, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Landing, NewFilesAreAdditionsThoughSomebodyMadeAnotherOne) {
    ASSERT_EQ(gradus({"sandbox", "new", "--name", "work"}).exit, 0);
    edit("outside.txt", "mine\n");
    ASSERT_EQ(gradus({"sandbox", "exec", "work", "--", "sh", "-c", "echo n > new; mkdir -p d/e; echo f > d/e/f"}).exit,
              0);
    const Ended diff = gradus({"sandbox", "diff", "work"});
    EXPECT_TRUE(has(diff.out, "A new\n")) << diff.out;
    EXPECT_FALSE(has(diff.out, "changed outside meanwhile")) << diff.out;
    const Json change = gradusJson({"submit", "--from-sandbox", "work"});
    EXPECT_EQ(gradusJson({"rebase", change["data"]["change"]["id"]})["ok"], true);
    expectApplied("work");
    EXPECT_EQ(bytesOf(project / "new"), "n\n");
    EXPECT_EQ(bytesOf(project / "d/e/f"), "f\n");
    EXPECT_EQ(bytesOf(project / "outside.txt"), "mine\n");
}

TEST_P(Landing, TheLatestSandboxIsMeantWhateverChangesThereAre) {
    edit("change.txt", "mine\n");
    ASSERT_EQ(gradus({"submit", "--worktree"}).exit, 0);
    fs::remove(project / "change.txt");
    sandboxWith("echo n > new");
    expectApplied("@");
    EXPECT_EQ(bytesOf(project / "new"), "n\n");
    EXPECT_FALSE(fs::exists(project / "change.txt"));
    const std::string other = sandboxWith("echo o > other");
    sandboxWith("echo l > latest");
    variables["GRADUS_SANDBOX"] = other;
    EXPECT_EQ(gradus({"sandbox", "apply"}).exit, 0);
    EXPECT_EQ(bytesOf(project / "other"), "o\n");
    EXPECT_FALSE(fs::exists(project / "latest"));
}

TEST_P(Landing, NewFilesClimbThoughSomebodyMadeAnotherOne) {
    given();
    ASSERT_EQ(gradus({"sandbox", "new", "--name", "work"}).exit, 0);
    edit("outside.txt", "mine\n");
    ASSERT_EQ(gradus({"sandbox", "exec", "work", "--", "sh", "-c", "echo n > new"}).exit, 0);
    const Ended ended = gradus({"promote", "work"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(production / "current/new"), "n\n");
}

TEST_P(Landing, AFileOfTwoNamesIsDeleted) {
    shell("echo 1 > a && ln a b");
    const std::string sandbox = sandboxWith("rm a b");
    expectApplied(sandbox);
    EXPECT_FALSE(std::filesystem::exists(project / "a") || std::filesystem::exists(project / "b"));
    EXPECT_EQ(gradus({"undo"}).exit, 0);
    EXPECT_EQ(bytesOf(project / "a") + bytesOf(project / "b"), "1\n1\n");
}

TEST_P(Landing, ALinkBecomesADirectoryWithADirectoryInIt) {
    shell("ln -s nowhere h");
    expectApplied(sandboxWith("rm h; mkdir -p h/e; echo 1 > h/e/f"));
    EXPECT_EQ(bytesOf(project / "h/e/f"), "1\n");
}

TEST_P(Landing, AProjectThatWasClonedAnewIsWrittenInto) {
    expectApplied(sandboxWith("echo 2 > a"));
    shell("cp -a . ../clone && cd .. && mv shop old && mv clone shop && rm -rf old && cd shop && rm a");
    const Ended ended = gradus({"try", "--apply", "--", "sh", "-c", "echo 3 > b"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(project / "b"), "3\n");
}

}  // namespace
}  // namespace gradus
