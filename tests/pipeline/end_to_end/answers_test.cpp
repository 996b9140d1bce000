// What was, and what would be: the story, the past, exports, drills and simulated rules, with the real program.
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

/// A work tree and a production that asks for consent; alice makes and promotes, ben consents.
class Answers : public ClimbingProgram {
  protected:
    std::string rules(const std::string& policy, const std::string& rest = {}, const std::string& checks = "\"unit\"") {
        return fmt::format(
            "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"production\"]\n"
            "[check.unit]\nrun = \"./check production\"\n[check.more]\nrun = \"./check more\"\n"
            "[stage.sandbox]\nchecks = [\"unit\"]\n"
            "[stage.production]\ndriver = \"release-directory\"\npath = \"{}\"\nchecks = [{}]\n"
            "activate = [\"touch\", \"{}\"]\n"
            "[role.sre]\nmembers = [\"ben\"]\n"
            "[policy.production]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n{}\n{}\n",
            production.native(), checks, (scratch / "activated").native(), policy, rest);
    }
    void begin(const std::string& policy = {}) {
        repository();
        edit("gradus.toml", rules(policy));
        commitAll("rules");
        variables["GRADUS_ACTOR"] = "person:alice";
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    }
    std::string promoted(const std::string& script) {
        std::string change = changed(script);
        const Ended ended = gradus({"promote", change});
        EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
        return change;
    }
    std::int64_t headSeq() { return gradusJson({"audit", "verify"})["data"]["events"].get<std::int64_t>(); }
    Json stageIn(const Json& view, const std::string& name) {
        for (const Json& stage : view["data"]["stages"])
            if (stage["stage"] == name) return stage;
        return Json::object();
    }
    Json then(std::int64_t seq) {
        Json json = gradusJson({"audit", "as-of", std::to_string(seq)});
        EXPECT_EQ(json["ok"], true) << json.dump(2);
        return json;
    }
    /// The sentences of a story.
    std::vector<std::string> story(const test::Words& words) {
        test::Words all{"audit", "timeline"};
        all.insert(all.end(), words.begin(), words.end());
        std::vector<std::string> texts;
        const Json json = gradusJson(all);
        for (const Json& entry : json["data"]["entries"]) texts.push_back(entry["text"]);
        return texts;
    }
    static bool tells(const std::vector<std::string>& story, const std::string& piece) {
        return std::any_of(story.begin(), story.end(),
                           [&](const std::string& text) { return text.find(piece) != std::string::npos; });
    }
};
constexpr const char* kOverrider = "[role.override]\nmembers = [\"olga\"]\n";
/// Its files come first by name: whoever takes any file of the release takes these.
constexpr const char* kBuilt =
    "[check.build]\nrun = [\"sh\", \"-c\", \"mkdir -p a-dist; cat app.txt > a-dist/out\"]\noutputs = "
    "[\"a-dist/**\"]\n";

INSTANTIATE_TEST_SUITE_P(Users, Answers, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

// ---- timeline ----

TEST_P(Answers, TheTimelineTellsHowAChangeCameIn) {
    begin("approvals = [{ count = 1, role = \"sre\", expires = \"12h\" }]");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change}).exit, 8);
    ASSERT_EQ(as("person:ben", {"approve", change, "--reason", "looks right"}).exit, 0);
    ASSERT_EQ(gradus({"promote", change}).exit, 0);
    const auto told = story({change});
    for (const char* piece :
         {"submitted c1: echo v2 > app.txt", "c1.1 is to enter sandbox", "c1.1 entered sandbox",
          "c1.1 is to enter production", "it waits: ", "approved c1.1 for production as sre: looks right",
          "it goes ahead on the approval of person:ben", "unit passed in ", "c1.1 entered production"})
        EXPECT_TRUE(tells(told, piece)) << piece << "\n" << gradus({"audit", "timeline", change}).out;
    EXPECT_FALSE(tells(story({"sandbox"}), "enter production"));
    EXPECT_TRUE(tells(story({"sandbox"}), "c1.1 is to enter sandbox on its way to production"));
    EXPECT_TRUE(tells(story({"p2"}), "approved c1.1"));
    EXPECT_FALSE(tells(story({"p1"}), "approved c1.1"));
    EXPECT_TRUE(tells(story({}), "trusted the rules"));
    EXPECT_EQ(story({"--limit", "1"}), (std::vector<std::string>{"c1.1 entered production"}));
    EXPECT_EQ(story({"--since", "1h"}), story({}));
    EXPECT_TRUE(story({"--until", "1h"}).empty());
    EXPECT_TRUE(has(gradus({"audit", "timeline", "--limit", "1"}).err, "earlier lines left out"));
}

TEST_P(Answers, TheTimelineSaysWhatIsRedacted) {
    begin();
    promoted("echo v2 > app.txt");
    ASSERT_EQ(gradus({"hold", "production", "--reason", "a secret"}).exit, 0);
    ASSERT_EQ(gradus({"audit", "redact", std::to_string(headSeq())}).exit, 0);
    EXPECT_TRUE(tells(story({"production"}), "held production: [redacted]"));
}

TEST_P(Answers, TheTimelineOfNothingKnownIsAnError) {
    begin();
    for (const char* what : {"c9", "p9", "nowhere", "s1"}) {
        const Ended ended = gradus({"audit", "timeline", what, "--json"});
        EXPECT_EQ(ended.exit, 2) << ended.out;
        EXPECT_NE(ended.json()["error"]["hint"], "");
    }
    EXPECT_EQ(gradus({"audit", "timeline", "--since", "1d", "--until", "2d"}).exit, 2);
}

// ---- as-of ----

TEST_P(Answers, AStageWasWhatItWas) {
    begin();
    const std::int64_t empty = headSeq();
    promoted("echo v2 > app.txt");
    const std::int64_t one = headSeq();
    const Json first = stageIn(then(one), "production");
    promoted("echo u2 > lib/util.txt");
    const std::int64_t two = headSeq();
    ASSERT_EQ(gradus({"rollback", "production"}).exit, 0);
    ASSERT_EQ(gradus({"hold", "production", "--reason", "an audit"}).exit, 0);

    EXPECT_TRUE(stageIn(then(empty), "production")["change"].is_null());
    EXPECT_EQ(first["change"], "c1");
    EXPECT_EQ(stageIn(then(two), "production")["change"], "c2");
    EXPECT_NE(stageIn(then(two), "production")["tree"], first["tree"]);
    const Json now = gradusJson({"audit", "as-of", "0s", "--stage", "production"});
    EXPECT_EQ(stageIn(now, "production")["tree"], first["tree"]) << "taken back";
    EXPECT_EQ(now["data"]["newest"], true);
    ASSERT_EQ(now["data"]["words"].size(), 1U);
    EXPECT_EQ(now["data"]["words"][0]["kind"], "hold");
    EXPECT_TRUE(then(two)["data"]["words"].empty());
    EXPECT_EQ(then(two)["data"]["rules"]["by"], "person:alice");
    EXPECT_TRUE(has(gradus({"audit", "as-of", std::to_string(one)}).out, "c1.1 echo v2 > app.txt"));
}

TEST_P(Answers, WhatWaitedThenIsShownWithWhatWasSaid) {
    begin("approvals = [{ count = 1, role = \"sre\", expires = \"12h\" }]");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change}).exit, 8);
    ASSERT_EQ(as("person:ben", {"approve", change}).exit, 0);
    const std::int64_t waiting = headSeq();
    ASSERT_EQ(gradus({"promote", change}).exit, 0);
    const Json view = then(waiting);
    ASSERT_EQ(view["data"]["unfinished"].size(), 1U);
    EXPECT_EQ(view["data"]["unfinished"][0]["state"], "waiting");
    ASSERT_EQ(view["data"]["words"].size(), 1U);
    EXPECT_EQ(view["data"]["words"][0]["text"], "c1.1 is approved for production by person:ben");
    EXPECT_TRUE(then(headSeq())["data"]["unfinished"].empty());
    EXPECT_TRUE(then(headSeq())["data"]["words"].empty()) << "it was used";
}

TEST_P(Answers, AMomentThatIsNoneIsAnError) {
    begin();
    for (const char* moment : {"0", "999999", "99999999999999999999", "yesterday", "100000d", ""}) {
        const Ended ended = gradus({"audit", "as-of", moment, "--json"});
        EXPECT_EQ(ended.exit, 2) << moment << ended.out << ended.err;
        EXPECT_NE(ended.json()["error"]["hint"], "");
    }
    EXPECT_EQ(gradus({"audit", "as-of", "0s", "--stage", "nowhere"}).exit, 2);
    EXPECT_EQ(gradus({"audit", "as-of", "1", "--json"}).exit, 2) << "the project was not known yet";
}

// ---- export ----

TEST_P(Answers, AnExportIsVerifiedAnywhereAndTellsWhatWasDoneToIt) {
    begin();
    promoted("echo v2 > app.txt");
    const fs::path file = project / "log.ndjson";
    const Ended made = gradus({"audit", "export", "log.ndjson", "--json"});
    ASSERT_EQ(made.exit, 0) << made.out << made.err;
    EXPECT_EQ(made.json()["data"]["events"], headSeq());
    EXPECT_EQ(gradus({"audit", "export", "log.ndjson"}).exit, 2) << "it is there already";
    variables["GRADUS_HOME"] = (scratch / "elsewhere").native();
    const Ended whole = gradus({"audit", "verify", "--export", "log.ndjson"});
    EXPECT_EQ(whole.exit, 0) << whole.out << whole.err;
    EXPECT_FALSE(fs::exists(scratch / "elsewhere")) << "no store is needed, and none is made";
    shell("sed -i '7s/\"batch\":/\"batch\":1/' log.ndjson");
    const Ended altered = gradus({"audit", "verify", "--export", "log.ndjson", "--json"});
    EXPECT_EQ(altered.exit, 1);
    EXPECT_EQ(altered.json()["data"]["kind"], "altered") << altered.out;
    EXPECT_EQ(altered.json()["data"]["first_bad_seq"], 6);
    EXPECT_EQ(gradus({"audit", "verify", "--export", "app.txt"}).exit, 2);
    EXPECT_EQ(gradus({"audit", "verify", "--anchor", "app.txt"}).exit, 2);
}

TEST_P(Answers, AnExportOfOneChangeKeepsOtherTextsBack) {
    begin();
    promoted("echo v2 > app.txt");
    promoted("echo u2 > lib/util.txt");
    ASSERT_EQ(gradus({"audit", "export", "c1.ndjson", "--change", "c1"}).exit, 0);
    const std::string text = bytesOf(project / "c1.ndjson");
    EXPECT_TRUE(has(text, "echo v2 > app.txt"));
    EXPECT_FALSE(has(text, "echo u2 > lib/util.txt"));
    EXPECT_EQ(gradus({"audit", "verify", "--export", "c1.ndjson"}).exit, 0);
    EXPECT_EQ(gradus({"audit", "export", "c9.ndjson", "--change", "c9"}).exit, 2);
    EXPECT_EQ(gradus({"audit", "export", "no/where.ndjson"}).exit, 6);
}

// ---- drill ----

TEST_P(Answers, ADrillAppliesAndTakesBackAndTouchesNothing) {
    begin();
    promoted("echo v2 > app.txt");
    fs::remove(scratch / "activated");
    const std::string change = changed("echo u2 > lib/util.txt; rm README.md; mkdir -p new; echo n > new/file");
    const std::string before = fingerprint(production);
    const std::int64_t events = headSeq();
    for (const test::Words& words :
         {test::Words{"drill", "production"}, test::Words{"drill", "production", "--change", change}}) {
        test::Words all = words;
        all.emplace_back("--json");
        const Ended ended = gradus(all);
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
        const Json data = ended.json()["data"];
        EXPECT_EQ(data["applied"], true);
        EXPECT_EQ(data["restored"], true);
        EXPECT_TRUE(data["differences"].empty());
        EXPECT_GE(data["changed_paths"], 3);
        EXPECT_TRUE(has(data["notes"].dump(), "not run: touch ")) << data["notes"];
    }
    EXPECT_EQ(fingerprint(production), before);
    EXPECT_FALSE(fs::exists(scratch / "activated"));
    EXPECT_EQ(headSeq(), events) << "a drill is no event";
    EXPECT_TRUE(fs::is_empty(state / "drills"));
    EXPECT_TRUE(has(gradus({"drill", "production"}).out, "rolled back in "));
}

// What was built lies in the release and is no part of the tree: a change that was about it could not be put onto that.
TEST_P(Answers, ADrillTouchesNothingThatACheckBuilt) {
    repository();
    edit("gradus.toml", rules("", kBuilt, "\"unit\", \"build\""));
    commitAll("rules");
    variables["GRADUS_ACTOR"] = "person:alice";
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    promoted("echo v2 > app.txt");
    ASSERT_EQ(bytesOf(production / "current/a-dist/out"), "v2\n");
    const std::string before = fingerprint(production);
    const auto drilled = [&](const test::Words& more) {
        test::Words words{"drill", "production", "--json"};
        words.insert(words.end(), more.begin(), more.end());
        const Ended ended = gradus(words);
        EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
        const Json data = ended.json()["data"];
        EXPECT_EQ(data["restored"], true) << data.dump(2);
        return data["notes"].dump();
    };
    const std::string along = "what checks built goes along as it is";
    EXPECT_TRUE(has(drilled({}), along));
    EXPECT_TRUE(has(drilled({"--change", changed("echo u2 > lib/util.txt; echo '* -text' > .gitattributes")}), along));
    EXPECT_TRUE(has(drilled({"--change", changed("mkdir a-dist; echo mine > a-dist/out")}), "is left out"));
    EXPECT_EQ(fingerprint(production), before);
}

// A cache beside the program stays behind in the old release, so the next one cannot lose it.
TEST_P(Answers, ADrillTouchesNothingThatAProgramAdded) {
    begin();
    promoted("echo v2 > app.txt");
    shell("echo cached > '" + (production / "current/a-cache").native() + "'");
    const Ended ended = gradus({"drill", "production"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(production / "current/a-cache"), "cached\n");
}

TEST_P(Answers, AnEmptyStageIsDrilledWithAChange) {
    begin();
    const std::string change = changed("echo v2 > app.txt");
    EXPECT_EQ(gradus({"drill", "production"}).exit, 4);
    const Ended ended = gradus({"drill", "production", "--change", change});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_FALSE(fs::exists(production));
}

TEST_P(Answers, AWorkTreeIsDrilledOnACopy) {
    given();
    const std::string change = changed("echo v2 > app.txt; chmod 600 lib/util.txt; ln -s app.txt shortcut");
    const std::string before = workTree();
    const Ended ended = gradus({"drill", "local", "--change", change});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(workTree(), before);
}

TEST_P(Answers, ADrillThatDoesNotFitSaysWhere) {
    begin();
    const std::string change = changed("echo v2 > app.txt");
    promoted("echo v9 > app.txt");
    const Ended ended = gradus({"drill", "production", "--change", change, "--json"});
    EXPECT_EQ(ended.exit, 1) << ended.out;
    EXPECT_EQ(ended.json()["data"]["conflicts"][0]["path"], "app.txt");
}

TEST_P(Answers, WhatCannotBeDrilledSaysWhy) {
    begin();
    const Ended ended = gradus({"drill", "sandbox"});
    EXPECT_EQ(ended.exit, 4);
    EXPECT_TRUE(has(ended.err, "a sandbox stage writes nowhere"));
    EXPECT_EQ(gradus({"drill", "nowhere"}).exit, 2);
    EXPECT_EQ(gradus({"drill", "production", "--change", "c9"}).exit, 2);
}

TEST_P(Answers, ABranchHasNoCommandsToBlame) {
    begin();
    shell("git init -q --bare '" + (scratch / "shop.git").native() + "'");
    edit("gradus.toml", fmt::format("[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"staging\"]\n"
                                    "[stage.staging]\ndriver = \"branch\"\nrepository = \"{}\"\nbranch = \"staging\"\n",
                                    (scratch / "shop.git").native()));
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const Ended ended = gradus({"drill", "staging"});
    EXPECT_EQ(ended.exit, 4);
    EXPECT_FALSE(has(ended.err, "command")) << ended.err;
    EXPECT_TRUE(has(ended.err, "a branch has none: it is moved to a new commit")) << ended.err;
    EXPECT_TRUE(has(ended.err, "gradus plan CHANGE --to staging")) << ended.err;
}

// ---- simulate ----

TEST_P(Answers, StricterRulesAreHeldAgainstThePast) {
    begin();
    promoted("echo v2 > app.txt");
    const std::int64_t events = headSeq();
    const Json same = gradusJson({"policy", "simulate"});
    EXPECT_EQ(same["data"]["counts"]["promotions"], 2) << same.dump(2);
    EXPECT_EQ(same["data"]["counts"]["same"], 2) << same.dump(2);
    EXPECT_EQ(same["data"]["in_force"], true);
    edit("strict.toml", rules("approvals = [{ count = 1, role = \"sre\", expires = \"12h\" }]"));
    const Ended ended = gradus({"policy", "simulate", "strict.toml", "--json"});
    ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    const Json data = ended.json()["data"];
    EXPECT_EQ(data["counts"]["different"], 1) << data.dump(2);
    const Json& one = data["promotions"][1];
    EXPECT_EQ(one["was"], "entered");
    EXPECT_EQ(one["would"], "waited");
    EXPECT_EQ(one["closed"][0]["gate"], "approvals");
    EXPECT_TRUE(has(one["closed"][0]["rule"].get<std::string>(), "strict.toml:"));
    EXPECT_TRUE(has(gradus({"policy", "simulate", "strict.toml"}).out, "it would have waited"));
    EXPECT_EQ(headSeq(), events) << "nothing is recorded";
}

TEST_P(Answers, LooserRulesWouldHaveLetItIn) {
    begin("approvals = [{ count = 1, role = \"sre\", expires = \"12h\" }]");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 8);
    edit("loose.toml", rules(""));
    const Json data = gradusJson({"policy", "simulate", "loose.toml"})["data"];
    EXPECT_EQ(data["counts"]["different"], 1) << data.dump(2);
    EXPECT_EQ(data["promotions"][1]["was"], "waited");
    EXPECT_NE(data["promotions"][1]["would"], "waited");
    EXPECT_EQ(data["promotions"][1]["closed_then"][0]["gate"], "approvals");
}

TEST_P(Answers, AnApprovalThatWasGivenCountsUnderOtherRulesAsWell) {
    begin("approvals = [{ count = 1, role = \"sre\", expires = \"12h\" }]");
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change}).exit, 8);
    ASSERT_EQ(as("person:ben", {"approve", change}).exit, 0);
    ASSERT_EQ(gradus({"promote", change}).exit, 0);
    edit("other.toml", rules("approvals = [{ count = 1, role = \"sre\", expires = \"6h\" }]"));
    const Json one = gradusJson({"policy", "simulate", "other.toml"})["data"]["promotions"][1];
    EXPECT_EQ(one["would"], "entered") << one.dump(2);
    edit("other.toml", rules("approvals = [{ count = 2, role = \"sre\", expires = \"12h\" }]"));
    const Json two = gradusJson({"policy", "simulate", "other.toml"})["data"]["promotions"][1];
    EXPECT_EQ(two["would"], "waited") << two.dump(2);
}

// The gate was closed, and a person opened it for this promotion: that is what happened, not a riddle.
TEST_P(Answers, AnOverrideCountsWhereTheRulesLetItCount) {
    const std::string held = "overridable = [\"hold\"]";
    begin(held);
    edit("gradus.toml", rules(held, kOverrider));
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    ASSERT_EQ(gradus({"hold", "production", "--reason", "an audit"}).exit, 0);
    const std::string change = changed("echo v2 > app.txt");
    const Ended ended = as("person:olga", {"promote", change, "--override", "hold", "--reason", "fire"});
    ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    const Json same = gradusJson({"policy", "simulate"})["data"];
    EXPECT_EQ(same["counts"]["same"], 2) << same.dump(2);
    EXPECT_EQ(same["counts"]["unclear"], 0) << same.dump(2);
    edit("strict.toml", rules("overridable = []", kOverrider));
    const Json one = gradusJson({"policy", "simulate", "strict.toml"})["data"]["promotions"][1];
    EXPECT_EQ(one["would"], "waited") << one.dump(2);
    EXPECT_EQ(one["closed"][0]["gate"], "hold") << one.dump(2);
}

TEST_P(Answers, AnOverrideUnderRulesThatCameWhileItWaitedCounts) {
    begin();
    ASSERT_EQ(gradus({"hold", "production", "--reason", "an audit"}).exit, 0);
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change}).exit, 8);
    edit("gradus.toml", rules("", kOverrider));
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const Ended ended = as("person:olga", {"promote", change, "--override", "hold", "--reason", "fire"});
    ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    const Json data = gradusJson({"policy", "simulate"})["data"];
    EXPECT_EQ(data["counts"]["unclear"], 0) << data.dump(2);
}

TEST_P(Answers, ConsentToWhatCannotBeTakenBackCountsForTheseSteps) {
    const auto migrating = [&](const std::string& how) {
        return rules("",
                     "[[stage.production.step]]\nname = \"migrate\"\nirreversible = true\nrun = [\"" + how + "\"]\n");
    };
    repository();
    edit("gradus.toml", migrating("true"));
    commitAll("rules");
    variables["GRADUS_ACTOR"] = "person:alice";
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const Ended ended = gradus({"promote", changed("echo v2 > app.txt"), "--irreversible", "a backup was made"});
    ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    const Json same = gradusJson({"policy", "simulate"})["data"];
    EXPECT_EQ(same["counts"]["same"], 2) << same.dump(2);
    edit("other.toml", migrating("false"));
    const Json one = gradusJson({"policy", "simulate", "other.toml"})["data"]["promotions"][1];
    EXPECT_EQ(one["would"], "waited") << one.dump(2);
    EXPECT_EQ(one["closed"][0]["gate"], "steps") << one.dump(2);
}

TEST_P(Answers, WhatWasSaidLaterDoesNotCountThen) {
    begin();
    promoted("echo v2 > app.txt");
    ASSERT_EQ(gradus({"hold", "production", "--reason", "an audit"}).exit, 0);
    ASSERT_EQ(gradus({"veto", "c1", "--reason", "it was bad"}).exit, 0);
    const Json data = gradusJson({"policy", "simulate"})["data"];
    EXPECT_EQ(data["counts"]["same"], 2) << data.dump(2);
}

TEST_P(Answers, ChecksThatNeverRanAreNamed) {
    begin();
    promoted("echo v2 > app.txt");
    edit("more.toml", rules("", "", "\"unit\", \"more\""));
    const Ended ended = gradus({"policy", "simulate", "more.toml", "--json"});
    ASSERT_EQ(ended.exit, 0) << ended.err;
    const Json data = ended.json()["data"];
    EXPECT_EQ(data["never_ran"]["more"], 1) << data.dump(2);
    EXPECT_EQ(data["counts"]["unknown"], 1);
    EXPECT_TRUE(has(data["not_known"].dump(), "checks that never ran"));
}

TEST_P(Answers, RulesWithErrorsAreNotSimulated) {
    begin();
    edit("bad.toml", "[pipeline]\nname = 3\n");
    const Ended ended = gradus({"policy", "simulate", "bad.toml"});
    EXPECT_EQ(ended.exit, 2);
    EXPECT_TRUE(has(ended.out, "bad.toml:2"));
    EXPECT_EQ(gradus({"policy", "simulate", "nowhere.toml"}).exit, 2);
    EXPECT_EQ(gradus({"policy", "simulate", "--since", "soon"}).exit, 2);
}

TEST_P(Answers, OnlyThePeriodThatIsAskedForCounts) {
    begin();
    promoted("echo v2 > app.txt");
    EXPECT_EQ(gradusJson({"policy", "simulate", "--since", "0s"})["data"]["counts"]["promotions"], 0);
}

}  // namespace
}  // namespace gradus
