// Where a promotion meets trouble that is nobody's no: it still comes to an end, says what it was, and there is a way
// out.
#include "tests/pipeline/end_to_end/troubled_program.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::bytesOf;
using test::Ended;
using test::has;
using test::Json;

class Trouble : public test::TroubledProgram {
  protected:
    std::int64_t events() { return gradusJson({"audit", "verify"})["data"]["events"].get<std::int64_t>(); }
};

INSTANTIATE_TEST_SUITE_P(Users, Trouble, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Trouble, AFirstReleaseThatLeavesSomethingBehindStillComesToItsEnd) {
    rules("\"sandbox\", \"local\", \"production\"",
          release("activate = [\"sh\", \"-c\", \"echo x >> ../../act.log; test ! -e BAD\"]\n"));
    const Ended ended = gradus({"promote", changed("touch BAD"), "--json"});
    EXPECT_EQ(ended.exit, 5) << ended.out << ended.err;
    const Json last = ended.json()["data"]["stages"].back();
    EXPECT_EQ(last["promotion"]["state"], "rolled-back");
    EXPECT_TRUE(has(last["kept"].dump(), "act.log")) << last.dump(2);
    EXPECT_TRUE(fs::exists(production / "act.log"));
    EXPECT_EQ(gradus({"undo"}).exit, 0) << "what is the matter there does not concern the work tree";
    shell("rm '" + (production / "act.log").native() + "'");
    EXPECT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    expectWhole();
}

TEST_P(Trouble, AStuckStageIsTakenBackOnceTheCauseIsGone) {
    const fs::path away = scratch / "away";
    rules("\"sandbox\", \"local\", \"production\"",
          release("checks = [\"after\"]\n") +
              afterCheck(fmt::format("grep -q bad app.txt || exit 0; mv '{}' '{}'; exit 1", production.native(),
                                     away.native())));
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const std::string before = fingerprint(production);
    const Ended stuck = gradus({"promote", changed("echo bad > app.txt"), "--json"});
    ASSERT_EQ(stuck.exit, 6) << stuck.out << stuck.err;
    const std::string id = stuck.json()["data"]["stages"].back()["promotion"]["id"];
    EXPECT_TRUE(has(stuck.json()["error"]["hint"].get<std::string>(), "gradus rollback " + id)) << stuck.out;
    EXPECT_TRUE(has(gradus({"recover"}).out, "gradus rollback " + id));
    EXPECT_EQ(gradus({"rollback", id}).exit, 4) << "the cause is still there, and nothing is touched";
    shell(fmt::format("rm -rf '{1}' && mv '{0}' '{1}'", away.native(), production.native()));
    const Ended back = gradus({"rollback", "production"});
    EXPECT_EQ(back.exit, 0) << back.out << back.err;
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n");
    EXPECT_EQ(gradus({"promote", changed("echo u2 > lib/util.txt")}).exit, 0) << "the stage is open again";
    expectWhole();
}

TEST_P(Trouble, WhatATargetRefusesIsSaidBeforeAnythingIsRun) {
    rules("\"local\"", "");
    shell(
        "git init -q sub && cd sub && echo s > s && git add -A && git -c user.name=a -c user.email=a@b commit -q -m s");
    edit("../patch", "--- a/sub/s\n+++ b/sub/s\n@@ -1 +1 @@\n-s\n+X\n");
    const Json submitted = gradusJson({"submit", "--patch", "../patch", "--title", "t"});
    const std::string change = submitted["data"]["change"].value("id", "c0");
    EXPECT_EQ(gradus({"promote", change, "--dry-run"}).exit, 1);
    const Ended ended = gradus({"promote", change, "--json"});
    EXPECT_EQ(ended.exit, 1) << ended.out << ended.err;
    const Json last = ended.json()["data"]["stages"].back();
    EXPECT_EQ(last["promotion"]["state"], "stale");
    EXPECT_TRUE(has(last["promotion"]["reason"].get<std::string>(), "another repository")) << last.dump(2);
    EXPECT_TRUE(last["checks"].empty()) << last.dump(2);
}

TEST_P(Trouble, WhatGitRunsIsWrittenOnAPersonsWord) {
    rules("\"local\"", "");
    const std::string change = changed("echo '*.txt text' > .gitattributes");
    variables["GRADUS_ACTOR"] = "agent:fixer";
    const Ended refused = gradus({"promote", change});
    EXPECT_EQ(refused.exit, 8) << refused.out << refused.err;
    EXPECT_TRUE(has(refused.err, "it changes what judges changes: .gitattributes")) << refused.err;
    variables.erase("GRADUS_ACTOR");
    const Ended ended = gradus({"promote", change});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(project / ".gitattributes"), "*.txt text\n");
}

TEST_P(Trouble, AReleaseThatWasWrittenIntoIsNotWhatWasChecked) {
    rules(
        "\"sandbox\", \"local\", \"production\"",
        release("checks = [\"after\"]\n") + afterCheck("grep -q v3 app.txt && echo more >> app.txt; echo x >> cache"));
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0) << "what is added is no part of it";
    const Ended ended = gradus({"promote", changed("echo v3 > app.txt"), "--json"});
    EXPECT_EQ(ended.exit, 5) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "what is there is not what was checked: app.txt")) << ended.out;
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n");
}

TEST_P(Trouble, ADryRunOfWhatIsNotSubmittedRecordsNothing) {
    rules("\"sandbox\", \"local\"", "");
    edit("app.txt", "v2\n");
    const std::string sandbox = sandboxWith("echo v3 > lib/util.txt");
    const std::int64_t before = events();
    const Ended ended = gradus({"promote", "--dry-run"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "would submit 1 path")) << ended.out;
    EXPECT_TRUE(has(ended.out, "no stage was asked whether it fits")) << ended.out;
    EXPECT_TRUE(has(ended.out + ended.err, "next: gradus submit --worktree\n")) << ended.out << ended.err;
    const Ended ofSandbox = gradus({"promote", sandbox, "--dry-run"});
    EXPECT_EQ(ofSandbox.exit, 0);
    EXPECT_TRUE(has(ofSandbox.out + ofSandbox.err, "next: gradus submit --from-sandbox " + sandbox)) << ofSandbox.out;
    EXPECT_EQ(events(), before);
}

TEST_P(Trouble, NoDryRunLeavesATrace) {
    rules("\"sandbox\", \"local\", \"production\"", release());
    shell(fmt::format("mkdir -p '{0}/current' && echo a > '{0}/current/app.txt'", production.native()));
    ASSERT_EQ(gradus({"halt"}).exit, 0);
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 8);
    edit("gradus.toml", bytesOf(project / "gradus.toml") + "[check.more]\nrun = \"true\"\n");
    const std::int64_t before = events();
    const std::string target = fingerprint(production);
    EXPECT_TRUE(has(gradus({"adopt", "production", "--dry-run"}).out, "would take what is in " + production.native()));
    EXPECT_TRUE(has(gradus({"cancel", "--dry-run"}).out, "would stop p1, which is waiting"));
    EXPECT_TRUE(has(gradus({"trust", "--dry-run"}).out, "would trust:"));
    EXPECT_EQ(events(), before);
    EXPECT_EQ(fingerprint(production), target);
    EXPECT_EQ(stateOf("p1"), "waiting");
}

TEST_P(Trouble, ACommitKeepsItsAuthorAndWhatItSays) {
    rules("\"local\"", "[stage.local]\ncommit = true\n");
    edit("app.txt", "v2\n");
    shell("git add -A && git -c user.name=Ada -c user.email=ada@x.org commit -q -m 'Title' -m 'Why it is so.'");
    const Json submitted = gradusJson({"submit", "--commit", "HEAD"});
    const std::string change = submitted["data"]["change"].value("id", "c0");
    shell("git reset -q --hard HEAD~1");
    const Ended ended = gradus({"promote", change});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    const std::string log = shell("git log -1 --format='%an <%ae>%n%B'").out;
    EXPECT_TRUE(log.starts_with("Ada <ada@x.org>\nTitle\n\nWhy it is so.\n\nGradus-Change: c1.1\n")) << log;
}

TEST_P(Trouble, AStateDirectoryInTheProjectIsRefused) {
    rules("\"local\"", "");
    variables["GRADUS_HOME"] = (project / ".state").native();
    const Ended ended = gradus({"submit", "--worktree"});
    EXPECT_EQ(ended.exit, 2) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.err, "lies in the project")) << ended.err;
}

TEST_P(Trouble, AdoptingIsRefusedInADryRunAsInEarnestAndLeavesNoMark) {
    rules("\"local\", \"production\"", release());
    const auto expectRefused = [&](const std::string& made, const std::string& reason) {
        shell(fmt::format("rm -rf '{0}' && mkdir '{0}' && cd '{0}' && {1}", production.native(), made));
        const std::string target = fingerprint(production);
        for (const std::vector<std::string>& words :
             {std::vector<std::string>{"adopt", "production", "--dry-run"}, {"adopt", "production"}}) {
            const Ended ended = gradus(words);
            EXPECT_EQ(ended.exit, 4) << made << ended.out;
            EXPECT_TRUE(has(ended.err, reason)) << ended.err;
            EXPECT_EQ(fingerprint(production), target) << made;
        }
    };
    expectRefused("true", "has no 'current'");
    expectRefused("ln -s /etc current", "which is no directory in");
    expectRefused("mkdir current && ln -s ../../x current/out", "leads out of it");
    expectRefused("mkdir current && touch current/tool && chmod 4755 current/tool", "tool");
    shell(fmt::format("rm -rf '{}'", production.native()));
    EXPECT_EQ(gradus({"adopt", "production"}).exit, 4);
    EXPECT_FALSE(std::filesystem::exists(production));
}

TEST_P(Trouble, AnotherStoreIsNamedBeforeWhatItsTargetHolds) {
    rules("\"production\"", release());
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const std::string first = variables["GRADUS_HOME"];
    variables["GRADUS_HOME"] = (scratch / "second").native();
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    for (const std::vector<std::string>& words : {std::vector<std::string>{"promote", changed("echo v3 > app.txt")},
                                                  {"adopt", "production", "--dry-run"},
                                                  {"adopt", "production"}}) {
        const Ended ended = gradus(words);
        EXPECT_EQ(ended.exit, 4) << ended.out << ended.err;
        EXPECT_TRUE(has(ended.out + ended.err, "belongs to another store: " + first)) << ended.out << ended.err;
        EXPECT_FALSE(has(ended.out + ended.err, "gradus adopt")) << ended.out << ended.err;
    }
}

TEST_P(Trouble, WhatAdoptAdvisesIsWhatItTakes) {
    rules("\"local\", \"production\"", release("shared = [\"cfg\"]\n"));
    shell(fmt::format(
        "mkdir -p '{0}/current' '{0}/shared' && echo c > '{0}/current/cfg' && echo a > '{0}/current/app.txt'",
        production.native()));
    const Json refused = gradusJson({"adopt", "production"});
    ASSERT_EQ(refused["ok"], false);
    shell(refused["error"]["hint"].get<std::string>());
    const Ended ended = gradus({"adopt", "production"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(production / "current/cfg"), "c\n");
}

}  // namespace
}  // namespace gradus
