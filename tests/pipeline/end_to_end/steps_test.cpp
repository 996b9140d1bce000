// Steps around the switch and files that checks build, with the real program: irreversible ones, crashes, the same
// bytes in two stages, and what comes back.
#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus {
namespace {

using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;

class Steps : public ClimbingProgram {
  protected:
    void begin(const std::string& rules) {
        repository();
        edit(".gitignore", "dist/\n");
        const std::string text = "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"staging\", \"production\"]\n" +
                                 rules +
                                 fmt::format(
                                     "[stage.staging]\ndriver = \"release-directory\"\npath = \"{}\"\n"
                                     "[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\n"
                                     "[policy.staging]\nextends = \"none\"\nalone = [\"person\"]\n"
                                     "[policy.production]\nextends = \"none\"\nalone = [\"person\"]\n",
                                     staging.native(), production.native());
        edit("gradus.toml", text + steps_);
        commitAll("rules");
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
    /// A step of production that notes every run.
    void step(const std::string& name, const std::string& more, const std::string& script = "true") {
        steps_ += fmt::format(
            "[[stage.production.step]]\nname = \"{0}\"\nrun = [\"sh\", \"-c\", 'echo run {0} >> {1}; {2}']\n{3}\n",
            name, diary().native(), script, more);
    }
    std::string undoOf(const std::string& name) const {
        return fmt::format("undo = [\"sh\", \"-c\", 'echo undo {} >> {}']\n", name, diary().native());
    }
    std::filesystem::path diary() const { return scratch / "diary"; }
    std::string told() { return shell("cat '" + diary().native() + "' 2>/dev/null | tr '\\n' ' '").out; }
    std::string app(const std::filesystem::path& stage) { return test::bytesOf(stage / "current/app.txt"); }
    std::string bundle(const std::filesystem::path& stage) { return test::bytesOf(stage / "current/dist/bundle"); }

    /// Every build has other bytes: the same bytes were built once.
    static constexpr const char* kBuild =
        "[check.build]\nrun = [\"sh\", \"-c\", \"test ! -e dist && mkdir dist && (cat app.txt; head -c 16 /dev/urandom "
        "| od "
        "-An -tx1) > dist/bundle && ln -s bundle dist/latest\"]\noutputs = [\"dist/**\"]\n";

    Json promote(const std::string& change, const std::string& to, const test::Words& more = {}) {
        test::Words words{"promote", change, "--to", to};
        words.insert(words.end(), more.begin(), more.end());
        return gradusJson(words);
    }
    /// What each stage said about the build: "ran", or whose build it was.
    static std::vector<std::string> builds(const Json& climb) {
        std::vector<std::string> all;
        for (const Json& stage : climb["data"]["stages"])
            for (const Json& check : stage["checks"])
                if (check["check"] == "build") all.push_back(check.value("reused_from", "ran"));
        return all;
    }
    using Builds = std::vector<std::string>;

    std::string steps_;
};

TEST_P(Steps, WhatWouldBeRefusedIsRefusedInADryRunToo) {
    step("migrate", "irreversible = true");
    begin("");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change, "--to", "production", "--irreversible", "a backup was made"}).exit, 0);
    const Ended refused = gradus({"rollback", "production", "--dry-run"});
    EXPECT_EQ(refused.exit, 4) << refused.out << refused.err;
    EXPECT_TRUE(has(refused.err, "cannot be undone, so it is not taken back")) << refused.err;
    EXPECT_EQ(gradus({"rollback", "production", "--dry-run", "--insist", "so be it"}).exit, 0);
}

TEST_P(Steps, IgnoredFilesOfARepositoryWithoutACommitStayWhereTheyAre) {
    shell("rm -rf .git && git init -q");
    edit("app.txt", "v1\n");
    edit(".gitignore", ".env\nbuild/\n");
    edit(".env", "the key\n");
    edit("build/big/file", "built\n");
    edit("lib/keep", "kept\n");
    edit("gradus.toml",
         fmt::format("[pipeline]\nname = \"shop\"\nstages = [\"production\"]\n[check.unit]\nrun = \"test ! -e .env\"\n"
                     "[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\n"
                     "[policy.production]\nextends = \"none\"\nalone = [\"person\"]\n",
                     production.native()));
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const auto files = scratch / "files.json";
    test::writeBytes(files, R"([{"relative_path": "app.txt", "operation": "modify", "new_content": "v2\n"}])");
    std::filesystem::permissions(files, std::filesystem::perms(0644));
    ASSERT_EQ(gradus({"submit", "--files", files.native(), "--title", "two"}).exit, 0);
    const Ended up = gradus({"promote", "c1"});
    ASSERT_EQ(up.exit, 0) << up.out << up.err;
    EXPECT_EQ(app(production), "v2\n");
    EXPECT_TRUE(std::filesystem::exists(production / "current/lib/keep"));
    EXPECT_FALSE(std::filesystem::exists(production / "current/.env"));
    EXPECT_FALSE(std::filesystem::exists(production / "current/build"));
}

TEST_P(Steps, AnIrreversibleStepIsAskedForAndNothingGoesBackPastIt) {
    step("drain", undoOf("drain"));
    step("migrate", "irreversible = true");
    begin("");
    const std::string first = changed("echo v2 > app.txt");
    const Ended plan = gradus({"plan", first, "--to", "production"});
    EXPECT_TRUE(has(plan.out, "step      migrate, before-switch, cannot be undone")) << plan.out;
    const Ended waits = gradus({"promote", first, "--to", "production"});
    EXPECT_EQ(waits.exit, 8) << waits.out << waits.err;
    EXPECT_TRUE(has(waits.out, "what migrate does cannot be taken back: needs a person")) << waits.out;
    EXPECT_EQ(told(), "");
    const Ended through = gradus({"promote", first, "--to", "production", "--irreversible", "a backup was made"});
    EXPECT_EQ(through.exit, 0) << through.out << through.err;
    EXPECT_EQ(told(), "run drain run migrate ");
    EXPECT_EQ(app(production), "v2\n");
    const Ended timeline = gradus({"audit", "timeline"});
    EXPECT_TRUE(has(timeline.out, "step migrate is done")) << timeline.out;

    const Ended refused = gradus({"rollback", "production"});
    EXPECT_EQ(refused.exit, 4) << refused.out << refused.err;
    EXPECT_TRUE(has(refused.err, "--insist")) << refused.err;
    EXPECT_EQ(app(production), "v2\n");
    const Ended insisted = gradus({"rollback", "production", "--insist", "the data was restored"});
    EXPECT_EQ(insisted.exit, 0) << insisted.out << insisted.err;
    EXPECT_EQ(told(), "run drain run migrate undo drain ");
    EXPECT_FALSE(std::filesystem::exists(production / "current"));
    expectWhole();
}

TEST_P(Steps, WhatMayNotRunTwiceEndsInStuckAfterACrash) {
    step("drain", undoOf("drain") + "idempotence = \"yes\"");
    // It is done, and the program that would have noted it is gone.
    step("charge", undoOf("charge"), "kill -9 $PPID");
    begin("");
    const std::string change = changed("echo v2 > app.txt");
    gradus({"promote", change, "--to", "production"});
    const Ended recovered = gradus({"recover"});
    EXPECT_EQ(recovered.exit, 6) << recovered.out << recovered.err;
    EXPECT_TRUE(has(recovered.err, "--not-done charge")) << recovered.err;
    gradus({"recover"});
    EXPECT_EQ(told(), "run drain run charge ");
    const Json status = gradusJson({"status"});
    EXPECT_EQ(status["data"]["stages"][2]["steps"][1]["state"], "running") << status.dump(2);
    const std::string stuck = status["data"]["stages"][2]["stuck"];
    const Ended again = gradus({"promote", change, "--to", "production"});
    EXPECT_EQ(again.exit, 8) << again.out << again.err;
    EXPECT_EQ(gradus({"rollback", stuck}).exit, 4);
    const Ended back = gradus({"rollback", stuck, "--done", "charge"});
    EXPECT_EQ(back.exit, 0) << back.out << back.err;
    EXPECT_EQ(told(), "run drain run charge undo charge undo drain ");
    EXPECT_FALSE(std::filesystem::exists(production / "current"));
    expectWhole();
}

TEST_P(Steps, WhatIsSaidAboutAnIrreversibleStepOfUnknownEndIsAllThatIsNeeded) {
    step("migrate", "irreversible = true", "kill -9 $PPID");
    begin("");
    gradus({"promote", changed("echo v2 > app.txt"), "--to", "production", "--irreversible", "a backup was made"});
    const Ended recovered = gradus({"recover"});
    EXPECT_EQ(recovered.exit, 6) << recovered.out << recovered.err;
    EXPECT_TRUE(has(recovered.err, "--done migrate --insist REASON")) << recovered.err;
    const std::string stuck = gradusJson({"status"})["data"]["stages"][2]["stuck"];
    for (const test::Words& words :
         {test::Words{"rollback", stuck}, test::Words{"rollback", stuck, "--done", "migrate"}}) {
        const Ended refused = gradus(words);
        EXPECT_EQ(refused.exit, 4) << refused.out << refused.err;
        EXPECT_TRUE(has(refused.err, "gradus rollback " + stuck + " --done migrate --insist REASON")) << refused.err;
    }
    const Ended back = gradus({"rollback", stuck, "--done", "migrate", "--insist", "the data was restored"});
    EXPECT_EQ(back.exit, 0) << back.out << back.err;
    EXPECT_EQ(told(), "run migrate ");
    expectWhole();
}

TEST_P(Steps, WhatWasBuiltComesIntoEveryReleaseOfTheSameTree) {
    // What somebody built here is no part of it.
    begin(kBuild);
    edit("dist/bundle", "left over");
    const Json climb = promote(changed("echo v2 > app.txt"), "production");
    ASSERT_EQ(climb["ok"], true) << climb.dump(2);
    EXPECT_EQ(builds(climb), (Builds{"ran", "p1", "p1"})) << climb.dump(2);
    EXPECT_EQ(climb["data"]["stages"][2]["outputs"], 2);
    EXPECT_EQ(bundle(staging), bundle(production));
    EXPECT_TRUE(has(bundle(staging), "v2\n"));
    EXPECT_EQ(std::filesystem::read_symlink(production / "current/dist/latest"), "bundle");
    EXPECT_EQ(test::bytesOf(project / "dist/bundle"), "left over");
    const Ended blame = gradus({"blame", "production", "dist/bundle"});
    EXPECT_EQ(blame.exit, 0) << blame.err;
    expectWhole();
}

TEST_P(Steps, ABuildThatIsAskedAgainLeavesTheBytesThatStagingProved) {
    begin(kBuild);
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(promote(change, "staging")["ok"], true);
    const std::string proven = bundle(staging);
    const Json climb = promote(change, "production", {"--recheck"});
    ASSERT_EQ(climb["ok"], true) << climb.dump(2);
    EXPECT_EQ(builds(climb), (Builds{"ran", "ran", "ran"})) << climb.dump(2);
    EXPECT_EQ(bundle(staging), proven);
    EXPECT_EQ(bundle(production), proven);
    const Json build = climb["data"]["stages"][2]["checks"][0];
    EXPECT_EQ(build["outputs_from"], "p1") << climb.dump(2);
    EXPECT_TRUE(has(build["reason"].get<std::string>(), "it built other bytes than in p1, and those stay"));
    expectWhole();
}

TEST_P(Steps, AnotherTreeIsBuiltAgainAndGoesBackByteForByte) {
    begin(kBuild);
    ASSERT_EQ(promote(changed("echo v2 > app.txt"), "production")["ok"], true);
    const std::string before = fingerprint(production / target(production));
    const std::string first = bundle(production);
    // Staging gets something that production does not have.
    ASSERT_EQ(promote(changed("echo 2 > two.txt"), "staging")["ok"], true);
    EXPECT_NE(bundle(staging), first);
    const Json third = promote(changed("echo 3 > three.txt"), "production");
    ASSERT_EQ(third["ok"], true) << third.dump(2);
    EXPECT_EQ(builds(third).back(), "ran") << third.dump(2);
    EXPECT_NE(bundle(production), bundle(staging));
    EXPECT_NE(bundle(production), first);
    const Ended back = gradus({"rollback", "production"});
    EXPECT_EQ(back.exit, 0) << back.out << back.err;
    EXPECT_EQ(bundle(production), first);
    EXPECT_EQ(fingerprint(production / target(production)), before);
    const Ended drill = gradus({"drill", "production"});
    EXPECT_EQ(drill.exit, 0) << drill.out << drill.err;
    expectWhole();
}

TEST_P(Steps, ABuildThatMakesNothingOrTooMuchOfItsRightsIsANo) {
    begin("[check.build]\nrun = [\"sh\", \"-c\", \"sh ./build.sh\"]\noutputs = [\"dist/**\", \"app.txt\"]\n");
    const auto verdict = [&](const std::string& script) {
        const Json climb = promote(changed("echo '" + script + "' > build.sh"), "sandbox");
        return climb["data"]["stages"][0]["checks"][0].value("reason", "");
    };
    EXPECT_TRUE(has(verdict("true"), "it built nothing that `outputs` names"));
    EXPECT_TRUE(has(verdict("mkdir dist; ln -s ../../etc/passwd dist/x"), "leads out of the tree"));
    EXPECT_TRUE(has(verdict("mkdir dist; ln -s /etc/passwd dist/x"), "leads out of the tree"));
    EXPECT_TRUE(has(verdict("mkdir dist; echo a > dist/a; echo other > app.txt"), "is a file of the tree itself"));
    EXPECT_TRUE(has(verdict("mkdir dist; mkfifo dist/a; echo b > dist/b"), "cannot be an output"));
}

TEST_P(Steps, LintSaysWhichStageDoesNotTakeWhatIsBuilt) {
    repository();
    edit("gradus.toml",
         "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"local\"]\n[check.build]\nrun = \"true\"\n"
         "outputs = [\"dist/**\"]\n[stage.local]\nchecks = [\"build\"]\n");
    const Ended lint = gradus({"policy", "lint"});
    EXPECT_TRUE(has(lint.out + lint.err, "stage 'local' does not take what check 'build' builds")) << lint.out;
    EXPECT_TRUE(has(lint.out + lint.err, "no stage takes what check 'build' builds")) << lint.out;
}

INSTANTIATE_TEST_SUITE_P(Users, Steps, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

}  // namespace
}  // namespace gradus
