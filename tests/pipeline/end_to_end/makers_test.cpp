// Whose change it is, with the real program: what comes out of a sandbox was made by who worked there.
#include "tests/pipeline/end_to_end/climbing_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;

class Makers : public ClimbingProgram {
  protected:
    /// A production that asks for one yes, and lets people bring in what machines made.
    void begin(const std::string& policy) {
        repository();
        edit("gradus.toml",
             fmt::format("[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"production\"]\n"
                         "[check.unit]\nrun = \"./check production\"\n[stage.sandbox]\nchecks = [\"unit\"]\n"
                         "[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\nchecks = [\"unit\"]\n"
                         "[policy.production]\nextends = \"none\"\n{}\n",
                         production.native(), policy));
        commitAll("rules");
        ASSERT_EQ(as("person:alice", {"trust", "--yes"}).exit, 0);
    }
    std::string workOf(const std::string& actor) {
        variables["GRADUS_ACTOR"] = actor;
        std::string sandbox = sandboxWith("echo v2 > app.txt");
        variables.erase("GRADUS_ACTOR");
        return sandbox;
    }
};
INSTANTIATE_TEST_SUITE_P(Users, Makers, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Makers, NobodyApprovesWhatTheyMadeInASandboxThatAnotherHandsIn) {
    GRADUS_CASES("I10");
    begin("alone = [\"person\", \"agent\"]\napprovals = [{ count = 1 }]");
    const std::string sandbox = workOf("person:alice");
    const Ended waits = as("person:ben", {"promote", sandbox, "--json"});
    EXPECT_EQ(waits.exit, 8) << waits.out << waits.err;
    const Ended own = as("person:alice", {"approve", "c1"});
    EXPECT_EQ(own.exit, 4) << own.out << own.err;
    EXPECT_EQ(as("person:ben", {"approve", "c1"}).exit, 0) << "he made none of it";
    EXPECT_EQ(as("person:ben", {"promote", "c1"}).exit, 0);
    expectWhole();
}

TEST_P(Makers, WhatAnAgentMadeIsAnAgentsWhoeverHandsItIn) {
    begin("alone = [\"person\"]");
    const std::string sandbox = workOf("agent:fixer");
    const Ended in = as("person:alice", {"promote", sandbox, "--json"});
    EXPECT_EQ(in.exit, 0) << in.out << in.err << "she brings it in knowingly";
    const Ended blame = as("person:alice", {"blame", "production", "app.txt"});
    EXPECT_TRUE(has(blame.out, "agent:fixer for person:alice")) << blame.out;
    EXPECT_TRUE(has(gradus({"status"}).out, "agent:fixer for person:alice")) << "as whoever asks is told";

    variables["GRADUS_ACTOR"] = "person:alice";
    const std::string mixed = sandboxWith("echo u2 > lib/util.txt");
    variables.erase("GRADUS_ACTOR");
    ASSERT_EQ(as("agent:fixer", {"sandbox", "exec", mixed, "--", "sh", "-c", "echo u3 > lib/util.txt"}).exit, 0);
    const Ended waits = as("person:alice", {"promote", mixed, "--json"});
    EXPECT_EQ(waits.exit, 8) << waits.out << waits.err << "it is hers as well, so another person has to look";
    expectWhole();
}

}  // namespace
}  // namespace gradus
