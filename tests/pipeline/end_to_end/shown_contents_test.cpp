// Contents that others made, on a terminal, in a pipe, and before the runner of a build service.

#include "tests/pipeline/end_to_end/person_at_terminal.h"

namespace gradus::test {
namespace {

class ShownContents : public SandboxProgramTest {
  protected:
    std::unique_ptr<PersonAtTerminal> sit(Words words) {
        words.insert(words.begin(), program());
        if (GetParam() == As::kOrdinaryUser) {
            const Words prefix{"setpriv", "--reuid=41235", "--regid=41235", "--clear-groups"};
            words.insert(words.begin(), prefix.begin(), prefix.end());
        }
        variables["TERM"] = "xterm";
        return std::make_unique<PersonAtTerminal>(words, variables, project);
    }
};
INSTANTIATE_TEST_SUITE_P(Users, ShownContents, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

constexpr const char* kHostile = "\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b[2J\x1b[8mhidden";

TEST_P(ShownContents, AreEscapedOnATerminalAndBytesInAPipe) {
    writeBytes(scratch / "hostile", kHostile);
    ASSERT_EQ(gradus({"sandbox", "new", "--name", "s"}).exit, 0);
    ASSERT_EQ(gradus({"sandbox", "put", "s", (scratch / "hostile").native(), "f"}).exit, 0);
    ASSERT_EQ(gradus({"submit", "--from-sandbox", "s"}).exit, 0);
    for (const Words& words : {Words{"diff", "s"}, Words{"diff", "c1"}, Words{"export", "c1", "--patch"},
                               Words{"sandbox", "get", "s", "f", "-"}}) {
        auto person = sit(words);
        EXPECT_EQ(person->wait(), 0) << words[0];
        EXPECT_TRUE(has(person->screen(), "\\x1b]52;c;ZXZpbA==\\x07\\x1b]0;title\\x07\\x1b[2J\\x1b[8mhidden"))
            << words[0] << person->screen();
        EXPECT_FALSE(has(person->screen(), "\x1b[2J")) << words[0];
        EXPECT_TRUE(has(gradus(words).out, kHostile)) << words[0] << ": into a pipe as it is";
    }
}

TEST_P(ShownContents, AnswersOfTheTerminalAreNotReadByTheNextProgram) {
    for (const char* option : {"--discard", "--raw"}) {
        Words words{"try", "--", "sh", "-c", "printf '\\033[6n\\033[c\\033[?1$p'"};
        words.insert(words.begin() + 1, "--discard");
        if (std::string(option) == "--raw") words.insert(words.begin() + 1, option);
        auto person = sit(words);
        ASSERT_TRUE(person->sees("\x1b[6n"));
        ASSERT_TRUE(person->sees("\x1b[5n")) << "the last question, behind which nothing more comes";
        person->type("\x1b[24;80R\x1b[?62;c");
        person->type("\x1b[?1;2$y\x1b[0n");
        EXPECT_EQ(person->wait(), 0);
        EXPECT_EQ(person->unread(), 0);
        EXPECT_TRUE(person->isAsBefore());
    }
}

TEST_P(ShownContents, ACommandThatAskedNothingCostsNoQuestion) {
    auto person = sit({"try", "--discard", "--", "echo", "plain"});
    EXPECT_EQ(person->wait(), 0);
    EXPECT_FALSE(has(person->screen(), "\x1b[5n"));
}

TEST_P(ShownContents, BeforeARunnerLinesAreNoCommandsOfIts) {
    const std::string script =
        "printf '::set-env name=A::b\\n  ::add-path::/tmp\\n'; printf '##[x]\\n' >&2;"
        "printf '\\033[0Ksection_start:1:x\\r\\033[0Khead\\n'";
    const Ended github = gradus({"try", "--discard", "--ci", "github", "--", "sh", "-c", script});
    EXPECT_EQ(github.exit, 0) << github.err;
    EXPECT_EQ(github.out,
              "\\::set-env name=A::b\n  \\::add-path::/tmp\n"
              "\\x1b[0Ksection_start:1:x\\r\\x1b[0Khead\n");
    EXPECT_TRUE(has(github.err, "##\\[x]")) << github.err;
    const Ended gitlab = gradus({"try", "--discard", "--ci", "gitlab", "--", "sh", "-c", script});
    EXPECT_TRUE(has(gitlab.out, "::set-env name=A::b\n")) << "no command there";
    EXPECT_FALSE(has(gitlab.out, "\x1b[0K")) << gitlab.out;
    EXPECT_EQ(gradus({"try", "--ci", "github", "--raw", "--", "true"}).exit, 2);
}

}  // namespace
}  // namespace gradus::test
