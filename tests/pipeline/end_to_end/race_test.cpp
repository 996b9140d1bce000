// Several approaches at once, compared, the winner kept: the real program, real sandboxes, two users.

#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus::test {
namespace {

class Racing : public ClimbingProgram {
  protected:
    // A function that is wrong, and the test that says so.
    void brokenSum() {
        edit("sum.sh", "sum() { echo $(($1 - $2)); }\n");
        edit("test.sh", ". ./sum.sh\ntest \"$(sum 2 3)\" = 5 && test \"$(sum 1 1)\" = 2\n");
        commitAll("broken");
    }
    Json raced(Words candidates, Words options = {"--check", "sh test.sh"}) {
        options.insert(options.begin(), "race");
        options.insert(options.end(), candidates.begin(), candidates.end());
        return gradusJson(options);
    }
    static const Json& entry(const Json& answer, const std::string& name) {
        for (const Json& one : answer["data"]["candidates"])
            if (one["name"] == name) return one;
        static const Json kNone;
        return kNone;
    }

    const std::string fix = "right=sed -i 's/ - / + /' sum.sh";
    const std::string guess = "guess=echo 'sum() { echo 5; }' > sum.sh";
    const std::string verbose = "verbose=printf '# adds\\nsum() {\\n  echo $(($1 + $2))\\n}\\n' > sum.sh";
};
INSTANTIATE_TEST_SUITE_P(Users, Racing, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

TEST_P(Racing, ComparesAndAppliesTheWinner) {
    brokenSum();
    const Json answer = raced({guess, verbose, fix}, {"--check", "sh test.sh", "--apply"});
    ASSERT_EQ(answer["ok"], true) << answer.dump(2);
    EXPECT_EQ(answer["data"]["race"]["outcome"], "won");
    EXPECT_EQ(answer["data"]["race"]["winner"], "right");
    EXPECT_EQ(shell("cat sum.sh").out, "sum() { echo $(($1 + $2)); }\n");
    EXPECT_EQ(shell("sh test.sh; git status --porcelain").out, " M sum.sh\n");
    // The one that passes with less of a change is the better one; a no is last.
    EXPECT_EQ(answer["data"]["candidates"][1]["name"], "verbose");
    EXPECT_EQ(entry(answer, "guess")["standing"], "failed");
    EXPECT_EQ(entry(answer, "right")["lines_added"], 1);
    EXPECT_EQ(entry(answer, "right")["lines_removed"], 1);
    EXPECT_EQ(entry(answer, "right")["overlap"].size(), 2);
    expectWhole();
}

TEST_P(Racing, LosersAreKeptAsEvidenceAndTheTableCanBeAskedForAgain) {
    brokenSum();
    const std::string before = workTree();
    const Json answer = raced({guess, fix});
    EXPECT_EQ(workTree(), before) << "without --apply nothing is written";
    const std::string loser = entry(answer, "guess")["sandbox"];
    EXPECT_EQ(gradus({"sandbox", "exec", loser, "--", "cat", "sum.sh"}).out, "sum() { echo 5; }\n");
    EXPECT_EQ(gradusJson({"show", answer["data"]["race"]["change"]})["data"]["change"]["id"],
              answer["data"]["race"]["change"]);
    const Json shown = gradusJson({"race", "show"})["data"]["race"];
    EXPECT_EQ(shown["id"], answer["data"]["race"]["id"]);
    EXPECT_EQ(shown["state"], "won");
    EXPECT_EQ(shown["candidates"], answer["data"]["candidates"]);
    EXPECT_TRUE(has(gradus({"race", "ls"}).out, "right, guess"));
}

TEST_P(Racing, NobodyPassingIsANoAndNothingIsSubmitted) {
    brokenSum();
    const std::string before = workTree();
    const Ended ended = gradus({"race", "--check", "sh test.sh", guess, "same=true", "broken=exit 3", "--apply"});
    EXPECT_EQ(ended.exit, 1) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "no candidate passed every check")) << ended.out;
    EXPECT_EQ(workTree(), before);
    EXPECT_EQ(gradusJson({"ls"})["data"]["changes"].size(), 0);
    const Json shown = gradusJson({"race", "show", "r1"})["data"]["race"];
    std::map<std::string, std::string> standings;
    for (const Json& one : shown["candidates"]) standings[one["name"]] = one["standing"];
    EXPECT_EQ(standings,
              (std::map<std::string, std::string>{{"guess", "failed"}, {"same", "empty"}, {"broken", "failed"}}));
}

TEST_P(Racing, PatchesAndChangesRaceToo) {
    brokenSum();
    const Json made = raced({verbose});
    const std::string change = made["data"]["race"]["change"];
    shell("sed -i 's/ - / + /' sum.sh && git diff > ../right.diff && git checkout -q sum.sh");
    const Json answer = raced({"patch=@../right.diff", "change=" + change, guess});
    EXPECT_EQ(answer["data"]["race"]["winner"], "patch") << answer.dump(2);
    EXPECT_EQ(entry(answer, "change")["standing"], "passed");
    EXPECT_EQ(raced({"change=" + change, guess})["data"]["race"]["change"], change) << "no second change for the same";
}

TEST_P(Racing, TheFirstToPassEndsTheOthers) {
    brokenSum();
    const auto began = std::chrono::steady_clock::now();
    const Json answer = raced({"slow=sleep 60; echo 'sum() { :; }' > sum.sh", fix},
                              {"--check", "sh test.sh", "--stop", "first-pass", "--jobs", "2"});
    EXPECT_EQ(answer["data"]["race"]["winner"], "right") << answer.dump(2);
    EXPECT_EQ(entry(answer, "slow")["standing"], "stopped");
    EXPECT_EQ(entry(answer, "slow")["reason"], "another one had passed");
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(40));
}

TEST_P(Racing, TheBudgetEndsWhatTakesTooLong) {
    brokenSum();
    const Json answer = raced({"slow=sleep 60", fix}, {"--check", "sh test.sh", "--budget", "8s", "--jobs", "2"});
    EXPECT_EQ(entry(answer, "slow")["reason"], "the time for all of them was up") << answer.dump(2);
    EXPECT_EQ(answer["data"]["race"]["winner"], "right");
}

TEST_P(Racing, RanksByWhatIsAskedFor) {
    brokenSum();
    const Json answer =
        raced({"slow=sleep 1; sed -i 's/ - / + /' sum.sh", verbose}, {"--check", "sh test.sh", "--rank", "time"});
    EXPECT_EQ(answer["data"]["race"]["winner"], "verbose") << answer.dump(2);
}

TEST_P(Racing, AProjectThatMovesMakesTheResultsVoid) {
    brokenSum();
    const auto running = startCommand(
        {GRADUS_PROGRAM, "race", "--check", "sh test.sh", "right=sed -i 's/ - / + /' sum.sh; sleep 3", "--apply"});
    for (int i = 0; i < 200 && !has(running->errSoFar(), "right: running"); ++i) ::usleep(20'000);
    ::usleep(300'000);
    edit("app.txt", "mine\n");
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 7) << ended.out << ended.err;
    EXPECT_EQ(shell("cat sum.sh").out, "sum() { echo $(($1 - $2)); }\n") << "nothing was applied";
}

TEST_P(Racing, JudgedByTheChecksOfThePipelineWithoutItsOwn) {
    given();
    const Json answer = raced({"bad=echo no-sandbox > app.txt", "good=echo v2 > app.txt"}, {"--to", "local"});
    ASSERT_EQ(answer["ok"], true) << answer.dump(2);
    EXPECT_EQ(answer["data"]["race"]["winner"], "good");
    EXPECT_EQ(entry(answer, "bad")["checks"][0]["name"], "unit-sandbox");
    EXPECT_EQ(shell("cat app.txt").out, "v2\n");
}

TEST_P(Racing, KilledInTheMiddleItLeavesNothingAndCanBeRepeated) {
    brokenSum();
    const std::string before = fingerprint();
    const auto running = startCommand({GRADUS_PROGRAM, "race", "--check", "sh test.sh", fix, "slow=sleep 60", "-j2"});
    for (int i = 0; i < 500 && !has(running->errSoFar(), "right: passed"); ++i) ::usleep(20'000);
    ASSERT_TRUE(has(running->errSoFar(), "right: passed")) << running->errSoFar();
    running->stop(SIGKILL);
    EXPECT_EQ(gradusJson({"race", "show"})["data"]["race"]["state"], "lost");
    const Json answer = raced({fix, guess});
    EXPECT_EQ(answer["data"]["race"]["winner"], "right") << answer.dump(2);
    EXPECT_EQ(gradusJson({"sandbox", "list"})["data"]["sandboxes"].size(), 2) << "only those of the second race";
    EXPECT_EQ(fingerprint(), before);
    expectWhole();
}

TEST_P(Racing, WordsThatMeanNothingAreSaidBeforeAnythingRuns) {
    brokenSum();
    for (const Words& words : {Words{"race", "sed -i s/a/b/ x"}, Words{"race", "a=true", "a=false", "--check", "true"},
                               Words{"race", "a="}, Words{"race", "a=true", "--check", "true", "--rank", "beauty"},
                               Words{"race", "a=true", "--check", "true", "--budget", "0s"}}) {
        const Ended ended = gradus(words);
        EXPECT_EQ(ended.exit, 2) << words[1] << ": " << ended.out << ended.err;
    }
    EXPECT_EQ(gradus({"race", "a=c99", "--check", "true"}).exit, 2) << "no such change";
    EXPECT_EQ(gradus({"race", "a=@nowhere.diff", "--check", "true"}).exit, 6) << "no such file";
    const Ended unjudged = gradus({"race", "a=true"});
    EXPECT_EQ(unjudged.exit, 2);
    EXPECT_TRUE(has(unjudged.err, "--check")) << unjudged.err;
    EXPECT_TRUE(gradusJson({"race", "ls"})["data"]["races"].empty());
}

}  // namespace
}  // namespace gradus::test
