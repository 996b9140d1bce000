// What is proposed next is what makes sense next.
#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus::test {
namespace {

class NextStep : public ClimbingProgram {
  protected:
    std::string proposed() { return gradusJson({"status"})["next"].dump(); }
    static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
};
INSTANTIATE_TEST_SUITE_P(Users, NextStep, testing::Values(As::kSelf), nameOfUser);

TEST_P(NextStep, StatusProposesToPromoteOnlyWhatIsThereToBePromoted) {
    given();
    EXPECT_FALSE(has(proposed(), "gradus promote")) << "nothing was changed";
    edit("app.txt", "v2\n");
    EXPECT_TRUE(has(proposed(), "\"gradus promote\""));
    ASSERT_EQ(gradus({"promote", "--to", "staging"}).exit, 0);
    EXPECT_TRUE(has(proposed(), "\"gradus promote c1\"")) << "production does not have it";
    EXPECT_FALSE(has(proposed(), "\"gradus promote\"")) << "what was edited is c1";
    ASSERT_EQ(gradus({"promote", "c1"}).exit, 0);
    EXPECT_FALSE(has(proposed(), "gradus promote")) << "it is everywhere";
    edit("app.txt", "no-sandbox\n");
    EXPECT_EQ(gradus({"promote"}).exit, 1);
    EXPECT_TRUE(has(proposed(), "gradus why p")) << "the newest one was stopped";
}

TEST_P(NextStep, AChangeWhoseGroundIsMissingNamesIt) {
    given();
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    commitAll("v2");
    const std::string first = changed("echo one > fresh");
    ASSERT_EQ(gradus({"promote", first, "--to", "staging"}).exit, 0);
    const std::string second = changed("echo two >> fresh");
    const Ended refused = gradus({"promote", second, "--json"});
    EXPECT_EQ(refused.exit, 1) << refused.out;
    const Json json = refused.json();
    const std::string command = "gradus promote " + first + " --to production";
    EXPECT_EQ(json["error"]["hint"], "promote " + first + " first: " + command) << json.dump(2);
    EXPECT_EQ(json["next"][0], command);
    ASSERT_EQ(gradus({"promote", first, "--to", "production"}).exit, 0);
    EXPECT_EQ(gradus({"promote", second}).exit, 0);
}

TEST_P(NextStep, WhatWaitsOnTheWaySaysHowToGoOnToTheGoal) {
    repository();
    std::string rules = pipeline();
    const std::string policy = "[policy.staging]\nextends = \"none\"\n";
    rules.insert(rules.find(policy) + policy.size(), "approvals = [{ count = 1 }]\n");
    edit("gradus.toml", rules);
    commitAll("pipeline");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const std::string change = changed("echo v2 > app.txt");
    const Ended waits = gradus({"promote", change, "--to", "production", "--json"});
    EXPECT_EQ(waits.exit, 8) << waits.out << waits.err;
    const Json next = waits.json()["next"];
    EXPECT_EQ(next.back(), "gradus promote " + change + " --to production") << next.dump();
    EXPECT_TRUE(has(next.dump(), "gradus approve " + change + " --to staging"));
}

}  // namespace
}  // namespace gradus::test
