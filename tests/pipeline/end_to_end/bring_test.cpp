// From a trial into the project: what follows from how it ended, and what is left of it.
#include "tests/pipeline/end_to_end/climbing_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;
using test::kindsOf;

class Bring : public ClimbingProgram {
  protected:
    /// Directories of layers and of running things; kept sandboxes have some, nothing else does.
    std::string places() {
        return shell(fmt::format("cd '{}' && ls -d sandboxes/* layers/* driving/* 2>/dev/null | sort || true",
                                 state.native()))
            .out;
    }
};
INSTANTIATE_TEST_SUITE_P(Users, Bring, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Bring, WhatTheCommandChangedLandsOnlyIfItWasContent) {
    GRADUS_CASES("TX10", "TX12", "TX3");
    repository();
    const auto before = workTree();
    const Ended no = tried("echo v2 > app.txt; exit 3", {"--apply", "--json"});
    EXPECT_EQ(no.exit, 3) << no.err;
    EXPECT_EQ(kindsOf(no.json()["data"])["app.txt"], "modified") << "reported all the same";
    EXPECT_EQ(workTree(), before);
    const Ended yes = tried("echo v2 > app.txt", {"--apply", "--json"});
    EXPECT_EQ(yes.exit, 0) << yes.out << yes.err;
    EXPECT_EQ(kindsOf(yes.json()["data"])["app.txt"], "modified");
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
}

TEST_P(Bring, WhatWasStoppedCanStillBeLookedAt) {
    GRADUS_CASES("TX10");
    given();
    const std::string change = changed("echo no-sandbox > app.txt; echo n > new.txt");
    ASSERT_EQ(gradus({"promote", change}).exit, 1);
    EXPECT_EQ(kindsOf(gradusJson({"show", change})["data"]).size(), 2U);
    EXPECT_TRUE(has(gradus({"diff", change}).out, "+no-sandbox"));
}

TEST_P(Bring, NothingIsLeftOfWhatChecksAndTrialsRanIn) {
    GRADUS_CASES("TX8");
    given();
    const std::string good = changed("echo v2 > app.txt");
    const std::string bad = changed("echo no-local > app.txt");
    const std::string before = places();
    ASSERT_EQ(gradus({"promote", good, "--to", "staging"}).exit, 0);
    EXPECT_EQ(places(), before);
    ASSERT_EQ(gradus({"undo"}).exit, 0);
    ASSERT_EQ(gradus({"promote", bad, "--to", "staging"}).exit, 1);
    EXPECT_EQ(places(), before);
    ASSERT_EQ(tried("echo v2 > app.txt", {"--discard"}).exit, 0);
    EXPECT_EQ(places(), before);
}

TEST_P(Bring, WhatStillRunsKeepsItsWork) {
    GRADUS_CASES("ST10");
    repository();
    const auto before = workTree();
    const std::string sandbox = sandboxWith("echo v2 > app.txt");
    const auto running =
        startCommand({GRADUS_PROGRAM, "sandbox", "exec", sandbox, "--", "sh", "-c", "echo up; sleep 60"});
    waitForUp(*running);
    const Ended ended = gradus({"apply", sandbox, "--json"});
    EXPECT_EQ(ended.exit, 7) << ended.out << ended.err;
    EXPECT_EQ(workTree(), before);
    running->stop(SIGTERM);
    EXPECT_EQ(gradus({"apply", sandbox}).exit, 0);
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
}

TEST_P(Bring, NothingToDoIsSaidAndIsNoFault) {
    GRADUS_CASES("ST9", "OV28");
    given();
    const std::string change = changed("echo v2 > app.txt");
    edit("app.txt", "v2\n");
    const Ended ended = gradus({"promote", change, "--to", "local", "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
}

TEST_P(Bring, AStageThatIsNotThereStopsItBeforeAnythingRuns) {
    GRADUS_CASES("TX16");
    given();
    const std::string change = changed("echo v2 > app.txt");
    const std::int64_t recorded = events();
    const Ended ended = gradus({"promote", change, "--to", "prodction", "--json"});
    EXPECT_EQ(ended.exit, 2) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "production")) << "the stages that there are";
    EXPECT_EQ(events(), recorded);
}

TEST_P(Bring, WhatEarlierStagesSaidIsToldWhenALaterOneTakesTooLong) {
    GRADUS_CASES("TX4", "I6");
    given();
    shell("sed -i 's|^run = \"./check local\"|run = \"sleep 60\"\\ntimeout = \"300ms\"\\nretries = 0|' gradus.toml");
    commitAll("slower");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const auto before = workTree();
    const Ended ended = gradus({"promote", changed("echo v2 > app.txt"), "--json"});
    EXPECT_EQ(ended.exit, 1) << ended.out << ended.err;
    const Json stages = ended.json()["data"]["stages"];
    ASSERT_EQ(stages.size(), 2U) << stages.dump(2);
    EXPECT_EQ(stages[0]["promotion"]["state"], "promoted");
    EXPECT_EQ(stages[0]["checks"][0]["verdict"], "passed") << stages[0].dump(2);
    EXPECT_EQ(stages[1]["promotion"]["cause"], "timed-out");
    EXPECT_EQ(workTree(), before);
}

TEST_P(Bring, IgnoredFilesAreInTheListExactlyIfTheyAreInTheChange) {
    GRADUS_CASES("OV29");
    repository();
    const std::string sandbox = sandboxWith("echo v2 > app.txt; mkdir -p ignored; echo b > ignored/built");
    for (const bool with : {false, true}) {
        test::Words list{"diff", sandbox};
        test::Words submit{"submit", "--from-sandbox", sandbox, "--title", "t"};
        if (with) list.emplace_back("--with-ignored");
        if (with) submit.emplace_back("--with-ignored");
        const auto listed = kindsOf(gradusJson(list)["data"]);
        EXPECT_EQ(listed.contains("ignored/built"), with);
        EXPECT_EQ(listed, kindsOf(gradusJson(submit)["data"]));
    }
}

TEST_P(Bring, AProgramMadeInsideRunsLaterAndWhereItLands) {
    GRADUS_CASES("OV43", "OV45", "OV46", "TX2");
    given();
    const std::string sandbox = sandboxWith(
        "mkdir -p tools/deep && printf '#!/bin/sh\\necho it runs\\n' > tools/deep/run && chmod 755 tools/deep/run");
    const Ended later = gradus({"sandbox", "exec", sandbox, "--", "sh", "-c",
                                "cd tools/deep && ls && ./run && rm run && set -C && > run && cat run && echo made"});
    EXPECT_EQ(later.out, "run\nit runs\nmade\n") << later.err;
    EXPECT_EQ(gradus({"sandbox", "exec", sandbox, "--", "sh", "-c",
                      "printf '#!/bin/sh\\necho it runs\\n' > tools/deep/run && chmod 755 tools/deep/run"})
                  .exit,
              0);
    ASSERT_EQ(gradus({"promote", sandbox, "--to", "staging"}).exit, 0);
    EXPECT_EQ(shell("tools/deep/run").out, "it runs\n");
    EXPECT_EQ(shell((staging / "current/tools/deep/run").native()).out, "it runs\n");
}

TEST_P(Bring, WhatIsExportedLeadsNowhereElse) {
    GRADUS_CASES("ST15");
    repository();
    const std::string change =
        changed("ln -s /etc/passwd out; mkdir d; echo 1 > d/f; git init -q inner; echo x > inner/y");
    const Ended ended = gradus({"export", change, "--patch"});
    ASSERT_EQ(ended.exit, 0) << ended.err;
    for (const std::string line : {"+++ /", "--- a/..", "+++ b/..", ".git/", "160000"})
        EXPECT_FALSE(has(ended.out, line)) << line << "\n" << ended.out;
    EXPECT_TRUE(has(ended.out, "120000")) << "a link is its text, wherever that leads";
    EXPECT_FALSE(has(ended.out, "root:")) << "and never what is there";
}

}  // namespace
}  // namespace gradus
