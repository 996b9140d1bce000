// What gradus suggests succeeds when it is typed.
#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Words;
using test::writeBytes;

class Suggestions : public ClimbingProgram {
  protected:
    void expectSays(const Words& words, int exit, const std::string& text) {
        const Ended ended = gradus(words);
        EXPECT_EQ(ended.exit, exit) << fmt::format("{}", fmt::join(words, " ")) << ended.out << ended.err;
        EXPECT_TRUE(has(ended.err, text)) << fmt::format("{}\n", fmt::join(words, " ")) << ended.err;
    }
};
INSTANTIATE_TEST_SUITE_P(Users, Suggestions, testing::Values(test::As::kSelf, test::As::kOrdinaryUser),
                         test::nameOfUser);

TEST_P(Suggestions, NameTheWholeCommand) {
    given();
    ASSERT_EQ(gradus({"sandbox", "new", "--name", "s"}).exit, 0);
    expectSays({"sandbox", "exec", "s", "ls"}, 2, "gradus sandbox exec s -- ls\n");
    EXPECT_EQ(gradus({"sandbox", "exec", "s", "--", "ls"}).exit, 0);
    expectSays({"try", "ls", "-la"}, 2, "gradus try -- ls -la\n");
    expectSays({"try", "--discard", "sh", "-c", "echo 1 2"}, 2, "gradus try --discard -- sh -c 'echo 1 2'\n");
}

TEST_P(Suggestions, AreForWhatIsMeant) {
    given();
    expectSays({"revert"}, 2, "'gradus undo' takes back the last apply");
    expectSays({"unapprove", "c1"}, 2, "'gradus approve CHANGE --withdraw'");
    expectSays({"promote", "--force"}, 2, "--override GATE --reason TEXT");
    expectSays({"submit", "x.diff"}, 2, "gradus submit --patch x.diff");
    EXPECT_EQ(gradus({"sandbox", "ls"}).exit, 0);
    EXPECT_EQ(gradus({"race", "list"}).exit, 0);
}

TEST_P(Suggestions, TellOneNounFromAnother) {
    given();
    expectSays({"why"}, 2, "nothing was promoted in this project yet");
    expectSays({"show", "@"}, 2, "no change was submitted in this project yet");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change, "--to", "local"}).exit, 0);
    expectSays({"promote", "staging"}, 2, "gradus promote --to staging");
    expectSays({"why", "prodction"}, 2, "did you mean the stage 'production'?");
    expectSays({"show", "p1"}, 2, "`gradus why p1` tells of it");
    EXPECT_EQ(gradus({"why", "p1"}).exit, 0);
    expectSays({"audit", "query", "--stage", "stagin"}, 2, "did you mean 'staging'?");
    EXPECT_EQ(gradus({"audit", "query", "--stage", "staging"}).exit, 0) << "known, and nothing happened there";
    EXPECT_EQ(gradus({"audit", "query", "--stage", "local"}).exit, 0);
}

TEST_P(Suggestions, OfAServiceOfUntrustedRulesIsToTrustThem) {
    writeBytes(project / "gradus.toml",
               "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\"]\n[service.idle]\nrun = \"sleep 600\"\n");
    expectSays({"try", "--service", "idle", "--", "true"}, 125, "gradus trust");
    EXPECT_FALSE(has(gradus({"try", "--service", "idle", "--", "true"}).err, "write a [service"));
}

TEST_P(Suggestions, APatchThatDoesNotFitEndsAlikeInSubmitAndRace) {
    repository();
    writeBytes(scratch / "x.diff", "--- a/app.txt\n+++ b/app.txt\n@@ -1 +1 @@\n-other\n+v2\n");
    fs::permissions(scratch / "x.diff", fs::perms(0644));
    const std::string file = (scratch / "x.diff").native();
    EXPECT_EQ(gradus({"submit", "--patch", file}).exit, 1);
    EXPECT_EQ(gradus({"race", "--check", "true", "patch=@" + file, "same=true"}).exit, 1);
}

TEST(UnusableHome, IsNamedAndNoFaultOfGradus) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root has a home that others cannot use";
    const test::ScratchDirectory home;
    fs::permissions(home.path(), fs::perms(0700));
    FILE* const pipe =
        ::popen(fmt::format("cd /tmp && env -u XDG_STATE_HOME -u GRADUS_HOME HOME={}/h setpriv --reuid=41235 "
                            "--regid=41235 --clear-groups '{}' try -- true 2>&1; echo exit=$?",
                            home.path().native(), GRADUS_PROGRAM)
                    .c_str(),
                "r");
    ASSERT_NE(pipe, nullptr);
    std::string said;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
    ::pclose(pipe);
    if (has(said, "exit=126") || has(said, "exit=127")) GTEST_SKIP() << "only root can reach the program";
    EXPECT_FALSE(has(said, "bug")) << said;
    EXPECT_TRUE(has(said, "GRADUS_HOME")) << said;
    EXPECT_TRUE(has(said, "exit=125")) << said;
}

}  // namespace
}  // namespace gradus
