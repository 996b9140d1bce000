#include "policies/language/loader.h"

#include <gtest/gtest.h>

#include "tests/policies/language/loading.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

constexpr const char* kSmallest = R"([pipeline]
name = "shop"
stages = ["sandbox", "local"]

[check.tests]
run = "pytest -q"              # words, no shell; ["sh", "-c", "…"] for a shell
report = "junit:junit.xml"
)";

constexpr const char* kWithTargets = R"([pipeline]
name = "shop"
stages = ["sandbox", "local", "staging", "production"]

[sandbox]                      # what a clone shows; `gradus try` uses it too
env = ["LANG", "NODE_ENV=test"]
hide = [".env*"]
limits = { memory = "4G", tasks = 2048, disk = "10G", wall-time = "30m" }

[check.unit]
run = "make test"
[check.health]
http = "http://127.0.0.1:8080/healthz"     # kind http: when = "after" unless said otherwise
consecutive-success = 3
interval = "5s"

[stage.staging]
driver = "release-directory"
path = "../shop-staging"
activate = ["systemctl", "restart", "shop-staging"]
checks = ["unit", "health"]

[stage.production]
driver = "release-directory"
path = "/srv/shop"
checks = ["health"]
soak = "10m"

[policy.production]
approvals = [{ count = 1, role = "sre", expires = "12h" }]
[[window]]
stages = ["production"]
deny = { cron = "0 16 * * FRI", for = "64h", timezone = "Europe/Berlin" }
)";

using Names = std::vector<std::string>;

Pipeline loaded(const std::string& text) {
    const LoadResult result = loadText(text);
    EXPECT_TRUE(result.diagnostics.empty()) << renderDiagnostics(result.diagnostics, false);
    return result.pipeline.value_or(Pipeline{});
}

TEST(Loader, UnderstandsTheSmallestUsefulFile) {
    const Pipeline pipeline = loaded(kSmallest);
    EXPECT_EQ(pipeline.name, "shop");
    ASSERT_EQ(pipeline.stages.size(), 2U);
    EXPECT_EQ(pipeline.stages[0].driver, "sandbox");
    EXPECT_EQ(pipeline.stages[1].driver, "worktree");
    EXPECT_EQ(pipeline.stages[1].policy.name, "local");
    EXPECT_EQ(pipeline.stages[1].checks, Names{"tests"});
    EXPECT_EQ(pipeline.checks.at("tests").settings.list("run"), (Names{"pytest", "-q"}));
}

TEST(Loader, UnderstandsAFileWithTargets) {
    const Pipeline pipeline = loaded(kWithTargets);
    const Stage& staging = *pipeline.findStage("staging");
    EXPECT_EQ(staging.checks, (Names{"unit", "health"}));
    EXPECT_EQ(staging.monitorChecks, Names{"health"});
    EXPECT_EQ(staging.settings.text("path"), "../shop-staging");
    EXPECT_EQ(staging.settings.number("keep"), 5);
    EXPECT_EQ(pipeline.checks.at("health").when, CheckWhen::kAfter);
    EXPECT_EQ(pipeline.findStage("local")->checks, Names{"unit"}) << "only what can run before";
    ASSERT_EQ(pipeline.windows.size(), 1U);
    EXPECT_EQ(pipeline.windows[0].settings.find("deny")->fields.at("cron").text, "0 16 * * FRI");
}

TEST(Loader, ACheckInheritsTheLimitsOfTheSandboxKeyByKey) {
    const Pipeline pipeline =
        loaded(smallFile("limits = { tasks = 7 }\n[sandbox]\nlimits = { memory = \"1G\", tasks = 9 }\n"));
    const auto& limits = pipeline.checks.at("unit").settings.find("limits")->fields;
    EXPECT_EQ(limits.at("memory").number, 1 << 30);
    EXPECT_EQ(limits.at("tasks").number, 7);
}

TEST(Loader, ACheckOverridesVariablesOfTheSandboxByName) {
    const Pipeline pipeline = loaded(smallFile("env = [\"A=2\"]\n[sandbox]\nenv = [\"A=1\", \"B\"]\n"));
    EXPECT_EQ(pipeline.checks.at("unit").settings.list("env"), (Names{"B", "A=2"}));
}

TEST(Loader, OrdersChecksAfterTheOnesTheyNeed) {
    const Pipeline pipeline =
        loaded(smallFile("needs = [\"build\"]\n[check.build]\nrun = \"make\"\n[stage.local]\nchecks = [\"unit\"]\n"));
    EXPECT_EQ(pipeline.findStage("local")->checks, (Names{"build", "unit"}));
}

TEST(Loader, ReadsPolicyFilesByTheirName) {
    const auto result = load(withPolicy(smallFile("[stage.local]\npolicy = \"team\"\n"), "team",
                                        "soak = \"1m\"\n[[check]]\nname = \"lint\"\nrun = \"make lint\"\n"),
                             builtinVocabulary(), {});
    ASSERT_TRUE(result.pipeline) << renderDiagnostics(result.diagnostics, false);
    EXPECT_EQ(result.pipeline->findStage("local")->checks, (Names{"unit", "lint"}));
    EXPECT_EQ(result.pipeline->findStage("local")->settings.find("soak")->origin.text(),
              ".gradus/policies/team.toml:1:8");
    EXPECT_EQ(result.pipeline->findStage("sandbox")->checks, Names{"unit"})
        << "the policy's check is the policy's alone";
}

struct Mistake {
    const char* what;
    std::string more;
    Position at;
    const char* code;
    const char* hint;
};

class SemanticMistake : public testing::TestWithParam<Mistake> {};

// PF3, PF4, PF5 and their neighbours: `more` follows five lines of a correct file.
TEST_P(SemanticMistake, IsRefusedWithPositionReasonAndHint) {
    const LoadResult result = loadText(smallFile(GetParam().more));
    EXPECT_FALSE(result.pipeline);
    const Diagnostic found = onlyDiagnostic(result);
    EXPECT_EQ(found.code, GetParam().code) << found.message;
    EXPECT_EQ(found.span.begin.line, GetParam().at.line);
    EXPECT_EQ(found.span.begin.column, GetParam().at.column);
    EXPECT_NE(found.hint.find(GetParam().hint), std::string::npos) << found.hint;
    EXPECT_FALSE(found.reason.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Loader, SemanticMistake,
    testing::Values(
        Mistake{"typo", "timout = \"90s\"\n", {6, 1}, "unknown-key", "did you mean 'timeout'?"},
        Mistake{"negative", "timeout = \"-1s\"\n", {6, 11}, "bad-value", "timeout = \"90s\""},
        Mistake{"overflow", "retries = 9223372036854775807\n", {6, 11}, "out-of-range", "from 0 to 10"},
        Mistake{"nan", "[sandbox]\nlimits = { cpus = nan }\n", {7, 19}, "bad-value", "cpus = 1.5"},
        Mistake{"date", "timeout = 2026-01-01\n", {6, 11}, "wrong-type", "timeout = \"90s\""},
        Mistake{"unknown section", "[chek.x]\nrun = \"a\"\n", {6, 2}, "unknown-key", "did you mean 'check'?"},
        Mistake{
            "unknown check", "[stage.local]\nchecks = [\"unti\"]\n", {7, 11}, "unknown-name", "did you mean 'unit'?"},
        Mistake{"unknown need", "needs = [\"bild\"]\n", {6, 10}, "unknown-name", "known checks: unit"},
        Mistake{"unknown driver",
                "[stage.local]\ndriver = \"worktre\"\n",
                {7, 10},
                "unknown-name",
                "did you mean 'worktree'?"},
        Mistake{"unknown policy",
                "[stage.local]\npolicy = \"stagin\"\n",
                {7, 10},
                "unknown-name",
                "did you mean 'staging'?"},
        Mistake{"unknown service", "services = [\"db\"]\n", {6, 13}, "unknown-name", "there are no services"},
        Mistake{
            "unlisted stage", "[stage.locl]\ndriver = \"worktree\"\n", {6, 8}, "unknown-name", "did you mean 'local'?"},
        Mistake{"key of another driver",
                "[stage.local]\npath = \"x\"\n",
                {7, 1},
                "unknown-key",
                "driver = \"release-directory\""},
        Mistake{"check without a kind", "[check.x]\ntimeout = \"1s\"\n", {6, 1}, "missing-key", "add run"},
        Mistake{"check of two kinds", "http = \"http://x\"\n", {6, 8}, "conflict", "two checks"},
        Mistake{"self cycle", "needs = [\"unit\"]\n", {6, 9}, "cycle", "needs"},
        Mistake{"after in a sandbox", "when = \"after\"\n", {6, 8}, "conflict", "on = \"host\""},
        Mistake{"before on the host", "on = \"host\"\nwhen = \"before\"\n", {7, 8}, "conflict", "when = \"after\""},
        Mistake{"soak in a sandbox", "[stage.sandbox]\nsoak = \"1m\"\n", {7, 8}, "conflict", "remove it"},
        Mistake{"after check in a sandbox",
                "[check.h]\nhttp = \"http://x\"\n[stage.sandbox]\nchecks = [\"h\"]\n",
                {9, 11},
                "conflict",
                "before"},
        Mistake{"monitor of a before check",
                "[stage.local]\nmonitor-checks = [\"unit\"]\n",
                {7, 19},
                "unknown-name",
                "after checks"},
        Mistake{"monitor in a sandbox", "[stage.sandbox]\nmonitor = \"24h\"\n", {7, 11}, "conflict", "remove it"},
        Mistake{"monitor as a list", "[stage.local]\nmonitor = [\"unit\"]\n", {7, 11}, "wrong-type", ""},
        Mistake{"window about nothing", "[[window]]\nstages = [\"local\"]\n", {6, 1}, "missing-key", "add deny"},
        Mistake{"window of an unknown stage",
                "[[window]]\nstages = [\"locl\"]\nallow = { cron = \"0 9 * * *\", for = \"8h\" }\n",
                {7, 11},
                "unknown-name",
                "did you mean 'local'?"},
        Mistake{"zone",
                "[[window]]\nstages = [\"local\"]\nallow = { cron = \"0 9 * * *\", for = \"8h\", timezone = "
                "\"Europe/Atlantis\" }\n",
                {8, 54},
                "bad-value",
                "Europe/Berlin"},
        Mistake{"policy none", "[policy.none]\nsoak = \"1m\"\n", {6, 9}, "bad-value", "another name"},
        Mistake{"policy extends unknown",
                "[policy.x]\nextends = \"prodution\"\n",
                {7, 11},
                "unknown-name",
                "did you mean 'production'?"},
        Mistake{"a check takes a taken name",
                "[[policy.local.check]]\nname = \"unit\"\nrun = \"x\"\n",
                {7, 8},
                "duplicate",
                "rename"},
        Mistake{"section of the wrong shape", "[window]\nstages = [\"local\"]\n", {6, 1}, "wrong-type", "[[window]]"},
        Mistake{"unnamed section", "[service]\nrun = \"x\"\n", {7, 1}, "wrong-type", "[service.NAME]"},
        Mistake{"bad name", "[service.\"a b\"]\nrun = \"x\"\n", {6, 10}, "bad-value", "[service.NAME]"},
        Mistake{"less isolation than the stage demands",
                "without = [\"kernel-filter\"]\n[stage.sandbox]\nchecks = []\n",
                {6, 12},
                "conflict",
                "leave the check out"},
        Mistake{"more than the policy allows",
                "limits = { memory = \"10T\" }\n[policy.local]\nlimits = { memory = \"1G\" }\n",
                {6, 21},
                "conflict",
                "\"1G\" or less"}),
    [](const auto& mistake) {
        std::string name = mistake.param.what;
        std::replace(name.begin(), name.end(), ' ', '_');
        return name;
    });

TEST(Loader, PrintsACycleOfChecksByName) {  // PF5
    const LoadResult result = loadText(smallFile("needs = [\"b\"]\n[check.b]\nrun = \"x\"\nneeds = [\"unit\"]\n"));
    EXPECT_EQ(onlyDiagnostic(result).message, "checks need each other: b → unit → b");
}

TEST(Loader, RefusesDuplicateAndZeroStages) {  // PF5
    EXPECT_NE(onlyDiagnostic(loadText("[pipeline]\nname = \"x\"\nstages = [\"local\", \"local\"]\n"))
                  .message.find("listed twice"),
              std::string::npos);
    EXPECT_NE(onlyDiagnostic(loadText("[pipeline]\nname = \"x\"\nstages = []\n")).hint.find("at least one"),
              std::string::npos);
}

TEST(Loader, AsksForADriverWhereTheNameSaysNothing) {
    const Diagnostic found = onlyDiagnostic(loadText("[pipeline]\nname = \"x\"\nstages = [\"canary\"]\n"));
    EXPECT_EQ(found.message, "stage 'canary' has no driver");
    EXPECT_EQ(found.span.begin, (Position{3, 11}));
}

TEST(Loader, TakesAStageThatIsNearlyAKnownOneForATypo) {
    EXPECT_EQ(onlyDiagnostic(loadText("[pipeline]\nname = \"x\"\nstages = [\"sandbox\", \"locl\"]\n")).hint,
              "did you mean 'local'?");
    const LoadResult mistyped = loadText(
        "[pipeline]\nname = \"x\"\nstages = [\"prodution\"]\n[stage.production]\ndriver = \"branch\"\nbranch = "
        "\"x\"\n");
    ASSERT_FALSE(mistyped.diagnostics.empty());
    EXPECT_EQ(mistyped.diagnostics.front().hint, "did you mean 'production'?");
    const std::string hint = onlyDiagnostic(loadText("[pipeline]\nname = \"x\"\nstages = [\"canary\"]\n")).hint;
    EXPECT_EQ(hint.find("did you mean"), std::string::npos) << hint;
}

TEST(Loader, SaysAllThatIsWrongAtOnceAndInOrder) {
    const LoadResult result =
        loadText(smallFile("retries = 99\ntimout = \"1s\"\nwhen = \"befor\"\n[sandbox]\nhide = 3\n"));
    ASSERT_EQ(result.diagnostics.size(), 4U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(result.diagnostics[i].span.begin.line, 6 + i);
    EXPECT_EQ(result.diagnostics[3].span.begin.line, 10U);
}

TEST(Loader, GoesOnBehindAKeyThatIsSetTwice) {
    const LoadResult result =
        loadText(smallFile("retries = 1\nretries = 2\nneeds = []\n  needs = [\n  \"a\",\n]\nretries = { x = 1 }\n"
                           "timout = \"1s\"\n[sandbox]\nlimits.tasks = 3\nlimits.tasks = \"x\"\nhide = 3\n"));
    std::vector<std::string> found;
    for (const Diagnostic& d : result.diagnostics)
        found.push_back(fmt::format("{}:{} {}", d.span.begin.line, d.span.begin.column, d.code));
    EXPECT_EQ(found, (std::vector<std::string>{"7:1 duplicate", "9:3 duplicate", "12:1 duplicate", "13:1 unknown-key",
                                               "16:1 duplicate", "17:8 wrong-type"}));
    EXPECT_EQ(result.pipeline, std::nullopt);
}

TEST(Loader, StopsWhereARepeatedKeyCannotBeReadOver) {
    for (const char* more : {"limits = { tasks = 1, tasks = 2 }\ntimout = 1\n", "[check.unit]\ntimout = 1\n",
                             "\"a=b\" = 1\n\"a=b\" = 2\ntimout = 1\n"})
        EXPECT_EQ(onlyDiagnostic(loadText(smallFile(more))).code, "duplicate") << more;
}

TEST(Loader, SaysASyntaxErrorBehindAKeyThatIsSetTwice) {
    const LoadResult result = loadText(smallFile("retries = 1\nretries = 2\n[sandbox\n"));
    ASSERT_EQ(result.diagnostics.size(), 2U);
    EXPECT_EQ(result.diagnostics[0].code, "duplicate");
    EXPECT_EQ(result.diagnostics[1].code, "syntax");
}

// PF6: a change can put nothing into a command; the words are fixed when the file is read.
TEST(Loader, NeverSplicesAValueIntoAShell) {
    const Diagnostic found = onlyDiagnostic(
        loadText("[pipeline]\nname = \"x\"\nstages = [\"sandbox\"]\n[check.a]\nrun = \"echo ${change.title}\"\n"));
    EXPECT_EQ(found.reason, "has '${', which only a shell understands");
    EXPECT_EQ(found.hint, "ask for a shell by name: run = [\"sh\", \"-c\", \"…\"]");
}

TEST(Loader, SaysWhereEachRuleComesFrom) {
    const auto rules = effectiveRules(loaded(kWithTargets));
    const auto rule = [&](std::string_view key) {
        for (const EffectiveRule& r : rules)
            if (r.key == key) return r.value + " from " + r.origin;
        return "no rule " + std::string(key);
    };
    EXPECT_EQ(rule("stage.production.soak"), "\"10m\" from gradus.toml:27:8");
    EXPECT_EQ(rule("policy.production.soak"), "\"5m\" from shipped policy production");
    EXPECT_EQ(rule("policy.production.freshness"), "\"recheck\" from shipped policy staging");
    EXPECT_EQ(rule("policy.production.approvals.1.expires"), "\"1d\" from shipped policy production");
    EXPECT_EQ(rule("policy.production.approvals.2.role"), "\"sre\" from gradus.toml:30:34");
    EXPECT_EQ(rule("check.unit.timeout"), "\"10m\" from default");
    EXPECT_EQ(rule("check.health.timeout"), "\"20s\" from default") << "three answers, five seconds apart, and ten";
    EXPECT_EQ(rule("check.unit.limits.memory"), "\"4G\" from gradus.toml:8:21");
    EXPECT_EQ(rule("stage.local.driver"), "\"worktree\" from default");
}

TEST(RulesDigest, StaysWithCommentsOrderAndSpelling) {
    GRADUS_CASES("E5");
    const std::string a = smallFile(
        "timeout = \"90s\"\nretries = 2\n[sandbox]\nenv = [\"A\"]\nlimits = { tasks = 3, memory = \"1G\" }\n");
    const std::string b =
        "# a comment\n[sandbox]\nlimits.memory = \"1024M\"\nlimits.tasks = 3\nenv = ['A']\n[check.unit]\nretries = 2 # "
        "twice\n"
        "run = [\"make\", \"test\"]\ntimeout = \"1m30s\"\n[pipeline]\nstages = [\"sandbox\", \"local\"]\nname = "
        "\"shop\"\n";
    EXPECT_EQ(rulesDigest(loaded(a)), rulesDigest(loaded(b)));
}

TEST(RulesDigest, ChangesWithEveryEffectiveRule) {
    GRADUS_CASES("E5");
    const Digest base = rulesDigest(loaded(smallFile()));
    for (const char* more :
         {"timeout = \"91s\"\n", "retries = 2\n", "network = { allow = [\"a.test:1\"] }\n",
          "[sandbox]\nenv = [\"A\"]\n", "[check.b]\nrun = \"b\"\n", "[stage.local]\nchecks = []\n",
          "[stage.local]\ncommit = true\n", "[stage.local]\npolicy = \"staging\"\n", "[policy.local]\nsoak = \"1s\"\n",
          "[service.s]\nrun = \"x\"\n", "[policy.local]\nprotected-paths = [\"a\"]\n", "[role.r]\nmembers = [\"a\"]\n",
          "[[window]]\nstages = [\"local\"]\nallow = { cron = \"0 9 * * *\", for = \"8h\" }\n"})
        EXPECT_NE(rulesDigest(loaded(smallFile(more))), base) << more;
}

TEST(RulesDigest, StaysWithWhatIsNotInForce) {
    EXPECT_EQ(rulesDigest(loaded(smallFile())), rulesDigest(loaded(smallFile("[policy.unused]\nsoak = \"1h\"\n"))));
}

}  // namespace
}  // namespace gradus
