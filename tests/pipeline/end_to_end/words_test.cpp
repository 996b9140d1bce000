// What a stranger tries: every refusal names its cause and the next step, and no answer is better than what happened.
#include "tests/pipeline/end_to_end/climbing_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;

class Stranger : public ClimbingProgram {
  protected:
    void rules(const std::string& stages, const std::string& rest = {}) {
        repository();
        write(stages, rest);
        commitAll("rules");
    }
    void write(const std::string& stages, const std::string& rest) {
        edit("gradus.toml", fmt::format("[pipeline]\nname = \"shop\"\nstages = [{}]\n{}"
                                        "[policy.local]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n"
                                        "[policy.production]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n",
                                        stages, rest));
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
    std::string release(const std::string& more = {}) {
        return fmt::format("[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\n{}", production.native(),
                           more);
    }
    Ended submitList(const std::string& list) {
        test::writeBytes(scratch / "list", list);
        fs::permissions(scratch / "list", fs::perms(0644));
        return gradus({"submit", "--files", (scratch / "list").native(), "--json"});
    }
    static std::string item(const std::string& path, const std::string& operation = "create") {
        return fmt::format(R"({{"relative_path":"{}","operation":"{}","new_content":"x\n"}})", path, operation);
    }
    std::string git(const std::string& words) { return shell("git " + words).out; }
};

INSTANTIATE_TEST_SUITE_P(Users, Stranger, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Stranger, AListOfFilesMayNotPutOneFileBelowAnother) {
    repository();
    const Ended ended = submitList("[" + item("app.txt/x") + "," + item("link/y") + "," + item("q") + "," +
                                   item("q/r") + "," + item("lib/fine") + "]");
    EXPECT_EQ(ended.exit, 1) << ended.out;
    const Json faults = ended.json()["data"]["faults"];
    ASSERT_EQ(faults.size(), 3U) << faults.dump(2);
    EXPECT_TRUE(has(faults.dump(), "item 1, app.txt/x: its parent 'app.txt' is a file")) << faults.dump(2);
    EXPECT_TRUE(has(faults.dump(), "item 2, link/y: its parent 'link' is a symbolic link")) << faults.dump(2);
    EXPECT_TRUE(has(faults.dump(), "item 4, q/r: its parent 'q' is a file")) << faults.dump(2);
}

TEST_P(Stranger, AListOfFilesMayMakeRoomForADirectory) {
    rules("\"local\"");
    const Ended ended = submitList("[" + item("app.txt/deep/x") + "," + item("app.txt", "delete") + "]");
    ASSERT_EQ(ended.exit, 0) << ended.out;
    const Ended exported = gradus({"export", "c1", "--commit"});
    EXPECT_EQ(exported.exit, 0) << exported.out << exported.err;
    EXPECT_TRUE(has(git("ls-tree -r --name-only gradus/c1.1"), "app.txt/deep/x\n"));
    const Ended promoted = gradus({"promote", "c1"});
    EXPECT_EQ(promoted.exit, 0) << promoted.out << promoted.err;
    EXPECT_EQ(bytesOf(project / "app.txt/deep/x"), "x\n");
}

TEST_P(Stranger, AnExportedCommitTakesNothingAway) {
    repository();
    shell("mkdir sub && git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub && git commit -q -m sub");
    ASSERT_EQ(submitList("[" + item("sub/x") + "]").exit, 0);
    const Ended ended = gradus({"export", "c1", "--commit"});
    EXPECT_EQ(ended.exit, 4) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.err, "'sub/x' cannot be there beside 'sub'")) << ended.err;
    EXPECT_EQ(git("branch --list 'gradus/*'"), "");
}

TEST_P(Stranger, AWorkTreeInTheMiddleOfAMergeIsNotSubmitted) {
    rules("\"local\", \"production\"", release());
    git("checkout -q -b other && echo theirs > app.txt && git commit -qam theirs && git checkout -q -");
    edit("app.txt", "ours\n");
    commitAll("ours");
    shell("git merge other > /dev/null || true");
    for (const char* split : {"false", "true"}) {
        git(std::string("update-index --") + (split == std::string("true") ? "" : "no-") + "split-index");
        for (const test::Words& words : {test::Words{"promote"}, test::Words{"submit", "--worktree"}}) {
            const Ended ended = gradus(words);
            EXPECT_EQ(ended.exit, 4) << ended.out << ended.err;
            EXPECT_TRUE(has(ended.err, "'app.txt'")) << ended.err;
            EXPECT_TRUE(has(ended.err, "git merge --abort")) << ended.err;
        }
    }
    EXPECT_FALSE(fs::exists(production));
    edit("app.txt", "both\n");
    git("add app.txt");
    const Ended resolved = gradus({"promote"});
    EXPECT_EQ(resolved.exit, 0) << "nothing is unmerged any more" << resolved.out << resolved.err;
}

TEST_P(Stranger, OnlyAPersonPutsSomethingElseInThePlaceOfWhatIsOnRecord) {
    const fs::path away = scratch / "away";
    test::writeBytes(scratch / "after", fmt::format("grep -q bad app.txt || exit 0; mv '{}' '{}'; exit 1\n",
                                                    production.native(), away.native()));
    rules("\"local\", \"production\"",
          release("checks = [\"after\"]\n") +
              fmt::format("[check.after]\nrun = [\"sh\", \"{}\"]\non = \"host\"\nwhen = \"after\"\nretries = 0\n",
                          (scratch / "after").native()));
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    ASSERT_EQ(gradus({"promote", changed("echo bad > app.txt")}).exit, 6);
    shell(fmt::format("rm -rf '{1}' && mv '{0}' '{1}'", away.native(), production.native()));
    EXPECT_TRUE(has(gradus({"status"}).out, "stuck"));
    variables["GRADUS_ACTOR"] = "agent:fixer";
    for (const test::Words& words : {test::Words{"adopt", "production"}, {"adopt", "production", "--dry-run"}}) {
        const Ended ended = gradus(words);
        EXPECT_EQ(ended.exit, 4) << ended.out << ended.err;
        EXPECT_TRUE(has(ended.err, "takes a person")) << ended.err;
    }
    EXPECT_EQ(gradus({"adopt", "local"}).exit, 4);
    variables.erase("GRADUS_ACTOR");
    const Ended adopted = gradus({"adopt", "production"});
    ASSERT_EQ(adopted.exit, 0) << adopted.err;
    EXPECT_FALSE(has(gradus({"status"}).out, "stuck")) << gradus({"status"}).out;
}

TEST_P(Stranger, WhatWasDoneIsToldAlthoughALaterStageCannotBeEntered) {
    if (GetParam() == test::As::kSelf && ::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
    const fs::path closed = scratch / "closed";
    rules("\"local\", \"production\"",
          fmt::format("[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\n", (closed / "x").native()));
    shell(fmt::format("mkdir '{0}' && chmod 555 '{0}'", closed.native()));
    const std::string change = changed("echo v2 > app.txt");
    const Ended ended = gradus({"promote", change});
    EXPECT_EQ(ended.exit, 6) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "local        promoted       p1")) << ended.out;
    EXPECT_TRUE(has(ended.out, "production   rejected       p2")) << ended.out;
    EXPECT_TRUE(has(ended.err, "c1 did not enter production: ")) << ended.err;
    EXPECT_TRUE(has(ended.err, "Permission denied")) << ended.err;
    const Json again = gradusJson({"promote", change});
    EXPECT_EQ(again["error"]["code"], "infrastructure") << again.dump(2);
    EXPECT_NE(again["error"]["hint"], "") << again.dump(2);
    EXPECT_EQ(again["data"]["change"]["id"], "c1");
    EXPECT_EQ(again["data"]["stages"].size(), 2U);
    EXPECT_EQ(again["data"]["stages"][1]["promotion"]["state"], "rejected");
    EXPECT_EQ(again["data"]["stages"][1]["promotion"]["cause"], "errored");
    EXPECT_EQ(again["next"][0], "gradus retry p3");
    EXPECT_TRUE(has(gradus({"why", "p2"}).out, "Permission denied"));
    shell("chmod 755 '" + closed.native() + "'");
    EXPECT_EQ(gradus({"retry", "p3"}).exit, 0);
    expectWhole();
}

TEST_P(Stranger, AFaultWhileLookingIsToldBesideWhatWasDone) {
    rules("\"local\", \"production\"", release());
    shell(fmt::format("mkdir '{0}' && ln -s /nowhere '{0}/current'", production.native()));
    const Ended ended = gradus({"promote", changed("echo v2 > app.txt"), "--json"});
    EXPECT_EQ(ended.exit, 4) << ended.out << ended.err;
    const Json json = ended.json();
    EXPECT_EQ(json["data"]["stages"][0]["promotion"]["state"], "promoted") << json.dump(2);
    EXPECT_TRUE(json["data"]["stages"][1]["promotion"].is_null()) << json.dump(2);
    EXPECT_EQ(json["data"]["stages"][1]["stage"], "production");
    EXPECT_TRUE(has(json["error"]["hint"].get<std::string>(), "gradus adopt production"));
    EXPECT_FALSE(json["next"].empty());
    expectWhole();
}

TEST_P(Stranger, ATargetOfAnotherProjectIsLeftToIt) {
    rules("\"local\", \"production\"", release());
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const std::string before = fingerprint(production);
    const fs::path first = project;
    const fs::path second = scratch / "second";
    shell(fmt::format("cp -a . '{}'", second.native()));
    project = second;
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    edit("app.txt", "v3\n");
    const Ended ended = gradus({"promote"});
    EXPECT_EQ(ended.exit, 4) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.err, "this target is stage production of " + first.native())) << ended.err;
    EXPECT_TRUE(has(ended.out, "local        promoted")) << "a copy's work tree is its own" << ended.out;
    EXPECT_EQ(gradus({"adopt", "production"}).exit, 4);
    EXPECT_EQ(fingerprint(production), before);
    // A project that was moved goes on where it was.
    shell(fmt::format("rm -rf '{}'", first.native()));
    EXPECT_EQ(gradus({"adopt", "production"}).exit, 0);
}

TEST_P(Stranger, BlameNamesWhoBroughtALine) {
    rules("\"local\", \"production\"", release());
    ASSERT_EQ(gradus({"promote", changed("printf 'one\\ntwo\\nthree\\n' > app.txt")}).exit, 0);
    ASSERT_EQ(gradus({"promote",
                      changed("printf 'zero\\none\\nTWO\\nthree\\n' > app.txt; printf 'a\\0b' > bin; rm README.md")})
                  .exit,
              0);
    ASSERT_EQ(
        gradus({"promote", changed("printf 'zero\\none\\nTWO\\nthree\\nfour\\n' > app.txt; echo c > odd:1")}).exit, 0);
    const auto change = [&](const std::string& what) {
        const Json json = gradusJson({"blame", "production", what});
        EXPECT_TRUE(json["ok"] == true) << json.dump(2);
        return json["data"]["change"].value("id", "");
    };
    EXPECT_EQ(change("app.txt:1"), "c2");
    EXPECT_EQ(change("app.txt:2"), "c1");
    EXPECT_EQ(change("app.txt:3"), "c2");
    EXPECT_EQ(change("app.txt:4"), "c1");
    EXPECT_EQ(change("app.txt:5"), "c3");
    EXPECT_EQ(change("odd:1"), "c3") << "the name itself wins";
    EXPECT_TRUE(has(gradus({"blame", "production", "app.txt:3"}).out, "app.txt:3: TWO\n"));
    EXPECT_TRUE(has(gradus({"blame", "production", "lib/util.txt:1"}).err, "older than every promotion into it"));
    EXPECT_TRUE(has(gradus({"blame", "production", "app.txt:6"}).err, "has 5 lines, and no line 6"));
    EXPECT_TRUE(has(gradus({"blame", "production", "app.txt:0"}).err, "counted from 1"));
    EXPECT_TRUE(has(gradus({"blame", "production", "bin:1"}).err, "is no text"));
    EXPECT_TRUE(has(gradus({"blame", "production", "README.md:1"}).err, "production holds no 'README.md'"));
    edit("app.txt", "zero\nmine\nTWO\n");
    EXPECT_TRUE(has(gradus({"blame", "local", "app.txt:2"}).err, "brought by no promotion"));
    for (const char* what : {"app.txt:6", "bin:1", "lib/util.txt:1"})
        EXPECT_EQ(gradus({"blame", "production", what}).exit, 2) << what;
}

TEST_P(Stranger, ADryRollbackSaysWhatTheRealOneWould) {
    rules("\"local\", \"production\"", release());
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    EXPECT_EQ(gradus({"rollback", "production", "--dry-run"}).exit, 0);
    const Ended back = gradus({"rollback", "production"});
    ASSERT_EQ(back.exit, 0) << back.out << back.err;
    for (const test::Words& words : {test::Words{"rollback", "production", "--dry-run"}, {"rollback", "production"}}) {
        const Ended ended = gradus(words);
        EXPECT_EQ(ended.exit, 4) << ended.out << ended.err;
        EXPECT_TRUE(has(ended.err, "production holds nothing")) << ended.err;
    }
    EXPECT_EQ(gradus({"rollback", "p2", "--dry-run"}).exit, 4);
    EXPECT_TRUE(has(gradus({"why", "p3"}).out, "p2 is taken back")) << gradus({"why", "p3"}).out;
    // Out of production it is; the newest place where it still stands is the work tree.
    const Ended change = gradus({"rollback", "c1", "--json"});
    EXPECT_EQ(change.exit, 0) << change.out << change.err;
    EXPECT_EQ(change.json()["data"]["promotion"]["stage"], "local");
    EXPECT_EQ(bytesOf(project / "app.txt"), "v1\n");
    EXPECT_EQ(gradus({"rollback", "c1"}).exit, 4);
}

TEST_P(Stranger, AnUndoOfOnesOwnEditSaysThatNothingWasTakenBack) {
    rules("\"local\"", "[stage.local]\ncommit = true\n");
    edit("app.txt", "v2\n");
    const std::string head = git("rev-parse HEAD");
    const Ended promoted = gradus({"promote", "--title", "Second version"});
    ASSERT_EQ(promoted.exit, 0) << promoted.out << promoted.err;
    EXPECT_TRUE(has(promoted.out, "nothing was committed: what it changes was in the work tree")) << promoted.out;
    EXPECT_EQ(git("rev-parse HEAD"), head);
    EXPECT_TRUE(has(gradus({"show", "c1"}).out, "Second version"));
    EXPECT_EQ(gradus({"promote", "c1", "--title", "Other"}).exit, 2);
    const Ended undone = gradus({"undo"});
    EXPECT_EQ(undone.exit, 0) << undone.err;
    EXPECT_TRUE(has(undone.out, "nothing to take back in local: what c1 changes was there before it came; it stays"))
        << undone.out;
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
}

TEST_P(Stranger, TheNextStepFitsTheCause) {
    rules("\"local\", \"production\"", "[stage.local]\ncommit = true\n" + release("shared = [\"data\"]\n"));
    const auto promoted = [&](const std::string& change, int exit) {
        const Ended ended = gradus({"promote", change, "--json"});
        EXPECT_EQ(ended.exit, exit) << ended.out << ended.err;
        return ended.json();
    };
    const std::string first = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"halt"}).exit, 0);
    EXPECT_EQ(promoted(first, 8)["next"][1], "gradus resume");
    ASSERT_EQ(gradus({"resume"}).exit, 0);
    ASSERT_EQ(gradus({"veto", first}).exit, 0);
    EXPECT_EQ(promoted(first, 8)["next"][1], "gradus unveto " + first);
    ASSERT_EQ(gradus({"unveto", first}).exit, 0);
    edit("app.txt", "v1\n\nmine\n");
    const Json edited = promoted(first, 1);
    EXPECT_FALSE(has(edited["next"].dump(), "gradus rebase")) << edited.dump(2);
    edit("app.txt", "v1\n");
    shell("touch .git/MERGE_HEAD");
    EXPECT_EQ(promoted(first, 1)["next"][0], "git status");
    shell("rm .git/MERGE_HEAD");
    ASSERT_EQ(promoted(first, 0)["ok"], true);
    const Json shared = promoted(changed("mkdir data && echo x > data/x"), 1);
    EXPECT_TRUE(has(shared.dump(), "`shared`")) << shared.dump(2);
    EXPECT_FALSE(has(shared["next"].dump(), "gradus rebase"));
    shell(fmt::format("chmod u+w '{0}/current/app.txt'; echo hand > '{0}/current/app.txt'", production.native()));
    const Json byHand = promoted(changed("echo u2 > lib/util.txt"), 4);
    EXPECT_TRUE(has(byHand["error"]["message"].get<std::string>(), "'app.txt'")) << byHand.dump(2);
    EXPECT_FALSE(has(byHand["error"]["message"].get<std::string>(), "\n"));
    EXPECT_TRUE(has(byHand["error"]["hint"].get<std::string>(), "gradus adopt production"));
}

TEST_P(Stranger, WhatTheKernelRefusesIsNoFaultOfTheChange) {
    if (GetParam() == test::As::kSelf) GTEST_SKIP() << "it takes a directory of somebody else";
    rules("\"local\"");
    const std::string change = changed("echo u2 > lib/util.txt");
    ASSERT_EQ(::chown((project / "lib").c_str(), 0, 0), 0);
    const Ended ended = gradus({"promote", change, "--json"});
    EXPECT_EQ(ended.exit, 6) << ended.out << ended.err;
    EXPECT_EQ(ended.json()["data"]["stages"][0]["promotion"]["state"], "rejected");
    EXPECT_EQ(ended.json()["next"][0], "gradus retry p1");
}

TEST_P(Stranger, EveryRefusalOfWordsHasHelp) {
    rules("\"local\"");
    const Ended rule = gradus({"policy", "show", "nope.x"});
    EXPECT_EQ(rule.exit, 2) << rule.out;
    EXPECT_TRUE(has(rule.err, "no rule matches 'nope.x'"));
    shell("touch \"$(printf 'bad\\377name')\"");
    edit("app.txt", "v2\n");
    const Ended promoted = gradus({"promote"});
    EXPECT_EQ(promoted.exit, 0) << promoted.err;
    EXPECT_TRUE(has(promoted.err, "left out")) << promoted.err;
    const fs::path bare = scratch / "bare";
    shell(fmt::format("mkdir '{}'", bare.native()));
    project = bare;
    const Ended without = gradus({"submit", "--worktree"});
    EXPECT_EQ(without.exit, 2);
    EXPECT_TRUE(has(without.err, "help: ")) << without.err;
    shell("git init -q .");
    const Ended unborn = gradus({"submit", "--worktree"});
    EXPECT_EQ(unborn.exit, 4);
    EXPECT_TRUE(has(unborn.err, "help: ")) << unborn.err;
}

class StrangerStops : public Stranger {
  protected:
    /// A check on what production shows that says "up" and stays until it is stopped.
    std::unique_ptr<Running> verifying() {
        test::writeBytes(scratch / "after", "grep -q v2 app.txt || exit 0\nexec sleep 60\n");
        rules("\"local\", \"production\"",
              release("checks = [\"after\"]\n") +
                  fmt::format("[check.after]\nrun = [\"sh\", \"{}\"]\non = \"host\"\nwhen = \"after\"\nretries = 0\n",
                              (scratch / "after").native()));
        EXPECT_EQ(gradus({"promote", changed("echo first > app.txt")}).exit, 0);
        const std::string change = changed("echo v2 > app.txt");
        auto running = startCommand({GRADUS_PROGRAM, "promote", change});
        awaitState("p4", "verifying");
        return running;
    }
};

INSTANTIATE_TEST_SUITE_P(Users, StrangerStops, testing::Values(test::As::kSelf), test::nameOfUser);

TEST_P(StrangerStops, ACancelledPromotionThatWasRestoredSaysSo) {
    const auto running = verifying();
    ASSERT_EQ(gradus({"cancel", "p4"}).exit, 0);
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 5) << ended.out << ended.err;
    EXPECT_EQ(stateOf("p4"), "rolled-back");
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "first\n");
}

TEST_P(StrangerStops, ASecondInterruptSaysWhatIsLeft) {
    rules("\"local\", \"production\"",
          release(fmt::format("activate = [\"sh\", \"-c\", \"test -e {0} && exec sleep 5; exit 0\"]\n",
                              (scratch / "slow").native())));
    ASSERT_EQ(gradus({"promote", changed("echo first > app.txt")}).exit, 0);
    const std::string change = changed("echo v2 > app.txt");
    shell("touch '" + (scratch / "slow").native() + "'");
    const auto running = startCommand({GRADUS_PROGRAM, "promote", change});
    awaitState("p4", "applying");
    // The first one is heard: it goes back, which takes as long. The second ends it there, and what it started goes on:
    // whoever recovers waits for that.
    running->send(SIGINT);
    ::usleep(500'000);
    running->send(SIGINT);
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 130) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.err, "`gradus recover` brings it to an end")) << ended.err;
    shell("rm '" + (scratch / "slow").native() + "'");
    EXPECT_EQ(gradus({"recover"}).exit, 0);
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "first\n");
    expectWhole();
}

}  // namespace
}  // namespace gradus
