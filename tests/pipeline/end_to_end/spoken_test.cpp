// What people said, and what is answered after it: whose word stands, what it settled, and which words are accepted
// next.
#include <algorithm>
#include <sstream>

#include "tests/pipeline/end_to_end/troubled_program.h"

namespace gradus {
namespace {

using test::Ended;
using test::has;
using test::Json;

class Spoken : public test::TroubledProgram {
  protected:
    std::int64_t events() { return gradusJson({"audit", "verify"})["data"]["events"].get<std::int64_t>(); }
    std::string told(const test::Words& words) {
        const Ended ended = gradus(words);
        EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
        return ended.out;
    }
    /// "gradus unhold c1 --stage production", as words.
    static test::Words wordsOf(const std::string& command) {
        std::istringstream text(command);
        test::Words words;
        for (std::string word; text >> word;)
            if (word != "gradus") words.push_back(word);
        return words;
    }
};

INSTANTIATE_TEST_SUITE_P(Users, Spoken, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Spoken, AWordForWhatAStageHoldsIsOnRecordAndTold) {
    stuck(false);
    const Json adopted = gradusJson({"adopt", "production", "--holds", "p2"});
    ASSERT_EQ(adopted["ok"], true) << adopted.dump(2);
    EXPECT_EQ(adopted["data"]["promotion"], "p2") << adopted.dump(2);
    const Json event = gradusJson({"audit", "query", "--event", "stage.adopted"})["data"]["events"][0];
    EXPECT_EQ(event["body"]["vouched"], 1) << event.dump(2);
    EXPECT_EQ(event["body"]["of"], 2) << event.dump(2);
    EXPECT_EQ(event["body"]["settles"], 4) << event.dump(2);
    EXPECT_EQ(event["body"]["tree"], adopted["data"]["tree"]) << event.dump(2);
    EXPECT_TRUE(event["body"].contains("uid")) << event.dump(2);
    const std::string word = "vouched that production holds what p2 (c1.1) brought (tree ";
    EXPECT_TRUE(has(told({"audit", "timeline", "production"}), word));
    EXPECT_TRUE(has(told({"audit", "timeline", "production"}), "which settles p4"));
    EXPECT_TRUE(has(told({"why", "production"}), word)) << told({"why", "production"});
    EXPECT_TRUE(has(told({"status"}), "what p2 brought, by a person's word")) << told({"status"});
    const Json blame = gradusJson({"blame", "production", "app.txt"})["data"];
    EXPECT_EQ(blame["promotion"]["id"], "p2") << blame.dump(2);
    EXPECT_EQ(blame["vouched"]["promotion"], "p2") << blame.dump(2);
    expectWhole();
}

TEST_P(Spoken, WhatCameBeforeAWordIsFoundThroughIt) {
    stuck(false);
    ASSERT_EQ(gradus({"adopt", "production", "--holds", "p2"}).exit, 0);
    ASSERT_EQ(gradus({"promote", changed("echo n > new.txt")}).exit, 0);
    const Json older = gradusJson({"blame", "production", "app.txt"})["data"];
    EXPECT_EQ(older["promotion"]["id"], "p2") << older.dump(2);
    EXPECT_EQ(older["vouched"]["promotion"], "p2") << older.dump(2);
    const Json newer = gradusJson({"blame", "production", "new.txt"})["data"];
    EXPECT_TRUE(newer["vouched"].is_null()) << "a promotion proves that one: " << newer.dump(2);
}

TEST_P(Spoken, NothingIsVouchedForAsWell) {
    stuck(false);
    ASSERT_EQ(gradus({"adopt", "production", "--holds", "nothing"}).exit, 0);
    EXPECT_TRUE(has(told({"audit", "timeline", "production"}), "vouched that production holds nothing of its own"));
    const Ended blame = gradus({"blame", "production"});
    EXPECT_EQ(blame.exit, 2) << blame.out;
    EXPECT_TRUE(has(blame.err, "vouched that production holds nothing of its own")) << blame.err;
}

TEST_P(Spoken, WhatIsSettledIsNotToldAsStuck) {
    stuck(false);
    EXPECT_TRUE(has(told({"why", "p4"}), "p4 is stuck"));
    EXPECT_TRUE(has(told({"status"}), "stuck"));
    ASSERT_EQ(gradus({"adopt", "production", "--holds", "p2"}).exit, 0);
    const std::string why = told({"why", "p4"});
    EXPECT_TRUE(has(why, "p4 was stuck")) << why;
    EXPECT_TRUE(has(why, "  settled on 20")) << why;
    EXPECT_TRUE(has(why, ": person:")) << why;
    EXPECT_FALSE(has(told({"status"}), "stuck")) << told({"status"});
    EXPECT_TRUE(has(told({"why", "p6"}), "p6 is waiting: nothing keeps it any more")) << told({"why", "p6"});
}

TEST_P(Spoken, WhatTookItBackAfterAllSettledIt) {
    stuck(true);
    ASSERT_EQ(gradus({"rollback", "p4"}).exit, 0);
    const std::string why = told({"why", "p4"});
    EXPECT_TRUE(has(why, ": p7 took it back")) << why;
}

TEST_P(Spoken, ADryRunSaysWhatAdoptThenDoes) {
    stuck(false);
    const Ended refused = gradus({"adopt", "production", "--dry-run"});
    EXPECT_EQ(refused.exit, 4) << refused.out;
    EXPECT_EQ(refused.err, gradus({"adopt", "production"}).err);
    const std::int64_t before = events();
    const std::string targets = fingerprint(state / "targets");
    ASSERT_TRUE(has(targets, "copies")) << targets;
    const Json dry = gradusJson({"adopt", "production", "--holds", "p2", "--dry-run"});
    EXPECT_EQ(dry["ok"], true) << dry.dump(2);
    EXPECT_TRUE(has(told({"adopt", "production", "--holds", "p2", "--dry-run"}), "that p2 brought"));
    EXPECT_TRUE(has(told({"adopt", "production", "--holds", "nothing", "--dry-run"}), "would hold nothing"));
    EXPECT_EQ(events(), before);
    EXPECT_EQ(fingerprint(state / "targets"), targets);
    EXPECT_EQ(gradusJson({"status"})["data"]["stages"][1]["stuck"], "p4") << "nothing was done";
    const Json real = gradusJson({"adopt", "production", "--holds", "p2"});
    EXPECT_EQ(real["data"]["tree"], dry["data"]["tree"]) << real.dump(2);
    EXPECT_EQ(real["data"]["directory"], dry["data"]["directory"]) << real.dump(2);
}

TEST_P(Spoken, ADryRunOfAStageThatCanBeSeenTakesNothing) {
    rules("\"local\", \"production\"", release());
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    shell("echo by hand > '" + (production / "current/app.txt").native() + "'");
    const Json dry = gradusJson({"adopt", "production", "--dry-run"});
    ASSERT_EQ(dry["ok"], true) << dry.dump(2);
    EXPECT_EQ(gradus({"promote", changed("echo v3 > lib/util.txt")}).exit, 4) << "nobody adopted it";
    EXPECT_EQ(gradusJson({"adopt", "production"})["data"]["tree"], dry["data"]["tree"]);
}

TEST_P(Spoken, AnotherTreeThereProposesToAdoptItAndFloodsNothing) {
    commandStage(true);
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    std::string flood;
    for (int i = 1; i <= 60; ++i)
        flood += fmt::format("line {} of what a status command prints that is unhappy with all the world\n", i);
    outside("digest", flood);
    const Ended refused = gradus({"promote", changed("echo v3 > lib/util.txt")});
    EXPECT_NE(refused.exit, 0) << refused.out;
    EXPECT_TRUE(has(refused.err, "gradus adopt production")) << refused.err;
    for (const test::Words& words :
         {test::Words{"adopt", "production"}, {"adopt", "production", "--holds", "p2"}, {"rollback", "production"}}) {
        const Ended ended = gradus(words);
        EXPECT_NE(ended.exit, 0) << ended.out;
        EXPECT_TRUE(has(ended.out + ended.err, "'line 1 of")) << ended.err;
        EXPECT_TRUE(has(ended.out + ended.err, "and more lines")) << ended.err;
        EXPECT_FALSE(has(ended.out + ended.err, "line 2 of")) << ended.err;
    }
    EXPECT_TRUE(has(gradus({"adopt", "production"}).err, "GRADUS_ACTION=status GRADUS_STAGE=production sh "));
}

TEST_P(Spoken, ApprovalsAreCountedAsTheyAreNow) {
    rules("\"local\", \"production\"", release(), "approvals = [{ count = 2 }]\n");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 8);
    EXPECT_TRUE(has(told({"why", "c1"}), "p2 is waiting: 0 of 2 approvals"));
    ASSERT_EQ(as("person:ben", {"approve", "c1"}).exit, 0);
    EXPECT_TRUE(has(told({"why", "c1"}), "p2 is waiting: 1 of 2 approvals (ben)")) << told({"why", "c1"});
    EXPECT_TRUE(has(told({"status"}), "(1 of 2 approvals (ben))")) << told({"status"});
    ASSERT_EQ(as("person:ben", {"approve", "c1", "--withdraw"}).exit, 0);
    EXPECT_TRUE(has(told({"status"}), "(0 of 2 approvals)")) << told({"status"});
}

TEST_P(Spoken, AnApprovalThatWasGivenCountsWhileSomethingElseIsInTheWay) {
    rules("\"local\", \"production\"", release("checks = [\"unit\"]\n"), "approvals = [{ count = 1 }]\n");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 8);
    ASSERT_EQ(as("person:ben", {"approve", "c1"}).exit, 0);
    ASSERT_EQ(gradus({"hold", "c1", "--stage", "production"}).exit, 0);
    const Ended waits = gradus({"promote", "c1"});
    EXPECT_EQ(waits.exit, 8) << waits.out << waits.err;
    EXPECT_TRUE(has(waits.out, "held by")) << waits.out;
    EXPECT_FALSE(has(waits.out + waits.err, "0 of 1 approvals")) << waits.out << waits.err;
    ASSERT_EQ(gradus({"unhold", "c1", "--stage", "production"}).exit, 0);
    EXPECT_EQ(gradus({"promote", "c1"}).exit, 0) << "it counts";
}

TEST_P(Spoken, WhereNobodyIsAskedARefusedApprovalSaysSo) {
    rules("\"local\", \"production\"", release());
    const std::string change = changed("echo v2 > app.txt");
    const Ended refused = gradus({"approve", change, "--to", "production", "--json"});
    EXPECT_EQ(refused.exit, 4) << refused.out << refused.err;
    const Json error = refused.json()["error"];
    EXPECT_TRUE(has(error.value("message", ""), "does not count")) << refused.out;
    EXPECT_EQ(error.value("hint", ""),
              "production asks nobody for an approval of it: gradus promote c1 --to production");
    EXPECT_EQ(gradus({"promote", change, "--to", "production"}).exit, 0);
}

TEST_P(Spoken, WhatWaitedTooLongIsToldToBeOver) {
    rules("\"local\", \"production\"", release(), "approvals = [{ count = 1 }]\nwait-limit = \"1s\"\n");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 8);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    const std::string status = told({"status"});
    EXPECT_TRUE(has(status, "its time to wait is over")) << status;
    EXPECT_FALSE(has(status, "at most")) << status;
    for (const char* what : {"p2", "c1"})
        EXPECT_TRUE(has(told({"why", what}), "its time to wait is over")) << told({"why", what});
    EXPECT_EQ(gradusJson({"why", "p2"})["next"][0], "gradus recover");
    EXPECT_TRUE(has(told({"recover"}), "p2 waited too long, and is expired"));
    EXPECT_FALSE(has(told({"why", "p2"}), "its time to wait is over")) << told({"why", "p2"});
}

TEST_P(Spoken, WhatIsProposedAfterAWordIsAccepted) {
    rules("\"local\", \"production\"", release());
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const std::vector<test::Words> said{{"hold", "c1", "--stage", "production"},
                                        {"hold", "c1"},
                                        {"hold", "@"},
                                        {"hold", "p2"},
                                        {"hold", "production"},
                                        {"veto", "c1"},
                                        {"veto", "c1", "--stage", "production"},
                                        {"pin", "production"},
                                        {"pin", "production", "c1"},
                                        {"halt"},
                                        {"halt", "--everywhere"}};
    for (const test::Words& words : said) {
        const Json json = gradusJson(words);
        ASSERT_EQ(json["ok"], true) << json.dump(2);
        EXPECT_EQ(gradusJson({"status"})["data"]["words"].size(), 1U) << json.dump(2);
        const Ended back = gradus(wordsOf(json["next"][0].get<std::string>()));
        EXPECT_EQ(back.exit, 0) << json["next"] << back.err;
        EXPECT_TRUE(gradusJson({"status"})["data"]["words"].empty()) << json["next"];
    }
}

TEST_P(Spoken, WhatWaitsForAHaltIsToldWhichOne) {
    rules("\"local\"", "");
    ASSERT_EQ(gradus({"halt", "--everywhere"}).exit, 0);
    const Ended waits = gradus({"promote", changed("echo v2 > app.txt"), "--json"});
    ASSERT_EQ(waits.exit, 8) << waits.out;
    EXPECT_TRUE(has(waits.json()["next"].dump(), "gradus resume --everywhere")) << waits.out;
    const Ended here = gradus({"resume"});
    EXPECT_EQ(here.exit, 2) << here.out;
    EXPECT_TRUE(has(here.err, "gradus resume --everywhere")) << here.err;
    EXPECT_EQ(gradus({"resume", "--everywhere"}).exit, 0);
}

TEST_P(Spoken, AHoldNamedOtherwiseIsFoundByTheHint) {
    rules("\"local\"", "");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"hold", change, "--stage", "local"}).exit, 0);
    const Ended other = gradus({"unhold", change});
    EXPECT_EQ(other.exit, 2) << other.out;
    EXPECT_TRUE(has(other.err, "c1 in local is: gradus unhold c1 --stage local")) << other.err;
}

TEST_P(Spoken, AHoldThatEndedByItselfNeedsNoWord) {
    rules("\"local\"", "");
    ASSERT_EQ(gradus({"hold", "local", "--for", "1s"}).exit, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    const std::int64_t before = events();
    EXPECT_TRUE(has(told({"unhold", "local"}), "the hold of local ended by itself at 20"));
    EXPECT_EQ(events(), before);
}

TEST_P(Spoken, TheNewestIsTheSameForEveryVerb) {
    rules("\"local\"", "");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    changed("echo u2 > lib/util.txt");
    for (const char* verb : {"why", "show", "hold", "unhold", "veto", "unveto"}) {
        const Json json = gradusJson({verb, "@"});
        EXPECT_EQ(json["data"]["change"]["id"], "c2") << verb << json.dump(2);
    }
    for (const char* verb : {"logs", "cancel", "retry", "rollback"}) {
        const Ended ended = gradus({verb, "@"});
        EXPECT_EQ(ended.exit, 2) << verb << ended.out;
        EXPECT_TRUE(has(ended.err, "nobody promoted c2 yet")) << verb << ended.err;
    }
}

TEST_P(Spoken, TheStoryOfARollbackSaysWhatWasKept) {
    rules("\"local\"", "");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt; echo n > new.txt")}).exit, 0);
    edit("app.txt", "of mine\n");
    ASSERT_EQ(gradus({"rollback", "local"}).exit, 0);
    const std::string story = told({"audit", "timeline", "local"});
    EXPECT_TRUE(has(story,
                    "the stage is as it was before, and looked at, but for 1 path: edited there after it came, "
                    "not by gradus, and kept as it is"))
        << story;
    EXPECT_TRUE(has(story, "kept: app.txt")) << story;
}

TEST_P(Spoken, WhatFailsAndStaysIsNotWell) {
    rules("\"local\", \"production\"",
          release("monitor = \"24h\"\nchecks = [\"after\"]\n") +
              afterCheck("test ! -e '" + scratch.path().native() + "/ill'") + "interval = \"100ms\"\n",
          "rollback = \"manual\"\n");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    test::writeBytes(scratch / "ill", "");
    const Ended failed = gradus({"monitor", "--json"});
    EXPECT_EQ(failed.exit, 8) << failed.out << failed.err;
    EXPECT_TRUE(has(failed.json()["error"].dump(), "p2 failed in production and is not taken back")) << failed.out;
    EXPECT_EQ(failed.json()["next"][0], "gradus rollback production") << failed.out;
    EXPECT_EQ(test::bytesOf(production / "current/app.txt"), "v2\n");
}

TEST_P(Spoken, WhatFailedIsNotCalledWellInTheSameLine) {
    rules("\"local\", \"production\"",
          release("soak = \"1s\"\nmonitor = \"24h\"\nchecks = [\"after\"]\n") +
              afterCheck("test ! -e '" + scratch.path().native() + "/ill'") + "interval = \"100ms\"\n",
          "rollback = \"manual\"\n");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    test::writeBytes(scratch / "ill", "");
    const Ended failed = gradus({"monitor"});
    EXPECT_EQ(failed.exit, 8) << failed.out << failed.err;
    EXPECT_TRUE(has(failed.out, "p2 (c1) in production: failed")) << failed.out;
    EXPECT_TRUE(has(failed.out, "it was well here for 1s before")) << failed.out;
    EXPECT_FALSE(has(failed.out, "well for")) << failed.out;
}

TEST_P(Spoken, ALineOfWhatWasBuiltIsOfTheChangeInWhoseBuildItCameUp) {
    rules("\"local\", \"production\"",
          "[check.build]\nrun = [\"sh\", \"-c\", \"mkdir -p out && sed s/^/built-/ app.txt > out/app\"]\n"
          "outputs = [\"out/**\"]\n" +
              release("checks = [\"build\"]\n"));
    ASSERT_EQ(gradus({"promote", changed("echo v2 >> app.txt")}).exit, 0);
    ASSERT_EQ(gradus({"promote", changed("echo v3 >> app.txt")}).exit, 0);
    const auto blamed = [&](const std::string& path) {
        Json data = gradusJson({"blame", "production", path})["data"];
        EXPECT_EQ(data["built_by"], "build") << path << data.dump(2);
        return data["change"].value("id", "");
    };
    EXPECT_EQ(blamed("out/app"), "c2");
    EXPECT_EQ(blamed("out/app:1"), "c1") << "of the first build";
    EXPECT_EQ(blamed("out/app:2"), "c1");
    EXPECT_EQ(blamed("out/app:3"), "c2");
    EXPECT_TRUE(gradusJson({"blame", "production", "app.txt:3"})["data"]["built_by"].is_null());
}

}  // namespace
}  // namespace gradus
