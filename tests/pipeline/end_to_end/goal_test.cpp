// How far a change goes when nobody names a stage: what is asked for is asked for by somebody.
#include "tests/pipeline/end_to_end/troubled_program.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::bytesOf;
using test::Ended;
using test::has;
using test::Json;

class Goals : public test::TroubledProgram {
  protected:
    static constexpr const char* kAgent = "agent:bot";

    std::string stage(const std::string& name, const std::string& alone) {
        return fmt::format(
            "[stage.{0}]\ndriver = \"release-directory\"\npath = \"{1}\"\n[policy.{0}]\nextends = \"none\"\n"
            "alone = [{2}]\n",
            name, (scratch / name).native(), alone);
    }
    /// Only staging's policy stands in an agent's way.
    std::string stages(bool withTest) {
        return stage("staging", "\"person\"") + (withTest ? stage("test", "\"person\", \"agent\"") : "") + release();
    }
    /// A change that an agent wants in `goal`, and that waits for staging as p2.
    std::string wantedByAnAgent(const std::string& goal) {
        rules("\"local\", \"staging\", \"test\", \"production\"", stages(true));
        std::string change = changed("echo v2 > app.txt");
        const Ended ended = as(kAgent, {"promote", change, "--to", goal, "--json"});
        EXPECT_EQ(ended.exit, 8) << ended.out << ended.err;
        EXPECT_EQ(ended.json()["data"]["promotion"]["goal_by"], kAgent) << ended.out;
        EXPECT_EQ(stateOf("p2"), "waiting");
        return change;
    }
    bool holds(const std::string& name) { return fs::exists(scratch / name / "current"); }
};

INSTANTIATE_TEST_SUITE_P(Users, Goals, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Goals, WhatAnAgentWantsTakesNobodyElseThere) {
    const std::string change = wantedByAnAgent("production");
    const Ended ended = gradus({"promote", change});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "as far as staging, where p2 waits for agent:bot, who wants it in production"))
        << ended.out;
    EXPECT_TRUE(has(ended.out, "gradus promote " + change + " --to production")) << ended.out;
    EXPECT_TRUE(holds("staging"));
    EXPECT_FALSE(holds("test"));
    EXPECT_FALSE(holds("production"));
}

TEST_P(Goals, NorDoesTryingAgain) {
    wantedByAnAgent("production");
    const Ended ended = gradus({"retry", "p2"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(holds("staging"));
    EXPECT_FALSE(holds("test"));
}

TEST_P(Goals, NorDoesTheWorkTreeThatTheAgentSubmitted) {
    rules("\"local\", \"staging\", \"test\", \"production\"", stages(true));
    edit("app.txt", "v2\n");
    ASSERT_EQ(as(kAgent, {"promote", "--to", "production"}).exit, 8);
    const Ended ended = gradus({"promote"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(holds("staging"));
    EXPECT_FALSE(holds("test"));
}

TEST_P(Goals, WhoNamesTheStageGoesThere) {
    const std::string change = wantedByAnAgent("test");
    EXPECT_EQ(gradus({"promote", change, "--to", "production"}).exit, 0);
    EXPECT_TRUE(holds("production"));
}

TEST_P(Goals, WhatSomebodyAskedForHimselfIsHowFarItGoes) {
    rules("\"local\", \"staging\", \"test\", \"production\"", stages(true));
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"hold", "staging"}).exit, 0);
    ASSERT_EQ(gradus({"promote", change, "--to", "test"}).exit, 8);
    EXPECT_TRUE(has(gradus({"why", "p2"}).out, "on its way to test, as person:")) << gradus({"why", "p2"}).out;
    ASSERT_EQ(gradus({"unhold", "staging"}).exit, 0);
    const Ended ended = gradus({"promote", change, "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(ended.json()["data"]["goal"], "test") << ended.out;
    EXPECT_TRUE(holds("test"));
    EXPECT_FALSE(holds("production"));
}

TEST_P(Goals, WhatGoesOnByItselfKeepsTheGoalOfWhoSetIt) {
    const std::string change = wantedByAnAgent("test");
    ASSERT_EQ(as("person:ben", {"approve", change, "--to", "staging"}).exit, 0);
    const Ended ended = gradus({"recover"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(holds("test"));
    EXPECT_FALSE(holds("production"));
}

TEST_P(Goals, AGoalThatIsGoneFromTheRulesIsNamedAndNothingElseTakesItsPlace) {
    const std::string change = wantedByAnAgent("test");
    otherRules("\"local\", \"staging\", \"production\"", stages(false));
    EXPECT_TRUE(has(gradus({"why", "p2"}).out, "on its way to test, as agent:bot asked: the rules do not have"));
    for (const std::vector<std::string>& words : {std::vector<std::string>{"promote", change}, {"retry", "p2"}}) {
        const Ended refused = as(kAgent, words);
        EXPECT_EQ(refused.exit, 2) << refused.out << refused.err;
        EXPECT_TRUE(has(refused.err, "p2 was to go on to 'test', which the rules do not have any more")) << refused.err;
        EXPECT_TRUE(has(refused.err, "gradus promote " + change + " --to STAGE")) << refused.err;
    }
    ASSERT_EQ(as("person:ben", {"approve", change, "--to", "staging"}).exit, 0);
    const Ended ended = gradus({"recover"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "was to go on to 'test', which the rules do not have any more: it stays here"))
        << ended.out;
    EXPECT_TRUE(holds("staging"));
    EXPECT_FALSE(holds("production"));
}

TEST_P(Goals, AStageThatIsGoneWhileSomethingWaitsForItIsNamed) {
    const std::string change = wantedByAnAgent("test");
    otherRules("\"local\", \"production\"", release());
    const Ended refused = gradus({"promote", change});
    EXPECT_EQ(refused.exit, 2) << refused.out << refused.err;
    EXPECT_TRUE(has(refused.err, "p2 waits for 'staging', which the rules do not have any more")) << refused.err;
    EXPECT_TRUE(has(refused.err, "gradus cancel p2")) << refused.err;
    EXPECT_EQ(gradus({"recover"}).exit, 0);
    EXPECT_FALSE(holds("production"));
    EXPECT_EQ(gradus({"cancel", "p2"}).exit, 0);
    EXPECT_EQ(stateOf("p2"), "cancelled");
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
    EXPECT_TRUE(holds("production"));
}

TEST_P(Goals, WhereTheStageHoldsAnotherTreeARebaseIsNotProposedAndWhatIsHelps) {
    rules("\"local\", \"production\"", release());
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    ASSERT_EQ(gradus({"undo"}).exit, 0);
    const std::string change = changed("echo v3 > app.txt");
    const Ended stale = gradus({"promote", change, "--json"});
    EXPECT_EQ(stale.exit, 1) << stale.out << stale.err;
    const std::string hint = stale.json()["error"].value("hint", "");
    EXPECT_TRUE(has(hint, "a rebase does not help")) << stale.out;
    EXPECT_FALSE(has(stale.json()["next"].dump(), "gradus rebase")) << stale.out;
    const std::string there = stale.json()["data"]["stages"][1]["apart"][0];
    EXPECT_TRUE(has(hint, there)) << stale.out;
    // As it says.
    shell("cp '" + there + "' app.txt");
    commitAll("what production holds");
    const Ended ended = gradus({"promote", changed("echo v3 > app.txt")});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v3\n");
}

}  // namespace
}  // namespace gradus
