#include "policies/language/policy_set.h"

#include <gtest/gtest.h>

#include "policies/language/shipped.h"
#include "tests/policies/language/loading.h"

namespace gradus {
namespace {

std::string production(const std::string& policy) {
    return "[pipeline]\nname = \"shop\"\nstages = [\"production\"]\n[stage.production]\ndriver = "
           "\"release-directory\"\n"
           "path = \"/srv/shop\"\n" +
           policy;  // What follows starts in line 7.
}

Settings policyOf(const LoadResult& result) {
    EXPECT_TRUE(result.pipeline) << renderDiagnostics(result.diagnostics, false);
    return result.pipeline ? result.pipeline->stages.at(0).policy.settings : Settings{};
}

TEST(PolicySet, ShippedPoliciesAreRightAndExplainThemselves) {
    for (const RuleFile& file : shippedPolicies()) {
        const std::string name = file.path.substr(9, file.path.size() - 14);
        const auto result = load(withPolicy(smallFile(), "copy", file.bytes), builtinVocabulary(), {});
        EXPECT_TRUE(result.diagnostics.empty()) << renderDiagnostics(result.diagnostics, false);
        EXPECT_TRUE(file.bytes.starts_with("# ")) << name;
    }
}

TEST(PolicySet, OneWithAShippedNameTightensIt) {
    const Settings policy = policyOf(loadText(production("[policy.production]\nsoak = \"1h\"\n")));
    EXPECT_EQ(policy.duration("soak"), std::chrono::hours(1));
    EXPECT_EQ(policy.find("alone")->origin.text(), "shipped policy production");
}

TEST(PolicySet, RefusesToLoosenAShippedPolicy) {
    const Diagnostic found = onlyDiagnostic(loadText(production("[policy.production]\nsoak = \"1m\"\n")));
    EXPECT_EQ(found.code, "looser");
    EXPECT_EQ(found.span.begin, (Position{8, 8}));
    EXPECT_EQ(found.note, "soak = \"5m\" comes from shipped policy production");
    EXPECT_NE(found.hint.find("extends = \"none\""), std::string::npos);
}

TEST(PolicySet, RefusesEveryKindOfLoosening) {
    for (const char* looser : {"freshness = \"allow\"", "rollback = \"manual\"", "alone = [\"person\", \"agent\"]",
                               "evidence-lifetime = \"30d\"", "risk = { files = 5000 }", "budget = { per = \"1h\" }"}) {
        const LoadResult result = loadText(production(std::string("[policy.production]\n") + looser + "\n"));
        EXPECT_EQ(onlyDiagnostic(result).code, "looser") << looser << "\n" << onlyDiagnostic(result).message;
    }
}

TEST(PolicySet, AddsDemandsInsteadOfReplacingThem) {
    const Settings policy =
        policyOf(loadText(production("[policy.production]\nrequires = [\"disk-limit\"]\napprovals = [{ count = 2, role "
                                     "= \"sre\" }]\nprotected-paths = [\"x\"]\n")));
    EXPECT_EQ(policy.list("requires").size(), 6U);
    EXPECT_EQ(policy.find("approvals")->items.size(), 2U);
    EXPECT_GT(policy.list("protected-paths").size(), 1U);
}

TEST(PolicySet, StartsEmptyWithExtendsNone) {
    const Settings policy =
        policyOf(loadText(production("[policy.production]\nextends = \"none\"\nfreshness = \"allow\"\n")));
    EXPECT_EQ(policy.duration("soak"), Milliseconds(0));
    EXPECT_FALSE(policy.has("approvals"));
    EXPECT_EQ(policy.find("alone")->origin.text(), "default");
}

TEST(PolicySet, BuildsOnAnotherPolicy) {
    const Settings policy =
        policyOf(loadText(production("policy = \"strict\"\n[policy.strict]\nextends = \"production\"\nsoak = "
                                     "\"2h\"\n[policy.production]\nsoak = \"1h\"\n")));
    EXPECT_EQ(policy.duration("soak"), std::chrono::hours(2));
    EXPECT_TRUE(policy.has("approvals"));
}

TEST(PolicySet, PrintsACircleOfPoliciesByName) {  // PF5
    const Diagnostic found =
        onlyDiagnostic(loadText(smallFile("[policy.a]\nextends = \"b\"\n[policy.b]\nextends = \"a\"\n")));
    EXPECT_EQ(found.message, "policies build on each other: a → b → a");
    EXPECT_EQ(found.code, "cycle");
}

TEST(PolicySet, APolicyMayBuildOnTheShippedOneOfItsName) {
    const Settings policy =
        policyOf(loadText(production("[policy.production]\nextends = \"production\"\nsoak = \"1h\"\n")));
    EXPECT_TRUE(policy.has("approvals"));
}

TEST(PolicySet, RefusesAPolicyThatIsBothInlineAndAFile) {
    const auto result = load(withPolicy(smallFile("[policy.team]\nsoak = \"1m\"\n"), "team", "soak = \"2m\"\n"),
                             builtinVocabulary(), {});
    const Diagnostic found = onlyDiagnostic(result);
    EXPECT_EQ(found.message, "policy 'team' is defined twice");
    EXPECT_EQ(found.note, "the other is at .gradus/policies/team.toml:1:1");
}

TEST(PolicySet, AStageMustSoakAtLeastAsLongAsItsPolicySays) {
    const Diagnostic found = onlyDiagnostic(loadText(production("soak = \"1m\"\n")));
    EXPECT_EQ(found.code, "looser");
    EXPECT_EQ(found.note, "soak = \"5m\" comes from shipped policy production");
}

const Ceiling kCeiling{
    "/etc/gradus/ceiling.toml",
    "network = \"none\"\nlimits = { memory = \"8G\" }\nrequires = [\"kernel-filter\"]\nsoak = \"7m\"\n"};

TEST(Ceiling, WinsAndSaysWhichFileSetIt) {  // PF10
    const LoadResult result =
        loadText(smallFile("network = \"host\"\nlimits = { memory = \"10T\" }\nwithout = "
                           "[\"kernel-filter\"]\n[stage.sandbox]\nchecks = []\n"
                           "[stage.local]\npolicy = \"mine\"\n[policy.mine]\nnetwork = \"host\"\n"),
                 kCeiling);
    ASSERT_TRUE(result.pipeline) << renderDiagnostics(result.diagnostics, false);
    ASSERT_EQ(result.diagnostics.size(), 4U) << renderDiagnostics(result.diagnostics, false);
    for (const Diagnostic& d : result.diagnostics) {
        EXPECT_EQ(d.severity, Severity::kWarning);
        EXPECT_NE(d.note.find("administrator ceiling /etc/gradus/ceiling.toml:"), std::string::npos) << d.note;
    }
    const Settings& check = result.pipeline->checks.at("unit").settings;
    EXPECT_EQ(check.text("network"), "none");
    EXPECT_EQ(check.find("limits")->fields.at("memory").number, std::int64_t{8} << 30);
    EXPECT_TRUE(check.list("without").empty());
    EXPECT_EQ(result.pipeline->findStage("local")->policy.settings.text("network"), "none");
}

TEST(Ceiling, HoldsWhereTheProjectSaysNothing) {
    const LoadResult result = loadText(smallFile(), kCeiling);
    ASSERT_TRUE(result.pipeline);
    EXPECT_TRUE(result.diagnostics.empty());
    EXPECT_EQ(result.pipeline->sandbox.find("limits")->fields.at("memory").origin.text(),
              "administrator ceiling /etc/gradus/ceiling.toml:2:21");
    EXPECT_EQ(result.pipeline->findStage("local")->settings.find("soak")->origin.kind, Origin::Kind::kCeiling);
}

TEST(Ceiling, TakesTheHostNetworkAsNoNetworkGivenUp) {
    const LoadResult result =
        loadText(smallFile("network = \"host\"\n"), {"/etc/c.toml", "requires = [\"no-network\"]\n"});
    ASSERT_TRUE(result.pipeline) << renderDiagnostics(result.diagnostics, false);
    EXPECT_EQ(onlyDiagnostic(result).note, "set by administrator ceiling /etc/c.toml:1:13");
    EXPECT_EQ(result.pipeline->checks.at("unit").settings.text("network"), "none");
}

TEST(Ceiling, NeverWidensADefault) {
    const LoadResult result =
        loadText(smallFile("[stage.local]\npolicy = \"mine\"\n[policy.mine]\ndescription = \"x\"\n"),
                 {"/etc/c.toml", "alone = [\"person\", \"agent\"]\n"});
    ASSERT_TRUE(result.pipeline);
    EXPECT_EQ(result.pipeline->findStage("local")->policy.settings.list("alone"), std::vector<std::string>{"person"});
}

TEST(Ceiling, ABrokenOneStopsEverything) {
    for (const char* text : {"soak = 3\n", "sok = \"1m\"\n", "soak = \n", "extends = \"none\"\n"}) {
        const LoadResult result = loadText(smallFile(), {"/etc/gradus/ceiling.toml", text});
        EXPECT_FALSE(result.pipeline) << text;
        EXPECT_EQ(result.diagnostics.at(0).file, "/etc/gradus/ceiling.toml");
    }
}

}  // namespace
}  // namespace gradus
