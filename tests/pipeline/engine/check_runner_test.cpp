// Checks before a stage is touched: in sandboxes, over the tree that the stage would hold.
#include "pipeline/engine/check_runner.h"

#include <unistd.h>

#include <atomic>
#include <fstream>

#include "tests/pipeline/engine/check_runner_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

TEST_F(CheckRunnerTest, SeesTheTreeAsItWillBe) {
    GRADUS_CASES("TX2");
    rules("[check.look]\nrun = [\"sh\", \"-c\", \"cat new.txt README.md; pwd\"]\n");
    change("new.txt", "new\n");
    const auto reports = before();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(describe(reports), "look passed: exit code 0\n");
    EXPECT_EQ(reports[0].answer.exitCode, 0);
    EXPECT_EQ(reports[0].answer.log, "new\n" + project_.read("README.md") + project_.path().native() + "\n");
    EXPECT_EQ(objects_->readAll(*reports[0].log, 1000), reports[0].answer.log);
    EXPECT_EQ(records().execution(*reports[0].answer.execution)->state, ExecutionState::kFinished);
    EXPECT_EQ(verdictOf(reports), Cause::kPassed);
    EXPECT_FALSE(fs::exists(project_.path() / "new.txt"));
}

TEST_F(CheckRunnerTest, ANoIsANoAndIsNotRetried) {
    rules("[check.unit]\nrun = [\"sh\", \"-c\", \"echo broken >&2; exit 3\"]\nretries = 5\n");
    const auto reports = before();
    EXPECT_EQ(describe(reports), "unit failed: exit code 3\n");
    EXPECT_EQ(reports[0].attempts, 1);
    EXPECT_EQ(reports[0].answer.log, "broken\n");
    EXPECT_EQ(verdictOf(reports), Cause::kFailed);
}

TEST_F(CheckRunnerTest, CanWriteNeitherToTheTreeUnderTestNorToTheRealOne) {
    rules(
        "[check.a]\nrun = [\"sh\", \"-c\", \"rm -rf * && echo mine > README.md\"]\n"
        "[check.b]\nneeds = [\"a\"]\nrun = [\"sh\", \"-c\", \"grep -v mine README.md new.txt\"]\n");
    change("new.txt", "new\n");
    const std::string real = project_.fingerprint();
    EXPECT_EQ(describe(before()), "a passed: exit code 0\nb passed: exit code 0\n");
    EXPECT_EQ(project_.fingerprint(), real);
    EXPECT_EQ(layerDirectories(), 0U) << "the change's layer goes with the check";
    expectConsistent();
}

TEST_F(CheckRunnerTest, WhatCannotBeStartedIsErroredAndTriedAgain) {
    rules("[check.gone]\nrun = \"no-such-program\"\nretries = 2\n");
    const auto reports = before();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].answer.verdict, Cause::kErrored) << describe(reports);
    EXPECT_EQ(reports[0].attempts, 3);
    EXPECT_EQ(verdictOf(reports), Cause::kErrored);
}

TEST_F(CheckRunnerTest, ADemandThatCannotBeMetIsErroredWithTheReasonAndNothingRuns) {
    rules("[check.unit]\nrun = [\"sh\", \"-c\", \"true\"]\nrequires = [\"separate-kernel\"]\nretries = 0\n");
    const auto reports = before();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].answer.verdict, Cause::kErrored);
    EXPECT_NE(reports[0].answer.reason.find("separate-kernel"), std::string::npos) << reports[0].answer.reason;
    EXPECT_FALSE(reports[0].answer.execution);
}

TEST_F(CheckRunnerTest, TooLongIsTimedOut) {
    GRADUS_CASES("TX4");
    rules("[check.slow]\nrun = \"sleep 600\"\ntimeout = \"300ms\"\nretries = 3\n");
    const auto reports = before();
    EXPECT_EQ(describe(reports), "slow timed-out: timed out: over its wall-time of 300ms\n");
    EXPECT_EQ(reports[0].attempts, 1);
}

TEST_F(CheckRunnerTest, CancelledEndsWhatRunsAndStartsNothingElse) {
    GRADUS_CASES("I24");
    rules("[check.a]\nrun = [\"sh\", \"-c\", \"echo ready; sleep 600\"]\n[check.b]\nneeds = [\"a\"]\nrun = \"true\"\n");
    progress_.output = [&](const Check&, Stream, std::string_view) { cancel_.request_stop(); };
    EXPECT_EQ(describe(before()), "a cancelled: cancelled\n");
}

TEST_F(CheckRunnerTest, OneWhoseNeedsDidNotPassIsNotRun) {
    rules(
        "[check.a]\nrun = \"false\"\n[check.b]\nneeds = [\"a\"]\nrun = \"true\"\n"
        "[check.c]\nneeds = [\"b\"]\nrun = \"true\"\n[check.d]\nrun = \"true\"\n");
    EXPECT_EQ(describe(before()), "a failed: exit code 1\nd passed: exit code 0\n");
}

TEST_F(CheckRunnerTest, RunsTwoAtOnce) {
    rules(
        "[check.a]\nrun = [\"sh\", \"-c\", \"echo a; sleep 600\"]\ntimeout = \"20s\"\n"
        "[check.b]\nrun = [\"sh\", \"-c\", \"echo b; sleep 600\"]\ntimeout = \"20s\"\n");
    std::set<std::string> heard;
    progress_.output = [&](const Check& check, Stream, std::string_view) {
        heard.insert(check.name);
        if (heard.size() == 2) cancel_.request_stop();
    };
    EXPECT_EQ(describe(before()), "a cancelled: cancelled\nb cancelled: cancelled\n");
}

TEST_F(CheckRunnerTest, ATreeThatMovedMeanwhileMakesTheVerdictVoid) {
    GRADUS_CASES("I8", "CA11");
    rules(
        "[check.a]\nrun = [\"sh\", \"-c\", \"echo ready; true\"]\nretries = 3\n"
        "[check.b]\nneeds = [\"a\"]\nrun = \"true\"\n");
    tree_.was = sha256("before");
    std::atomic<bool> moved = false;
    tree_.now = [&] { return moved ? sha256("after") : sha256("before"); };
    progress_.output = [&](const Check&, Stream, std::string_view) { moved = true; };
    const auto reports = before();
    ASSERT_EQ(reports.size(), 1U) << describe(reports);
    EXPECT_EQ(reports[0].answer.verdict, Cause::kErrored);
    EXPECT_TRUE(reports[0].moved);
    EXPECT_EQ(reports[0].attempts, 1) << "again would be about another tree";
    EXPECT_NE(reports[0].answer.reason.find("moved"), std::string::npos);
    EXPECT_EQ(verdictOf(reports), Cause::kErrored);
}

// Whatever the rules say of freshness: what the check looked at was, for a while, something else.
TEST_F(CheckRunnerTest, AnEditThatWasTakenBackMakesTheVerdictVoid) {
    for (const char* command : {"echo ready; true", "echo ready; false"}) {
        rules(fmt::format("[check.a]\nrun = [\"sh\", \"-c\", \"{}\"]\n", command));
        std::ofstream(project_.path() / "edited") << "one";
        tree_.was = sha256("the same");
        tree_.now = [] { return sha256("the same"); };
        progress_.output = [&](const Check&, Stream, std::string_view) {
            std::ofstream(project_.path() / "edited") << "other";
            std::ofstream(project_.path() / "edited") << "one";
        };
        const auto reports = before();
        ASSERT_EQ(reports.size(), 1U);
        EXPECT_TRUE(reports[0].moved);
        EXPECT_EQ(reports[0].answer.verdict, Cause::kErrored) << "not failed: it says nothing about the change";
        EXPECT_NE(reports[0].answer.reason.find("'edited' moved"), std::string::npos) << reports[0].answer.reason;
    }
}

TEST_F(CheckRunnerTest, ATreeThatMovedBeforeMakesTheVerdictVoidAsWell) {
    rules("[check.a]\nrun = \"true\"\n");
    tree_.was = sha256("before");
    tree_.now = [] { return sha256("after"); };
    const auto reports = before();
    EXPECT_TRUE(reports.at(0).moved);
    EXPECT_EQ(reports[0].answer.verdict, Cause::kErrored);
}

// To look may mean to look at every file of a large tree.
/// A check that builds, and what is asked about its builds.
constexpr const char* kBuild =
    "[check.build]\nrun = [\"sh\", \"-c\", \"mkdir -p dist && cat README.md > dist/all\"]\noutputs = [\"dist/**\"]\n";

TEST_F(CheckRunnerTest, WhatWasBuiltOfFilesThatMovedIsNotKept) {
    rules(kBuild);
    Digest source = sha256("before");
    tree_.source = [&] { return source; };
    tree_.leftOver = [](const auto&) { return std::vector<std::string>(); };
    EXPECT_EQ(describe(before()), "build passed: exit code 0\n");
    progress_.started = [&](const Check&) { source = sha256("somebody saved a file"); };
    const auto reports = before();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_TRUE(reports.front().moved);
    EXPECT_EQ(reports.front().answer.verdict, Cause::kErrored);
}

TEST_F(CheckRunnerTest, ABuildIsBoundToWhatItSaw) {
    tree_.source = [] { return sha256("the tree"); };
    tree_.leftOver = [](const auto&) { return std::vector<std::string>(); };
    const auto builtOf = [&](const std::string& more) {
        rules(more + kBuild);
        return *before().front().builtOf;
    };
    const Digest plain = builtOf("");
    EXPECT_EQ(builtOf(""), plain);
    EXPECT_NE(builtOf("[sandbox]\nhide = [\".env*\"]\n"), plain);
}

TEST_F(CheckRunnerTest, ABuildThatIsNotToBeReusedIsAskedAgain) {
    tree_.source = [] { return sha256("the tree"); };
    tree_.leftOver = [](const auto&) { return std::vector<std::string>(); };
    int looked = 0;
    tree_.built = [&](const Digest&, const auto&) {
        ++looked;
        return std::optional<EarlierProof>();
    };
    rules(std::string(kBuild) + "reuse = false\n");
    before();
    EXPECT_EQ(looked, 0);
    rules(kBuild);
    before();
    EXPECT_EQ(looked, 1);
}

TEST_F(CheckRunnerTest, OfProcessorTimeAllOfThemHaveOneShare) {
    // Works until it has had 0.6 s of a processor by its own account, however fast or busy the machine is.
    const std::string work =
        "[\"sh\", \"-c\", '''"
        "\nused=0; while [ $used -lt 60 ]; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done"
        "\nread -r stat < /proc/$$/stat; set -- ${stat##*) }; used=$((${12} + ${13})); done''']\n";
    rules("[check.a]\nrun = " + work + "[check.b]\nneeds = [\"a\"]\nrun = " + work);
    // Enough for either, not for both.
    tree_.atMost[LimitName::kCpuTime] = Limit{1000, true};
    const auto reports = before();
    ASSERT_EQ(reports.size(), 2U) << describe(reports);
    EXPECT_EQ(reports[0].answer.verdict, Cause::kPassed) << describe(reports);
    EXPECT_NE(reports[1].answer.verdict, Cause::kPassed) << describe(reports);
}

TEST_F(CheckRunnerTest, TheTreeIsLookedAtOncePerCheck) {
    rules("[check.a]\nrun = \"true\"\n[check.b]\nrun = \"true\"\n");
    int looks = 0;
    tree_.now = [&] {
        ++looks;
        return tree_.was;
    };
    EXPECT_EQ(verdictOf(before()), Cause::kPassed);
    EXPECT_EQ(looks, 2);
}

TEST_F(CheckRunnerTest, EvidenceIsBoundToTheCheckAndWhatItRanIn) {
    GRADUS_CASES("I8");
    rules("[check.a]\nrun = \"true\"\n");
    tree_.evidence.tree = sha256("tree");
    const CheckReport first = before().at(0);
    EXPECT_EQ(first.evidence.tree, sha256("tree"));
    EXPECT_NE(first.evidence.environment, Digest());
    EXPECT_EQ(before().at(0).fingerprint(), first.fingerprint());
    rules("[check.a]\nrun = \"true\"\nlimits = { tasks = 1000 }\n");
    EXPECT_NE(before().at(0).evidence.check, first.evidence.check);
    rules("[check.a]\nrun = \"true\"\nnetwork = \"host\"\n");
    const CheckReport weaker = before().at(0);
    EXPECT_NE(weaker.evidence.environment, first.evidence.environment) << "fewer guarantees";
    tree_.evidence.tree = sha256("another");
    EXPECT_NE(before().at(0).fingerprint(), weaker.fingerprint());
}

TEST_F(CheckRunnerTest, StageAndPolicyLimitsHold) {
    rules("[policy.sandbox]\nlimits = { tasks = 64 }\n[check.a]\nrun = \"true\"\n");
    const auto reports = before();
    ASSERT_EQ(describe(reports), "a passed: exit code 0\n");
    bool found = false;
    const auto execution = records().execution(*reports[0].answer.execution);
    for (const LimitReport& limit : execution->limits)
        if (limit.name == LimitName::kTasks) found = limit.value == 64;
    EXPECT_TRUE(found);
}

TEST_F(CheckRunnerTest, ALimitThatBreaksIsANo) {
    rules("[check.a]\nrun = [\"sh\", \"-c\", \"head -c 200000000 /dev/zero | tail\"]\nlimits = { memory = \"32M\" }\n");
    const auto reports = before();
    EXPECT_EQ(reports.at(0).answer.verdict, Cause::kFailed) << describe(reports);
    // Without a control group of one's own the limit makes the command fail by itself.
    if (::geteuid() == 0) {
        EXPECT_EQ(reports[0].answer.reason, "out of memory: over its memory of 32M");
    }
}

TEST_F(CheckRunnerTest, HostChecksLookAtWhatIsThereWithTheirOwnVariables) {
    rules(
        "[check.host]\nrun = [\"sh\", \"-c\", \"cat README.md; echo $COLOUR\"]\non = \"host\"\nenv = "
        "[\"COLOUR=red\"]\n");
    pipeline_.stages[1].checks = {"host"};
    const auto reports = after();
    EXPECT_EQ(describe(reports), "host passed: exit code 0\n");
    EXPECT_EQ(reports[0].answer.log, project_.read("README.md") + "red\n");
    EXPECT_TRUE(before("live").empty());
}

TEST_F(CheckRunnerTest, AHostCheckThatDoesNotStartIsErrored) {
    rules("[check.host]\nrun = \"no-such-program\"\non = \"host\"\n[check.no]\nrun = \"false\"\non = \"host\"\n");
    pipeline_.stages[1].checks = {"host", "no"};
    EXPECT_EQ(describe(after()),
              "host errored: there is no program 'no-such-program' on PATH\nno failed: exit code 1\n");
}

TEST(Verdict, OfAllTogetherIsTheWorst) {
    const auto of = [](std::vector<Cause> causes) {
        std::vector<CheckReport> reports(causes.size());
        for (std::size_t i = 0; i < causes.size(); ++i) reports[i].answer.verdict = causes[i];
        return verdictOf(reports);
    };
    using enum Cause;
    EXPECT_EQ(of({}), kPassed);
    EXPECT_EQ(of({kPassed, kPassed}), kPassed);
    EXPECT_EQ(of({kPassed, kErrored}), kErrored);
    EXPECT_EQ(of({kErrored, kTimedOut}), kTimedOut);
    EXPECT_EQ(of({kTimedOut, kCancelled}), kCancelled);
    EXPECT_EQ(of({kErrored, kFailed, kCancelled}), kFailed);
}

}  // namespace
}  // namespace gradus
