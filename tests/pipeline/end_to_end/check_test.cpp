// `gradus init` and `gradus check` as people use them.

#include "tests/pipeline/end_to_end/sandbox_program.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class CheckVerb : public SandboxProgramTest {
  protected:
    void rules(const std::string& checks) {
        const std::string text = "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"local\"]\n" + checks;
        shell("cat > gradus.toml <<'END'\n" + text + "END\n");
        EXPECT_EQ(gradus({"trust", "--yes"}).exit, 0);
    }
};
INSTANTIATE_TEST_SUITE_P(Users, CheckVerb, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

TEST_P(CheckVerb, RunsTheChecksOnTheFilesAsTheyAre) {
    rules("[check.unit]\nrun = [\"sh\", \"-c\", \"grep -q Shop README.md && echo x > README.md\"]\n");
    const std::string before = fingerprint();
    const Ended ended = gradus({"check"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_EQ(ended.out, "1 check passed on the work tree for stage sandbox\n");
    EXPECT_TRUE(has(ended.err, "passed    unit")) << ended.err;
    EXPECT_EQ(fingerprint(), before);
    shell("echo '# Store' > README.md");
    EXPECT_EQ(gradus({"check"}).exit, 1) << "an edit counts at once";
}

TEST_P(CheckVerb, SaysNoWithTheReasonAndTheEndOfTheOutput) {
    rules(
        "[check.unit]\nrun = [\"sh\", \"-c\", \"seq 1 100; echo broken; exit 3\"]\n"
        "[check.more]\nneeds = [\"unit\"]\nrun = \"true\"\n");
    const Ended ended = gradus({"check", "local"});
    EXPECT_EQ(ended.exit, 1);
    EXPECT_TRUE(has(ended.out, "unit: exit code 3\n")) << ended.out;
    EXPECT_TRUE(has(ended.out, "    100\n    broken\n")) << ended.out;
    EXPECT_FALSE(has(ended.out, "    50\n")) << ended.out;
    EXPECT_TRUE(has(ended.out, "not run more\n")) << ended.out;
    EXPECT_TRUE(has(ended.err, "error: a check said no")) << ended.err;
}

TEST_P(CheckVerb, TellsProgramsEverything) {
    rules(
        "[check.unit]\nrun = [\"sh\", \"-c\", \"echo out; exit 3\"]\n[check.gone]\nrun = \"no-such-program\"\nretries "
        "= 0\n");
    const Json envelope = gradusJson({"check"});
    EXPECT_EQ(envelope["ok"], false);
    EXPECT_EQ(envelope["error"]["code"], "failed");
    const Json& data = envelope["data"];
    EXPECT_EQ(data["stage"], "sandbox");
    EXPECT_EQ(data["verdict"], "failed");
    ASSERT_EQ(data["checks"].size(), 2U) << data;
    for (const Json& check : data["checks"]) {
        EXPECT_EQ(check["verdict"], check["name"] == "unit" ? "failed" : "errored") << check;
        if (check["name"] != "unit") continue;
        EXPECT_EQ(check["exit_code"], 3);
        EXPECT_EQ(check["reason"], "exit code 3");
        EXPECT_TRUE(check["execution"].get<std::string>().starts_with("e"));
        EXPECT_EQ(check["log"].get<std::string>().size(), 64U);
    }
}

TEST_P(CheckVerb, CouldNotJudgeIsNotANo) {
    rules("[check.gone]\nrun = \"no-such-program\"\n");
    const Ended ended = gradus({"check"});
    EXPECT_EQ(ended.exit, 6);
    EXPECT_TRUE(has(ended.err, "(2 attempts)")) << ended.err;
}

TEST_P(CheckVerb, LooksAtWhatASandboxChanged) {
    rules("[check.unit]\nrun = [\"sh\", \"-c\", \"grep -q Store README.md && ls src/new.c\"]\n");
    EXPECT_EQ(gradus({"check"}).exit, 1);
    EXPECT_EQ(gradus({"try", "--name", "better", "--", "sh", "-c", "echo Store > README.md; echo > src/new.c"}).exit,
              0);
    const Ended ended = gradus({"check", "--on", "better"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "passed on s")) << ended.out;
    EXPECT_FALSE(fs::exists(project / "src/new.c"));
    shell("echo 'mine alone' > README.md");
    const Ended conflict = gradus({"check", "--on", "better"});
    EXPECT_EQ(conflict.exit, 4);
    EXPECT_TRUE(has(conflict.err, "README.md")) << conflict.err;
}

TEST_P(CheckVerb, RunsNothingThatNobodyTrusted) {
    EXPECT_EQ(gradus({"check"}).exit, 2);
    shell("printf '[pipeline]\\nname = \"x\"\\nstages = [\"sandbox\"]\\n[check.a]\\nrun = \"true\"\\n' > gradus.toml");
    const Ended untrusted = gradus({"check"});
    EXPECT_EQ(untrusted.exit, 4);
    EXPECT_TRUE(has(untrusted.err, "gradus trust")) << untrusted.err;
    EXPECT_EQ(gradus({"trust", "--yes"}).exit, 0);
    shell("sed -i 's/\"true\"/\"false\"/' gradus.toml");
    const Ended pinned = gradus({"check"});
    EXPECT_EQ(pinned.exit, 0) << "the trusted rules count";
    EXPECT_TRUE(has(pinned.err, "differ from the trusted ones")) << pinned.err;
    EXPECT_EQ(gradus({"check", "nowhere"}).exit, 2);
}

TEST_P(CheckVerb, AStageWithoutChecksIsSaid) {
    rules("");
    const Ended ended = gradus({"check"});
    EXPECT_EQ(ended.exit, 0);
    EXPECT_EQ(ended.out, "stage sandbox has no checks that run before\n");
}

TEST_P(CheckVerb, InitWritesTrustsAndCanBeChecked) {
    shell("printf 'test:\\n\\t@echo fine\\n' > Makefile");
    const Ended shown = gradus({"init", "--dry-run"});
    EXPECT_EQ(shown.exit, 0) << shown.err;
    EXPECT_TRUE(has(shown.out, "run = \"make test\"")) << shown.out;
    EXPECT_FALSE(fs::exists(project / "gradus.toml"));
    const Json data = gradusJson({"init"})["data"];
    EXPECT_EQ(data["written"], true);
    EXPECT_EQ(data["trusted"], true);
    EXPECT_EQ(data["found"], Json::array({"Makefile, with a target 'test'"}));
    EXPECT_EQ(bytesOf(project / "gradus.toml"), shown.out);
    EXPECT_EQ(gradus({"policy", "lint"}).exit, 0);
    const Ended checked = gradus({"check"});
    EXPECT_EQ(checked.exit, 0) << checked.out << checked.err;
    const Ended again = gradus({"init"});
    EXPECT_EQ(again.exit, 4);
    EXPECT_EQ(bytesOf(project / "gradus.toml"), shown.out);
    // The same words once more are as trusted as they were, whoever writes them.
    shell("rm gradus.toml");
    variables["GRADUS_ACTOR"] = "agent:fixer";
    EXPECT_EQ(gradusJson({"init"})["data"]["trusted"], true);
}

TEST_P(CheckVerb, InitTrustsNothingForAnAgentNorWhatOthersWrote) {
    variables["GRADUS_ACTOR"] = "agent:fixer";
    const Json agents = gradusJson({"init"});
    EXPECT_EQ(agents["data"]["written"], true);
    EXPECT_EQ(agents["data"]["trusted"], false);
    EXPECT_EQ(agents["next"], Json::array({"gradus trust"}));
    variables.erase("GRADUS_ACTOR");
    shell("rm gradus.toml; mkdir -p .gradus/policies; printf 'soak = \"1m\"\\n' > .gradus/policies/extra.toml");
    EXPECT_EQ(gradusJson({"init"})["data"]["trusted"], false);
}

}  // namespace
}  // namespace gradus::test
