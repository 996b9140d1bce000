// What is on record and what is there, when they part: people edit, tidy up, switch branches and move targets.
#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus::test {
namespace {

class PromoteAgain : public ClimbingProgram {
  protected:
    void SetUp() override {
        ClimbingProgram::SetUp();
        if (IsSkipped()) return;
        given();
        edit("lines.txt", lines("1", "25"));
        commitAll("lines");
    }
    /// Thirty of them, of which the first and the twenty-fifth are given.
    static std::string lines(const std::string& first, const std::string& late) {
        std::string text;
        for (int i = 1; i <= 30; ++i) text += (i == 1 ? first : i == 25 ? late : std::to_string(i)) + "\n";
        return text;
    }
    std::string inProduction(const std::string& path) { return bytesOf(production / "current" / path); }
};

TEST_P(PromoteAgain, WhatTheWorkTreeHasAlreadyStillGoesToProduction) {
    ASSERT_EQ(
        gradus({"try", "--keep", "--name", "a", "--", "sh", "-c", "sed -i 1s/.*/ONE/ lines.txt; echo v2 > app.txt"})
            .exit,
        0);
    ASSERT_EQ(gradus({"submit", "--from-sandbox", "a", "--title", "A"}).exit, 0);
    edit("app.txt", "v2\n");
    edit("lines.txt", lines("1", "mine"));
    const Ended climb = gradus({"promote", "c1"});
    ASSERT_EQ(climb.exit, 0) << climb.out << climb.err;
    EXPECT_EQ(inProduction("app.txt"), "v2\n");
    EXPECT_EQ(inProduction("lines.txt"), lines("ONE", "25")) << "my own edit stays mine";
    EXPECT_EQ(bytesOf(project / "lines.txt"), lines("ONE", "mine"));
}

TEST_P(PromoteAgain, WhatWasCommittedMeanwhileStillGoesToProduction) {
    ASSERT_EQ(gradus({"try", "--keep", "--name", "a", "--", "sed", "-i", "1s/.*/ONE/", "lines.txt"}).exit, 0);
    ASSERT_EQ(gradus({"submit", "--from-sandbox", "a", "--title", "A"}).exit, 0);
    edit("lines.txt", lines("ONE", "mine"));
    commitAll("the same, and more");
    const Ended climb = gradus({"promote", "c1"});
    ASSERT_EQ(climb.exit, 0) << climb.out << climb.err;
    EXPECT_EQ(inProduction("lines.txt").substr(0, 4), "ONE\n");
}

TEST_P(PromoteAgain, EditPromoteEditPromote) {
    edit("app.txt", "v2\n");
    ASSERT_EQ(gradus({"promote"}).exit, 0);
    edit("app.txt", "v3\n");
    const Ended second = gradus({"promote"});
    ASSERT_EQ(second.exit, 0) << second.out << second.err;
    EXPECT_EQ(inProduction("app.txt"), "v3\n");
    edit("app.txt", "v4\n");
    ASSERT_EQ(gradus({"promote"}).exit, 0);
    EXPECT_EQ(inProduction("app.txt"), "v4\n");
    ASSERT_EQ(gradus({"rollback", "production"}).exit, 0);
    EXPECT_EQ(inProduction("app.txt"), "v3\n");
}

// Nobody who made the second one has seen the first.
TEST_P(PromoteAgain, AChangeOfSomebodyElseIsNotReplaced) {
    edit("app.txt", "v2\n");
    ASSERT_EQ(gradus({"promote"}).exit, 0);
    shell("git stash -q");
    ASSERT_EQ(gradus({"sandbox", "new", "--name", "b", "--commit", "HEAD"}).exit, 0);
    ASSERT_EQ(gradus({"sandbox", "exec", "b", "--", "sh", "-c", "echo other > app.txt"}).exit, 0);
    ASSERT_EQ(gradus({"submit", "--from-sandbox", "b", "--title", "B"}).exit, 0);
    const Ended climb = gradus({"promote", "@"});
    EXPECT_EQ(climb.exit, 1) << climb.out << climb.err;
    EXPECT_EQ(inProduction("app.txt"), "v2\n");
}

// A draft was submitted and never promoted, and somebody else edited the same line.
TEST_P(PromoteAgain, ADraftIsNoReasonToLeaveHalfOfAChangeOut) {
    edit("lines.txt", lines("one", "25"));
    ASSERT_EQ(gradus({"submit", "--worktree", "--title", "draft"}).exit, 0);
    edit("lines.txt", lines("one", "x"));
    ASSERT_EQ(gradus({"submit", "--worktree", "--title", "final"}).exit, 0);
    edit("lines.txt", lines("uno", "25"));
    const Ended climb = gradus({"promote", "@"});
    EXPECT_EQ(climb.exit, 1) << climb.out << climb.err;
    EXPECT_TRUE(has(climb.out + climb.err, "lines.txt")) << climb.out << climb.err;
    EXPECT_EQ(bytesOf(project / "lines.txt"), lines("uno", "25"));
    EXPECT_FALSE(std::filesystem::exists(production / "current"));
}

// The earlier revision of a change is no more than that.
TEST_P(PromoteAgain, ARevisionOnOtherGroundBringsNothingOfThatGround) {
    ASSERT_EQ(gradus({"try", "--keep", "--name", "a", "--", "sed", "-i", "1s/.*/one/", "lines.txt"}).exit, 0);
    ASSERT_EQ(gradus({"submit", "--from-sandbox", "a", "--title", "A"}).exit, 0);
    edit("lines.txt", lines("1", "x"));
    ASSERT_EQ(gradus({"rebase", "c1"}).exit, 0);
    edit("lines.txt", lines("uno", "25"));
    const Ended climb = gradus({"promote", "c1"});
    EXPECT_EQ(climb.exit, 1) << climb.out << climb.err;
    EXPECT_EQ(bytesOf(project / "lines.txt"), lines("uno", "25"));
    edit("lines.txt", lines("1", "25"));
    EXPECT_EQ(gradus({"promote", "c1", "--to", "local"}).exit, 0);
    EXPECT_EQ(bytesOf(project / "lines.txt"), lines("one", "25"));
}

TEST_P(PromoteAgain, WhatIsNotThereAnyMoreComesInAgain) {
    edit("app.txt", "v2\n");
    ASSERT_EQ(gradus({"promote"}).exit, 0);
    shell("git checkout -q app.txt");
    const Ended again = gradus({"promote", "c1"});
    ASSERT_EQ(again.exit, 0) << again.out << again.err;
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
    // What was edited since is theirs, and no reason to begin again.
    edit("app.txt", "v2 and more\n");
    const Ended still = gradus({"promote", "c1", "--json"});
    EXPECT_EQ(still.exit, 0) << still.out;
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2 and more\n");
}

TEST_P(PromoteAgain, AStageThatIsGoneIsNotBegunAnew) {
    edit("app.txt", "v2\n");
    ASSERT_EQ(gradus({"promote"}).exit, 0);
    commitAll("v2");
    shell("rm '" + (production / "current").native() + "'");
    edit("lib/util.txt", "u2\n");
    const Ended refused = gradus({"promote"});
    EXPECT_NE(refused.exit, 0);
    EXPECT_NE((refused.out + refused.err).find("nothing is there any more"), std::string::npos) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(production / "current"));
    const Ended adopted = gradus({"adopt", "production"});
    ASSERT_EQ(adopted.exit, 0) << adopted.err;
    EXPECT_NE(adopted.out.find("holds nothing from now on"), std::string::npos) << adopted.out;
    const Ended anew = gradus({"promote"});
    ASSERT_EQ(anew.exit, 0) << anew.out << anew.err;
    EXPECT_EQ(inProduction("lib/util.txt"), "u2\n");
}

TEST_P(PromoteAgain, ATargetThatTheRulesMovedIsNotTakenForTheOldOne) {
    edit("app.txt", "v2\n");
    ASSERT_EQ(gradus({"promote"}).exit, 0);
    shell("git checkout -q app.txt && sed -i 's#" + production.native() + "#" + production.native() +
          "-2#' gradus.toml");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const Ended back = gradus({"rollback", "production"});
    EXPECT_EQ(back.exit, 4) << back.out << back.err;
    EXPECT_NE(back.err.find("another target"), std::string::npos) << back.err;
    EXPECT_EQ(inProduction("app.txt"), "v2\n");
    const Ended again = gradus({"promote", "c1"});
    EXPECT_NE(again.exit, 0) << again.out;
    EXPECT_NE((again.out + again.err).find("another target"), std::string::npos) << again.err;
}

TEST_P(PromoteAgain, AStageWithAnotherDriverBeginsAnewOnAPersonsWord) {
    edit("app.txt", "v2\n");
    ASSERT_EQ(gradus({"promote"}).exit, 0);
    commitAll("v2");
    shell(
        "git branch live && sed -i '/^.stage.production/,$ { s/^driver = .*/driver = \"branch\"/; s/^path = .*/branch "
        "= \"live\"/ }' gradus.toml");
    const Ended trusted = gradus({"trust", "--yes"});
    ASSERT_EQ(trusted.exit, 0) << trusted.err;
    edit("lib/util.txt", "u2\n");
    const Ended refused = gradus({"promote"});
    EXPECT_NE(refused.exit, 0);
    EXPECT_NE((refused.out + refused.err).find("gradus adopt production"), std::string::npos) << refused.err;
    ASSERT_EQ(gradus({"adopt", "production"}).exit, 0);
    const Ended climb = gradus({"promote"});
    EXPECT_EQ(climb.exit, 0) << climb.out << climb.err;
    EXPECT_EQ(shell("git show live:lib/util.txt").out, "u2\n");
}

INSTANTIATE_TEST_SUITE_P(Users, PromoteAgain, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

}  // namespace
}  // namespace gradus::test
