// Status, trust and the policy verbs, as a person or a script meets them.

#include "tests/pipeline/end_to_end/program.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class Status : public ProgramTest {};

TEST_F(Status, InAnEmptyDirectorySaysThatThereIsNothingYet) {
    const Ended ended = run({"status"});
    EXPECT_EQ(ended.exit, 0);
    EXPECT_TRUE(has(ended.out, "no gradus.toml here"));
    EXPECT_TRUE(has(ended.out, "nothing is recorded yet"));
    EXPECT_FALSE(fs::exists(state)) << "looking makes nothing";
}

TEST_F(Status, FollowsTheRulesFromNoneToUntrustedToTrustedToChanged) {
    EXPECT_EQ(runJson({"status"})["data"]["rules"], "none");
    rules();
    Json answer = runJson({"status"});
    EXPECT_EQ(answer["data"]["rules"], "untrusted");
    EXPECT_EQ(answer["next"], Json({"gradus trust"}));
    trusted();
    EXPECT_EQ(runJson({"status"})["data"]["rules"], "trusted");
    rules(std::string(kGoodRules) + "# a remark\n");
    answer = runJson({"status"});
    EXPECT_EQ(answer["data"]["rules"], "changed");
    EXPECT_EQ(answer["data"]["changed_files"], Json({"gradus.toml"}));
    rules();
    EXPECT_EQ(runJson({"status"})["data"]["rules"], "trusted");
}

TEST_F(Status, CountsAPolicyFileAmongTheRules) {
    trusted();
    writeBytes(project / ".gradus/policies/strict.toml", "description = \"strict\"\n");
    EXPECT_EQ(runJson({"status"})["data"]["changed_files"], Json({".gradus/policies/strict.toml"}));
}

TEST_F(Status, OfATrustedFileThatIsGoneIsChanged) {
    trusted();
    fs::remove(project / "gradus.toml");
    EXPECT_EQ(runJson({"status"})["data"]["rules"], "changed");
}

TEST_F(Status, OfABrokenFileSendsToLint) {
    for (const char* text : {"[pipeline\n", "[pipeline]\nnmae = 1\n", "\xff\xfe"}) {
        rules(text);
        const Json answer = runJson({"status"});
        EXPECT_EQ(answer["ok"], true) << text;
        EXPECT_EQ(answer["next"], Json({"gradus policy lint"})) << text;
    }
}

TEST_F(Status, NeverWaitsForAFileThatIsNone) {
    ASSERT_EQ(::mkfifo((project / "gradus.toml").c_str(), 0600), 0);
    const Ended ended = run({"status"});
    EXPECT_EQ(ended.exit, 0);
    EXPECT_TRUE(has(ended.out, "is a named pipe, not a file"));
}

TEST_F(Status, BelongsToTheNearestProjectAbove) {
    trusted();
    fs::create_directories(project / "src/deep");
    EXPECT_EQ(runJson({"-C", "src/deep", "status"})["data"]["project"], fs::canonical(project).native());
}

TEST_F(Status, RefusesTheWholeFileSystemAndAHomeDirectory) {
    for (const std::string& directory : {std::string("/"), home.native()}) {
        const Ended ended = run({"-C", directory, "status"});
        EXPECT_EQ(ended.exit, 4) << directory;
        EXPECT_TRUE(has(ended.err, directory + " is "));
        EXPECT_TRUE(has(ended.err, "not a project"));
        EXPECT_TRUE(has(ended.err, "help: go into the project's own directory"));
    }
}

class Trust : public ProgramTest {};

TEST_F(Trust, WithoutATerminalNeedsToBeToldYes) {
    rules();
    const Ended ended = run({"trust"});
    EXPECT_EQ(ended.exit, 2);
    EXPECT_TRUE(has(ended.err, "there is no terminal to ask at"));
    EXPECT_TRUE(has(ended.err, "--yes"));
    EXPECT_EQ(events(), 0);
    EXPECT_EQ(runJson({"status"})["data"]["rules"], "untrusted");
}

TEST_F(Trust, IsNotForAgents) {
    rules();
    for (const char* actor : {"agent:fixer", "daemon:gradusd", "ci:runner"}) {
        variables["GRADUS_ACTOR"] = actor;
        for (const Words& words : {Words{"trust", "--yes"}, Words{"trust"}}) {
            const Ended ended = run(words);
            EXPECT_EQ(ended.exit, 4) << actor << ended.err;
            EXPECT_TRUE(has(ended.err, "only a person can trust rules; " + std::string(actor)));
        }
    }
    EXPECT_EQ(events(), 0);
}

TEST_F(Trust, ByADeclaredPersonIsOnTheirRecord) {
    rules();
    variables["GRADUS_ACTOR"] = "person:grün alice";
    ASSERT_EQ(run({"trust", "--yes"}).exit, 0);
    const Json answer = runJson({"audit", "query", "--event", "rules.trusted", "--actor", "grün alice"});
    ASSERT_EQ(answer["data"]["events"].size(), 1U);
    EXPECT_EQ(answer["data"]["events"][0]["actor"], "person:grün alice");
}

TEST_F(Trust, RefusesAnActorThatSaysNobody) {
    rules();
    for (const char* actor : {"alice", "robot:x", "person:", ":x", ":", "Person:x", " person:x"}) {
        variables["GRADUS_ACTOR"] = actor;
        const Ended ended = run({"trust", "--yes"});
        EXPECT_EQ(ended.exit, 2) << actor;
        EXPECT_TRUE(has(ended.err, "GRADUS_ACTOR is '" + std::string(actor) + "'"));
        EXPECT_TRUE(has(ended.err, "help: write KIND:NAME"));
    }
    EXPECT_EQ(events(), 0);
}

TEST_F(Trust, RefusesAnActorThatCannotBeRecordedAsText) {
    rules();
    variables["GRADUS_ACTOR"] = "person:bad\xff";
    const Ended ended = run({"trust", "--yes"});
    EXPECT_EQ(ended.exit, 2) << ended.err;
    EXPECT_TRUE(has(ended.err, "GRADUS_ACTOR"));
    EXPECT_EQ(events(), 0);
}

TEST_F(Trust, RefusesRulesWithErrors) {
    GRADUS_CASES("TX16");
    rules("[pipeline]\nname = \"shop\"\nstages = [\"sandbx\"]\n");
    const Ended ended = run({"trust", "--yes"});
    EXPECT_EQ(ended.exit, 2);
    EXPECT_TRUE(has(ended.out + ended.err, "gradus.toml:3:"));
    EXPECT_TRUE(has(ended.err, "rules with errors cannot be trusted"));
    EXPECT_EQ(events(), 0);
}

TEST_F(Trust, WithoutAFileSaysWhatIsMissing) {
    const Ended ended = run({"trust", "--yes"});
    EXPECT_EQ(ended.exit, 2) << ended.err;
    EXPECT_TRUE(has(ended.err, "gradus.toml"));
    EXPECT_TRUE(has(ended.err, "help: "));
    EXPECT_FALSE(fs::exists(state));
}

TEST_F(Trust, OfTheSameRulesIsRecordedOnce) {
    trusted();
    const std::int64_t before = events();
    const Json answer = runJson({"trust", "--yes"});
    EXPECT_EQ(answer["ok"], true);
    EXPECT_EQ(answer["data"]["recorded"], false);
    EXPECT_EQ(events(), before);
}

TEST_F(Trust, OfChangedRulesPinsTheNewOnes) {
    trusted();
    rules(std::string(kGoodRules) + "# a remark\n");
    EXPECT_EQ(runJson({"trust", "--yes"})["data"]["recorded"], true);
    EXPECT_EQ(runJson({"status"})["data"]["rules"], "trusted");
    rules();
    EXPECT_EQ(runJson({"status"})["data"]["rules"], "changed") << "the earlier ones are trusted no more";
}

class PolicyVerbs : public ProgramTest {};

TEST_F(PolicyVerbs, LintOfGoodRulesIsOk) {
    rules();
    const Ended ended = run({"policy", "lint"});
    EXPECT_EQ(ended.exit, 0);
    EXPECT_TRUE(has(ended.out, "ok  gradus.toml: 2 stages, 1 check"));
}

TEST_F(PolicyVerbs, LintTellsEveryMistakeToPrograms) {
    rules("[pipeline]\nname = \"shop\"\nstages = [\"sandbx\"]\n[check.unit]\nrun = \"make\"\ntimout = \"5m\"\n");
    const Ended ended = run({"policy", "lint", "--json"});
    EXPECT_EQ(ended.exit, 2);
    const Json answer = ended.json();
    EXPECT_EQ(answer["ok"], false);
    EXPECT_EQ(answer["error"]["code"], "usage");
    std::map<int, Json> byLine;
    for (const Json& one : answer["data"]["diagnostics"]) byLine[one["line"].get<int>()] = one;
    ASSERT_TRUE(byLine.contains(3) && byLine.contains(6)) << answer;
    EXPECT_EQ(byLine[6]["code"], "unknown-key");
    EXPECT_EQ(byLine[6]["column"], 1);
    EXPECT_TRUE(has(byLine[6]["hint"], "timeout"));
    for (const auto& [line, one] : byLine) EXPECT_NE(one["hint"], "") << line;
}

TEST_F(PolicyVerbs, LintJudgesAFileUnderItsOwnName) {
    writeBytes(scratch / "elsewhere/other.toml", "[pipeline]\nnmae = 1\n");
    const Ended ended = run({"policy", "lint", "../elsewhere/other.toml"});
    EXPECT_EQ(ended.exit, 2);
    EXPECT_TRUE(has(ended.out + ended.err, "../elsewhere/other.toml:2:1"));
    EXPECT_EQ(run({"policy", "lint", (scratch / "elsewhere").native()}).exit, 2);
}

TEST_F(PolicyVerbs, LintNamesFilesAsSeenFromWhereTheCallerStands) {
    writeBytes(project / "sub/gradus.toml", "[pipeline]\nnmae = 1\n");
    writeBytes(project / "sub/.gradus/policies/mine.toml", "soka = 1\n");
    for (const char* path : {"sub", "sub/", "./sub/gradus.toml", "sub/gradus.toml"}) {
        const Ended ended = run({"policy", "lint", path});
        EXPECT_TRUE(has(ended.out, "--> sub/gradus.toml:2:1")) << path;
        EXPECT_TRUE(has(ended.out, "--> sub/.gradus/policies/mine.toml:1:1")) << path;
        EXPECT_EQ(runJson({"policy", "lint", path})["data"]["file"], "sub/gradus.toml") << path;
    }
    for (const Words& words : {Words{"-C", "sub", "policy", "lint"}, Words{"-C", "sub", "policy", "lint", "."}})
        EXPECT_TRUE(has(run(words).out, "--> gradus.toml:2:1"));
}

TEST_F(PolicyVerbs, LintOfSomethingThatIsNotThereIsTheCallersMistake) {
    for (const char* path : {"no/such/file", "nosuch.toml", "gradus.toml", "/dev/null", "."}) {
        const Ended ended = run({"policy", "lint", path});
        EXPECT_EQ(ended.exit, 2) << path << ended.err;
        EXPECT_TRUE(has(ended.err, path == std::string(".") ? "gradus.toml" : path));
    }
}

TEST_F(PolicyVerbs, LintNeedsNoState) {
    rules();
    variables.erase("GRADUS_HOME");
    variables.erase("HOME");
    EXPECT_EQ(run({"policy", "lint"}).exit, 0);
    variables["GRADUS_HOME"] = state;
    writeBytes(state / "state.db", std::string(5000, 'x'));
    EXPECT_EQ(run({"policy", "lint"}).exit, 0);
}

TEST_F(PolicyVerbs, ShowSaysWhereEachRuleCameFrom) {
    rules(std::string(kGoodRules) + "timeout = \"7m\"\n");
    const Json answer = runJson({"policy", "show", "check.unit"});
    std::map<std::string, Json> byKey;
    for (const Json& rule : answer["data"]["rules"]) byKey[rule["key"]] = rule;
    ASSERT_TRUE(byKey.contains("check.unit.timeout")) << answer;
    EXPECT_EQ(byKey["check.unit.timeout"]["value"], "\"7m\"");
    EXPECT_TRUE(has(byKey["check.unit.timeout"]["origin"], "gradus.toml:7"));
    for (const auto& [key, rule] : byKey) EXPECT_NE(rule["origin"], "") << key;
}

TEST_F(PolicyVerbs, ShowShowsWhatIsInForceAndOnlyOnRequestWhatIsOnDisk) {
    rules(std::string(kGoodRules) + "timeout = \"7m\"\n");
    ASSERT_EQ(run({"trust", "--yes"}).exit, 0);
    rules(std::string(kGoodRules) + "timeout = \"9m\"\n");
    const Ended pinned = run({"policy", "show", "check.unit.timeout"});
    EXPECT_TRUE(has(pinned.out, "7m"));
    EXPECT_TRUE(has(pinned.err, "the trusted rules are shown; the files differ: gradus.toml"));
    const Ended onDisk = run({"policy", "show", "check.unit.timeout", "--on-disk"});
    EXPECT_TRUE(has(onDisk.out, "9m"));
    EXPECT_TRUE(has(onDisk.err, "the trusted rules stay in force"));
    EXPECT_NE(runJson({"policy", "show"})["data"]["digest"],
              runJson({"policy", "show", "--on-disk"})["data"]["digest"]);
}

TEST_F(PolicyVerbs, ShowGivesRulesTheSameDigestWhateverTheirOrderAndRemarks) {
    GRADUS_CASES("E5");
    rules();
    const Json before = runJson({"policy", "show"})["data"]["digest"];
    rules(
        "# a remark\n[check.unit]\nrun = \"make test\"\n[pipeline]\nstages = [\"sandbox\", \"local\"]\nname = "
        "\"shop\"\n");
    EXPECT_EQ(runJson({"policy", "show"})["data"]["digest"], before);
    rules(std::string(kGoodRules) + "timeout = \"7m\"\n");
    EXPECT_NE(runJson({"policy", "show"})["data"]["digest"], before);
}

TEST_F(PolicyVerbs, ShowOfTrustedRulesSurvivesTheFilesGoingBad) {
    trusted();
    rules("[pipeline\n");
    EXPECT_EQ(run({"policy", "show"}).exit, 0);
    EXPECT_EQ(run({"policy", "show", "--on-disk"}).exit, 2);
}

TEST_F(PolicyVerbs, SchemaIsJson) {
    const Ended ended = run({"policy", "schema"});
    EXPECT_EQ(ended.exit, 0);
    const Json schema = Json::parse(ended.out, nullptr, false);
    ASSERT_TRUE(schema.is_object());
    EXPECT_TRUE(schema.contains("$schema"));
    EXPECT_TRUE(schema["properties"].contains("pipeline"));
    EXPECT_EQ(runJson({"policy", "schema"})["data"], schema);
}

}  // namespace
}  // namespace gradus::test
