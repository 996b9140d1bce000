#include <gtest/gtest.h>

#include "tests/policies/language/loading.h"

// Steps around the switch of a stage, and checks that build.

namespace gradus {
namespace {

std::string file(const std::string& rest) {
    return "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"local\", \"staging\", \"production\"]\n"
           "[stage.staging]\ndriver = \"release-directory\"\npath = \"../s\"\nchecks = [\"build\"]\n"
           "[stage.production]\ndriver = \"release-directory\"\npath = \"../p\"\nchecks = []\n"
           "[check.build]\nrun = \"make\"\noutputs = [\"dist/**\"]\n" +
           rest;
}

/// The one thing that is wrong.
std::string fault(const std::string& rest) {
    const LoadResult result = loadText(file(rest));
    EXPECT_EQ(result.diagnostics.size(), 1U) << renderDiagnostics(result.diagnostics, false);
    return result.diagnostics.empty() ? "" : result.diagnostics.front().message;
}

TEST(StepRules, AreReadInTheirOrderWithSafeDefaults) {
    const LoadResult result =
        loadText(file("[[stage.production.step]]\nname = \"drain\"\nrun = \"./drain now\"\n"
                      "[[stage.production.step]]\nname = \"migrate\"\nrun = [\"./migrate\"]\nwhen = \"after-switch\"\n"
                      "timeout = \"90s\"\nirreversible = true\nidempotence = \"probe\"\nprobe = \"./is-up\"\n"));
    ASSERT_TRUE(result.pipeline) << renderDiagnostics(result.diagnostics, false);
    const auto& steps = result.pipeline->findStage("production")->steps;
    ASSERT_EQ(steps.size(), 2U);
    EXPECT_EQ(steps[0].name, "drain");
    EXPECT_EQ(steps[0].run, (std::vector<std::string>{"./drain", "now"}));
    EXPECT_EQ(steps[0].when, StepWhen::kBeforeSwitch);
    EXPECT_EQ(steps[0].idempotence, Idempotence::kNo);
    EXPECT_FALSE(steps[0].irreversible);
    EXPECT_EQ(steps[0].timeout, std::chrono::minutes(10));
    EXPECT_EQ(steps[1].when, StepWhen::kAfterSwitch);
    EXPECT_EQ(steps[1].idempotence, Idempotence::kProbe);
    EXPECT_EQ(steps[1].probe, std::vector<std::string>{"./is-up"});
    EXPECT_TRUE(steps[1].irreversible);
    EXPECT_EQ(decodeSteps(encodeSteps(steps)), steps);
}

TEST(StepRules, RefuseWhatCannotBeMeant) {
    const std::string step = "[[stage.production.step]]\nname = \"a\"\nrun = \"true\"\n";
    EXPECT_EQ(fault(step + "undo = \"true\"\nirreversible = true\n"),
              "step 'a' of stage 'production' is irreversible and has an 'undo'");
    EXPECT_EQ(fault(step + "idempotence = \"probe\"\n"), "step 'a' of stage 'production' has no 'probe'");
    EXPECT_EQ(fault(step + "probe = \"true\"\n"), "step 'a' of stage 'production' has a 'probe' that nobody asks");
    EXPECT_EQ(fault(step + step), "step 'a' of stage 'production' is defined twice");
    EXPECT_EQ(fault("[[stage.sandbox.step]]\nname = \"a\"\nrun = \"true\"\n"), "stage 'sandbox' cannot have steps");
    EXPECT_EQ(fault("[check.host]\nrun = \"true\"\non = \"host\"\noutputs = [\"x\"]\n"),
              "check 'host' builds outputs and runs on the host");
}

TEST(StepRules, AProgramOfTheWorkTreeIsWarnedAbout) {
    const std::string step = "[[stage.production.step]]\nname = \"a\"\nrun = ";
    EXPECT_EQ(fault(step + "\"./migrate up\"\n"), "step 'a' of stage 'production' runs './migrate' of the work tree");
    EXPECT_EQ(fault(step + "\"true\"\nundo = \"bin/migrate down\"\n"),
              "step 'a' of stage 'production' runs 'bin/migrate' of the work tree");
    EXPECT_TRUE(loadText(file(step + "\"./migrate up\"\n")).pipeline);
    EXPECT_TRUE(loadText(file(step + "\"/opt/shop/migrate up\"\n")).diagnostics.empty());
}

TEST(StepRules, ChangeTheRulesDigest) {
    const std::string step = "[[stage.production.step]]\nname = \"a\"\nrun = \"true\"\n";
    const auto digest = [&](const std::string& rest) { return rulesDigest(*loadText(file(rest)).pipeline); };
    EXPECT_NE(digest(step), digest(""));
    EXPECT_NE(digest(step + "undo = \"x\"\n"), digest(step));
}

TEST(OutputRules, ACheckThatBuildsBelongsToEveryLaterStageThatTakesIt) {
    const LoadResult result = loadText(file(""));
    ASSERT_TRUE(result.pipeline) << renderDiagnostics(result.diagnostics, false);
    EXPECT_TRUE(result.diagnostics.empty()) << renderDiagnostics(result.diagnostics, false);
    EXPECT_EQ(result.pipeline->findStage("production")->checks, std::vector<std::string>{"build"});
    EXPECT_TRUE(result.pipeline->findStage("production")->carriesOutputs);
    EXPECT_FALSE(result.pipeline->findStage("local")->carriesOutputs);
}

TEST(OutputRules, AStageThatNamesTheCheckAndTakesNothingIsWarnedAbout) {
    const LoadResult result = loadText(file("[stage.local]\nchecks = [\"build\"]\n"));
    ASSERT_TRUE(result.pipeline);
    ASSERT_EQ(result.diagnostics.size(), 1U) << renderDiagnostics(result.diagnostics, false);
    EXPECT_EQ(result.diagnostics.front().severity, Severity::kWarning);
    EXPECT_EQ(result.diagnostics.front().message, "stage 'local' does not take what check 'build' builds");
}

}  // namespace
}  // namespace gradus
