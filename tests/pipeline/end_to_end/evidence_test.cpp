// When a check's yes counts again, when it does not, and what takes it back: with the real program.
#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus {
namespace {

using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;

class Proofs : public ClimbingProgram {
  protected:
    std::string rules(const std::string& unit = {}, const std::string& rest = {}) {
        return fmt::format(
            "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"local\", \"production\"]\n"
            "[check.unit]\nrun = [\"sh\", \"-c\", \"test ! -e broken.log\"]\n{}\n"
            "[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\n"
            "[policy.production]\nextends = \"none\"\nalone = [\"person\"]\nevidence-reuse = \"1h\"\n{}\n",
            unit, production.native(), rest);
    }
    void begin(const std::string& unit = {}, const std::string& rest = {}) {
        repository();
        edit(".gitignore", "*.log\n");
        trust(rules(unit, rest));
    }
    void trust(const std::string& text) {
        edit("gradus.toml", text);
        commitAll("rules");
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
    /// What each stage said about the check, in their order: "ran", or the promotion whose answer it was.
    std::vector<std::string> answers(const Json& climb) {
        std::vector<std::string> all;
        for (const Json& stage : climb["data"]["stages"])
            for (const Json& check : stage["checks"]) all.push_back(check.value("reused_from", "ran"));
        return all;
    }
    std::vector<std::string> promoted(const std::string& change, const std::string& to, const test::Words& more = {}) {
        test::Words words{"promote", change, "--to", to};
        words.insert(words.end(), more.begin(), more.end());
        const Json json = gradusJson(words);
        EXPECT_EQ(json["ok"], true) << json.dump(2);
        return answers(json);
    }
    using Answers = std::vector<std::string>;
};

TEST_P(Proofs, AYesToTheSameQuestionCountsAgainButNotInProduction) {
    begin();
    const std::string change = changed("echo v2 > app.txt");
    EXPECT_EQ(promoted(change, "production"), (Answers{"ran", "p1", "ran"}));
    const Json why = gradusJson({"why", "p2"});
    EXPECT_EQ(why["data"]["checks"][0]["reused_from"], "p1") << why.dump(2);
    const Ended told = gradus({"why", "p2"});
    EXPECT_TRUE(has(told.out, "as p1 proved")) << told.out;
    expectWhole();
}

TEST_P(Proofs, AnotherTreeIsAnotherQuestion) {
    begin();
    const std::string change = changed("echo v2 > app.txt");
    EXPECT_EQ(promoted(change, "sandbox"), Answers{"ran"});
    edit("lib/util.txt", "u2\n");
    EXPECT_EQ(promoted(change, "local").back(), "ran");
}

TEST_P(Proofs, ACheckMaySayThatMoreThanTheTreeDecides) {
    begin("reuse = false");
    EXPECT_EQ(promoted(changed("echo v2 > app.txt"), "local"), (Answers{"ran", "ran"}));
}

TEST_P(Proofs, ACheckWithTheHostsNetworkIsAskedEveryTime) {
    begin("network = \"host\"");
    EXPECT_EQ(promoted(changed("echo v2 > app.txt"), "local"), (Answers{"ran", "ran"}));
}

TEST_P(Proofs, AStricterPolicyEndsIt) {
    begin({}, "[policy.local]\nevidence-reuse = \"0s\"\n");
    EXPECT_EQ(promoted(changed("echo v2 > app.txt"), "local"), (Answers{"ran", "ran"}));
}

TEST_P(Proofs, ANoIsNeverReused) {
    begin();
    const std::string change = changed("echo v2 > app.txt");
    edit("broken.log", "x\n");
    EXPECT_EQ(gradus({"promote", change, "--to", "sandbox"}).exit, 1);
    shell("rm broken.log");
    EXPECT_EQ(promoted(change, "sandbox"), Answers{"ran"});
}

// What is ignored is no part of the tree, so that it broke does not show until a check is asked again.
TEST_P(Proofs, AskedAgainANoTakesTheYesBackAndLaterStagesSeeIt) {
    begin();
    const std::string change = changed("echo v2 > app.txt");
    EXPECT_EQ(promoted(change, "local"), (Answers{"ran", "p1"}));
    edit("broken.log", "x\n");
    const Ended again = gradus({"promote", change, "--to", "sandbox", "--recheck"});
    EXPECT_EQ(again.exit, 1) << again.out << again.err;
    const Json plan = gradusJson({"plan", change, "--to", "production"});
    EXPECT_TRUE(has(plan.dump(), "took its yes back")) << plan.dump(2);
    EXPECT_EQ(gradus({"promote", change, "--to", "production"}).exit, 1);
    EXPECT_FALSE(std::filesystem::exists(production / "current"));
    shell("rm broken.log");
    EXPECT_EQ(gradus({"promote", change, "--to", "production"}).exit, 0);
    expectWhole();
}

TEST_P(Proofs, RulesThatDemandMoreAreMetFirst) {
    begin();
    const std::string change = changed("echo v2 > app.txt");
    EXPECT_EQ(promoted(change, "local"), (Answers{"ran", "p1"}));
    trust(rules({}, "[check.more]\nrun = \"./check more\"\n"));
    const Json plan = gradusJson({"plan", change, "--to", "production"});
    EXPECT_TRUE(has(plan.dump(), "'more' was not asked like that")) << plan.dump(2);
    const Answers all = promoted(change, "production");
    EXPECT_EQ(all.size(), 6U) << "two checks in three stages";
    expectWhole();
}

INSTANTIATE_TEST_SUITE_P(Users, Proofs, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

}  // namespace
}  // namespace gradus
