// What a killed gradus leaves in a target goes with the next `gradus recover`, and nobody's target is touched on the
// way.
#include "tests/pipeline/end_to_end/troubled_program.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::Ended;
using test::has;
using test::Json;

class LeftBehind : public test::TroubledProgram {};

INSTANTIATE_TEST_SUITE_P(Users, LeftBehind, testing::Values(test::As::kSelf, test::As::kOrdinaryUser),
                         test::nameOfUser);

TEST_P(LeftBehind, AStageThatWasKilledWhileCheckingHasNoTargetAfterwards) {
    rules("\"production\"", release("checks = [\"slow\"]\n") + "[check.slow]\nrun = \"sleep 600\"\n");
    const std::string change = changed("echo v2 > app.txt");
    const auto promoting = startCommand({test::program(), "promote", change});
    awaitState("p1", "checking");
    promoting->stop(SIGKILL);
    EXPECT_EQ(gradus({"recover"}).exit, 0);
    EXPECT_EQ(stateOf("p1"), "cancelled");
    EXPECT_FALSE(fs::exists(production));
    expectWhole();
}

TEST_P(LeftBehind, WhatAKilledAdoptWroteBesideTheMarkerGoes) {
    rules("\"production\"", release());
    shell(fmt::format("mkdir -p '{0}/current' && echo v1 > '{0}/current/app.txt'", production.native()));
    ASSERT_EQ(gradus({"adopt", "production"}).exit, 0);
    const fs::path left = production / ".gradus-target.part";
    shell(fmt::format("echo half > '{}'", left.native()));
    EXPECT_EQ(gradus({"recover"}).exit, 0);
    EXPECT_FALSE(fs::exists(left));
    EXPECT_TRUE(fs::exists(production / ".gradus-target"));
}

TEST_P(LeftBehind, ATargetOfAnotherStoreIsRefusedBeforeAnyCheckRuns) {
    rules("\"local\"", "[stage.local]\nchecks = [\"unit\"]\n");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const std::string first = variables["GRADUS_HOME"];
    variables["GRADUS_HOME"] = (scratch / "second").native();
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const Ended ended = gradus({"promote", changed("echo u2 > lib/util.txt")});
    EXPECT_EQ(ended.exit, 4) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.err, "belongs to another store: " + first)) << ended.out << ended.err;
    EXPECT_EQ(gradusJson({"audit", "query", "--event", "check.finished"})["data"]["events"].size(), 0U);
}

}  // namespace
}  // namespace gradus
