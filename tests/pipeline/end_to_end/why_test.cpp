// Answers to "why" and "who": each of them true, whatever became of the thing since.
#include <algorithm>

#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;

/// alice makes and promotes, ben is of the role that approves, carl comes by.
class Why : public ClimbingProgram {
  protected:
    void begin(const std::string& policy = {}, const std::string& check = "\"./check production\"",
               const std::string& health = "exit 0\n") {
        repository();
        test::writeBytes(scratch / "health", health);
        edit("gradus.toml",
             fmt::format("[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"staging\", \"production\"]\n"
                         "[check.unit]\nrun = {}\ntimeout = \"2s\"\n"
                         "[check.health]\nrun = [\"sh\", \"{}\"]\non = \"host\"\nwhen = \"after\"\nretries = 0\n"
                         "[stage.sandbox]\nchecks = [\"unit\"]\n"
                         "[stage.staging]\ndriver = \"release-directory\"\npath = \"{}\"\nchecks = [\"health\"]\n"
                         "[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\nchecks = []\n"
                         "[role.sre]\nmembers = [\"ben\"]\n"
                         "[policy.production]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n"
                         "[policy.staging]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n{}\n",
                         check, (scratch / "health").native(), staging.native(), production.native(), policy));
        commitAll("rules");
        variables["GRADUS_ACTOR"] = "person:alice";
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
    std::string why(const std::string& what) { return gradus({"why", what}).out; }
    /// The number of the newest event of a kind.
    std::string newest(const std::string& kind, const std::string& piece = {}) {
        std::string seq;
        const Json json = gradusJson({"audit", "query", "--event", kind});
        for (const Json& event : json["data"]["events"])
            if (event.dump().find(piece) != std::string::npos) seq = std::to_string(event["seq"].get<std::int64_t>());
        EXPECT_FALSE(seq.empty()) << kind << " " << piece;
        return seq;
    }
    bool holds(const fs::path& stage, const std::string& text) {
        return fs::exists(stage / "current/app.txt") && bytesOf(stage / "current/app.txt") == text;
    }
};
INSTANTIATE_TEST_SUITE_P(Users, Why, testing::Values(test::As::kSelf), test::nameOfUser);

constexpr const char* kOneYes = "approvals = [{ count = 1, role = \"sre\", expires = \"12h\" }]";

// ---- events ----

TEST_P(Why, AnEventOfTheLogIsExplained) {
    begin(kOneYes);
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change}).exit, 8);
    ASSERT_EQ(as("person:ben", {"approve", change, "--reason", "looks right"}).exit, 0);
    ASSERT_EQ(gradus({"promote", change}).exit, 0);

    const std::string waited = newest("promotion.moved", "0 of 1 approvals");
    const std::string text = why(waited);
    for (const char* piece : {"it waits: 0 of 1 approvals of the role sre", "promotion.moved by person:alice on ",
                              "about  c1.1 echo v2 > app.txt, p2 into staging, which is promoted now",
                              "under  approvals gradus.toml:", "what led to it\n", "c1.1 is to enter staging",
                              "what came of it\n", "person:ben: approved c1.1 for staging as sre: looks right"})
        EXPECT_TRUE(has(text, piece)) << text;
    EXPECT_EQ(why("#" + waited), text);
    const Json json = gradusJson({"why", waited})["data"];
    EXPECT_EQ(std::to_string(json["event"]["seq"].get<std::int64_t>()), waited);
    EXPECT_EQ(json["event"]["actor"], "person:alice");
    EXPECT_EQ(json["promotion"]["id"], "p2");
    EXPECT_EQ(json["change"]["id"], "c1");
    EXPECT_TRUE(has(json["rules"].dump(), "approvals gradus.toml:"));
    EXPECT_TRUE(has(json["after"].dump(), "it goes ahead on the approval of person:ben"));
    EXPECT_TRUE(has(json["before"].dump(), "submitted c1"));

    EXPECT_TRUE(has(why(newest("check.finished", "unit")), "under  check unit gradus.toml:"));
    EXPECT_TRUE(has(why(newest("approval.given")), "approval.given by person:ben"));
    EXPECT_TRUE(has(why(newest("execution.finished")), "p1 into sandbox"));
    for (std::int64_t seq = 1; seq <= events(); ++seq) {
        const Ended ended = gradus({"why", std::to_string(seq)});
        EXPECT_EQ(ended.exit, 0) << seq << ended.out << ended.err;
        EXPECT_TRUE(has(ended.out, fmt::format("event {}: ", seq)));
    }
    for (const char* none : {"99999", "#0", "#99999"}) {
        const Ended ended = gradus({"why", none});
        EXPECT_EQ(ended.exit, 2) << ended.out;
        EXPECT_TRUE(has(ended.err, "there is no event")) << ended.err;
    }
}

// ---- names ----

TEST_P(Why, ANameThatOnlyLooksLikeAnotherIsNobodys) {
    begin("approvals = [{ count = 2 }]");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change}).exit, 8);
    ASSERT_EQ(as("person:ben", {"approve", change}).exit, 0);
    edit("lib/util.txt", "u2\n");
    for (const char* name : {"person:ben ", "person: ben", "person:ben\t", "person:b\001en", "person:ben\u200b",
                             "person:ben\u00a0", "person:be\u0301n"}) {
        const Ended ended = as(name, {"approve", change});
        EXPECT_EQ(ended.exit, 2) << name << ended.out << ended.err;
        EXPECT_TRUE(has(ended.err, "in GRADUS_ACTOR ")) << ended.err;
        EXPECT_EQ(as(name, {"submit", "--worktree"}).exit, 2) << name;
    }
    EXPECT_EQ(gradus({"promote", change}).exit, 8) << "one person is one";
    const std::string sandbox = sandboxWith("echo v3 > app.txt");
    const Ended sponsor = gradus({"submit", "--from-sandbox", sandbox, "--sponsor", "sue "});
    EXPECT_EQ(sponsor.exit, 2) << sponsor.out;
    EXPECT_TRUE(has(sponsor.err, "in --sponsor begins or ends with a space")) << sponsor.err;
    EXPECT_EQ(gradus({"submit", "--from-sandbox", sandbox, "--sponsor", "agent:sue"}).exit, 2);
    ASSERT_EQ(gradus({"submit", "--from-sandbox", sandbox, "--sponsor", "person:sue"}).exit, 0);
    EXPECT_TRUE(has(gradus({"show", "c2"}).out, "for sue")) << gradus({"show", "c2"}).out;
    shell("sed -i 's/\\[\"ben\"\\]/[\"ben \"]/' gradus.toml");
    const Ended lint = gradus({"policy", "lint"});
    EXPECT_NE(lint.exit, 0);
    EXPECT_TRUE(has(lint.out + lint.err, "begins or ends with a space")) << lint.out << lint.err;
}

// ---- holds and approvals ----

TEST_P(Why, AHoldIsToldForWhatItHoldsAndWhileItStands) {
    begin();
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"hold", change, "--for", "4s", "--reason", "a look"}).exit, 0);
    ASSERT_EQ(gradus({"promote", change}).exit, 8);
    const std::string held = why("p1");
    EXPECT_TRUE(has(held, "c1 is held by person:alice (a look), since ")) << held;
    EXPECT_TRUE(has(held, ", until ")) << held;
    EXPECT_FALSE(has(held, "nobody enters")) << held;
    for (int i = 0; i < 100 && has(why("p1"), "is held by"); ++i) ::usleep(100'000);
    EXPECT_FALSE(has(why("p1"), "is held by")) << why("p1");
    EXPECT_TRUE(gradusJson({"why", "p1"})["data"]["holds"].empty());
    const std::string other = changed("echo u2 > lib/util.txt");
    ASSERT_EQ(gradus({"hold", change, "--reason", "another look"}).exit, 0);
    ASSERT_EQ(gradus({"promote", other}).exit, 0);
    EXPECT_FALSE(has(why(other), "another look")) << why(other);
}

TEST_P(Why, AnApprovalThatExpiredIsSaidToHave) {
    begin(kOneYes);
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change}).exit, 8);
    ASSERT_EQ(as("person:ben", {"approve", change}).exit, 0);
    // A minute is the shortest life that a policy can give it.
    ProgramTest::edit("update approval set given_at = 1767355200000");
    const std::string text = why(change);
    EXPECT_TRUE(has(text, "0 of 1 approvals of the role sre (expired: ben)")) << text;
    EXPECT_TRUE(has(text,
                    "approval 1 of ben, given 2026-01-02 12:00 UTC, does not count: it expired 2026-01-03 00:00 "
                    "UTC, and can be given again"))
        << text;
    const Json json = gradusJson({"why", change});
    EXPECT_EQ(json["data"]["approvals"][0]["expired"], "2026-01-03T00:00:00.000Z");
    EXPECT_TRUE(has(json["next"].dump(), "gradus approve c1 --to staging")) << json["next"];
    EXPECT_EQ(gradus({"promote", change}).exit, 8);
    ASSERT_EQ(as("person:ben", {"approve", change}).exit, 0);
    EXPECT_EQ(gradus({"promote", change}).exit, 0);
}

// ---- blame ----

TEST_P(Why, BlameTakesAPathAsGitDoes) {
    begin();
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt; echo one > lib/one.txt")}).exit, 0);
    ASSERT_EQ(gradus({"promote", changed("echo u2 > lib/util.txt; rm README.md link")}).exit, 0);
    const auto change = [&](const std::string& path) {
        const Json json = gradusJson({"blame", "production", path});
        EXPECT_TRUE(json["ok"] == true) << path << json.dump(2);
        return json["data"]["change"].value("id", "");
    };
    const fs::path root = project;
    for (const std::string& path :
         {std::string("./app.txt"), std::string("lib/../app.txt"), std::string(".//app.txt"),
          (root / "app.txt").native(), (production / "current/app.txt").native(), std::string("./app.txt:1")})
        EXPECT_EQ(change(path), "c1") << path;
    for (const std::string& path : {std::string("lib"), std::string("lib/"), std::string("./lib/"),
                                    (root / "lib").native() + "/", std::string(".")})
        EXPECT_EQ(change(path), "c2") << path;
    const Json below = gradusJson({"blame", "production", "lib/"})["data"]["below"];
    ASSERT_EQ(below.size(), 2U) << below.dump(2);
    EXPECT_EQ(below[0]["path"], "lib/one.txt");
    EXPECT_EQ(below[0]["change"], "c1");
    EXPECT_EQ(below[1]["path"], "lib/util.txt");
    EXPECT_EQ(below[1]["change"], "c2");
    EXPECT_TRUE(has(gradus({"blame", "production", "."}).out, "README.md (removed)"));
    project = root / "lib";
    EXPECT_EQ(change("util.txt"), "c2");
    EXPECT_EQ(change("../app.txt"), "c1");
    EXPECT_EQ(change("."), "c2");
    EXPECT_TRUE(has(gradus({"blame", "production", "lib/util.txt"}).err, "touched 'lib/lib/util.txt'"));
    for (const char* elsewhere : {"../../x", "/etc/passwd"}) {
        const Ended ended = gradus({"blame", "production", elsewhere});
        EXPECT_EQ(ended.exit, 2) << ended.out;
        EXPECT_TRUE(has(ended.err, "lies neither in the project")) << ended.err;
    }
}

TEST_P(Why, BlameNamesWhoPromotedAndNotWhoRecovered) {
    begin({}, "\"./check production\"", "grep -q v2 app.txt || exit 0; exec sleep 60\n");
    const std::string change = changed("echo v2 > app.txt");
    auto running = startCommand({GRADUS_PROGRAM, "promote", change, "--to", "staging"});
    awaitState("p2", "verifying");
    running->stop(SIGKILL);
    test::writeBytes(scratch / "health", "exit 0\n");
    const Ended recovered = as("person:carl", {"recover"});
    ASSERT_EQ(recovered.exit, 0) << recovered.out << recovered.err;
    EXPECT_EQ(stateOf("p2"), "promoted");
    const Json blamed = gradusJson({"blame", "staging"})["data"];
    EXPECT_EQ(blamed["promoted_by"], "person:alice") << blamed.dump(2);
    const Json past = gradusJson({"audit", "as-of", "0s", "--stage", "staging"})["data"];
    EXPECT_EQ(past["stages"][0]["by"], "person:alice") << past.dump(2);
}

// ---- executions ----

TEST_P(Why, AnExecutionIsToldAsItEnded) {
    begin({}, "[\"sh\", \"-c\", \"grep -q slow app.txt && sleep 30; grep -q kill app.txt && kill -9 $$; true\"]");
    ASSERT_EQ(gradus({"promote", changed("echo slow > app.txt")}).exit, 1);
    const std::string late = why("e2");
    EXPECT_TRUE(has(late, "was the check unit of p1: timed-out, timed out: over its wall-time of 2s")) << late;

    ASSERT_EQ(gradus({"promote", changed("echo kill > app.txt")}).exit, 6);
    const std::string first = why("e4");
    EXPECT_TRUE(has(first, "e4 gave no answer that a promotion rests on; it began while p2 was at its checks"))
        << first;
    EXPECT_TRUE(has(first, "killed by signal 9")) << first;
    EXPECT_TRUE(has(why("e5"), "e5 was the check unit of p2: errored, killed by signal 9")) << why("e5");

    const std::string slow = changed("echo slow again > app.txt");
    auto running = startCommand({GRADUS_PROGRAM, "promote", slow});
    for (int i = 0; i < 200 && gradus({"why", "e7"}).exit != 0; ++i) ::usleep(50'000);
    ASSERT_EQ(gradus({"cancel", "p3"}).exit, 0);
    EXPECT_EQ(running->wait().exit, 130);
    EXPECT_TRUE(has(why("e7"), "e7 was the check unit of p3: cancelled")) << why("e7");

    running = startCommand({GRADUS_PROGRAM, "promote", slow});
    for (int i = 0; i < 200 && gradus({"why", "e8"}).exit != 0; ++i) ::usleep(50'000);
    running->stop(SIGKILL);
    ASSERT_EQ(gradus({"recover"}).exit, 0);
    const Json lost = gradusJson({"why", "e8"})["data"]["run"];
    EXPECT_EQ(lost["state"], "lost") << lost.dump(2);
    EXPECT_EQ(lost["during"], Json({"p4"}));
    EXPECT_TRUE(has(why("e8"), "nobody saw its end")) << why("e8");
    EXPECT_TRUE(has(why("e1"), "e1 was a command in s1")) << why("e1");
    EXPECT_EQ(gradus({"why", "e99"}).exit, 2);
}

// ---- what got stuck ----

TEST_P(Why, AQuarantineSaysWhatGotStuck) {
    const fs::path away = scratch / "away";
    begin({}, "\"./check production\"",
          fmt::format("grep -q bad lib/util.txt || exit 0; mv '{}' '{}'; exit 1\n", staging.native(), away.native()));
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt"), "--to", "staging"}).exit, 0);
    ASSERT_EQ(gradus({"promote", changed("echo bad > lib/util.txt"), "--to", "staging"}).exit, 6);
    const std::string other = changed("echo more > README.md");
    ASSERT_EQ(gradus({"promote", other, "--to", "staging"}).exit, 8);
    EXPECT_TRUE(has(why(other), "p4 got stuck here: ")) << why(other);
    EXPECT_FALSE(has(why(other), "the rollback of p4")) << why(other);
}

// ---- what was taken back ----

TEST_P(Why, WhatWasTakenBackSinceIsToldWithWhatDidIt) {
    begin();
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change, "--to", "staging"}).exit, 0);
    EXPECT_TRUE(has(why("p2"), "p2 is promoted")) << why("p2");
    EXPECT_TRUE(gradusJson({"why", "p2"})["data"]["taken_back"].is_null());
    ASSERT_EQ(gradus({"rollback", "staging"}).exit, 0);
    const std::string told = why("p2");
    EXPECT_TRUE(has(told, "p2 was promoted\n  taken back on 20")) << told;
    EXPECT_TRUE(has(told, "Z by p3\n")) << told;
    EXPECT_EQ(gradusJson({"why", "p2"})["data"]["taken_back"]["by"], "p3");
    ASSERT_EQ(gradus({"promote", change, "--to", "staging"}).exit, 0);
    EXPECT_TRUE(has(why("staging"), " is promoted\n")) << "it is in again: " << why("staging");
}

// ---- how far it was to go ----

class Goal : public Why {
  protected:
    std::string waiting(const std::string& to) {
        std::string change = changed("echo v2 > app.txt");
        EXPECT_EQ(gradus({"promote", change, "--to", to}).exit, 8);
        return change;
    }
    void approved(const std::string& change) { ASSERT_EQ(as("person:ben", {"approve", change}).exit, 0); }
};
INSTANTIATE_TEST_SUITE_P(Users, Goal, testing::Values(test::As::kSelf), test::nameOfUser);

TEST_P(Goal, WhatWaitedGoesOnToWhereItWasWanted) {
    begin(kOneYes);
    const std::string change = waiting("production");
    EXPECT_TRUE(has(why("p2"), "on its way to production")) << why("p2");
    const Ended yes = as("person:ben", {"approve", change});
    EXPECT_TRUE(has(yes.err, "gradus promote c1 --to production")) << yes.err;
    const Ended ended = as("person:carl", {"recover"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(holds(staging, "v2\n"));
    EXPECT_TRUE(holds(production, "v2\n")) << ended.out;
    EXPECT_EQ(gradusJson({"blame", "production"})["data"]["promoted_by"], "person:alice");
    EXPECT_TRUE(has(why(newest("promotion.moved", "applying")), "by person:carl for person:alice on "));
    expectWhole();
}

TEST_P(Goal, ItGoesNoFurtherThanItWasWanted) {
    begin(kOneYes);
    const std::string change = waiting("staging");
    approved(change);
    const Ended ended = gradus({"promote", change});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(holds(staging, "v2\n"));
    EXPECT_FALSE(holds(production, "v2\n"));
    EXPECT_EQ(gradus({"promote", change}).exit, 0) << "nothing waits any more";
    EXPECT_TRUE(holds(production, "v2\n"));
}

TEST_P(Goal, NobodyWantsItFurtherInTheNameOfAnother) {
    begin();
    ASSERT_EQ(gradus({"hold", "staging"}).exit, 0);
    const std::string change = waiting("staging");
    ASSERT_EQ(as("agent:fixer", {"promote", change, "--to", "production"}).exit, 8);
    EXPECT_FALSE(has(why("p2"), "on its way to")) << why("p2");
    ASSERT_EQ(gradus({"unhold", "staging"}).exit, 0);
    ASSERT_EQ(as("person:carl", {"recover"}).exit, 0);
    EXPECT_TRUE(holds(staging, "v2\n"));
    EXPECT_FALSE(holds(production, "v2\n"));
}

TEST_P(Goal, WhoTakesItUpWantsItInTheirOwnName) {
    begin(kOneYes);
    const std::string change = waiting("staging");
    ASSERT_EQ(as("agent:fixer", {"promote", change, "--to", "production"}).exit, 8) << "it is checked again";
    approved(change);
    ASSERT_EQ(as("person:carl", {"recover"}).exit, 0);
    EXPECT_TRUE(holds(production, "v2\n"));
    for (const char* stage : {"staging", "production"})
        EXPECT_EQ(gradusJson({"blame", stage})["data"]["promoted_by"], "agent:fixer") << stage;
}

TEST_P(Goal, WhoThinksAgainIsHeard) {
    begin(kOneYes);
    const std::string change = waiting("production");
    ASSERT_EQ(gradus({"promote", change, "--to", "staging"}).exit, 8);
    EXPECT_FALSE(has(why("p2"), "on its way to")) << why("p2");
    EXPECT_TRUE(has(gradus({"audit", "timeline", change}).out, "it is to go on to staging"));
    approved(change);
    ASSERT_EQ(gradus({"recover"}).exit, 0);
    EXPECT_TRUE(holds(staging, "v2\n"));
    EXPECT_FALSE(holds(production, "v2\n"));
    expectWhole();
}

}  // namespace
}  // namespace gradus
