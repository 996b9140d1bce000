#include "policies/gate/explain.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/policies/gate/gate_fixture.h"
#include "tests/policies/gate/gate_table.h"

namespace gradus {
namespace {

using Lines = std::vector<std::string>;
using test::approvalOf;
using test::decideHere;
using test::kNoon;
using test::readyFacts;

const char* const kWeekend = R"(approvals = [{ role = "sre" }]
[[window]]
stages = ["here"]
deny = { cron = "0 16 * * FRI", for = "64h", timezone = "Europe/Berlin" }
reason = "nobody is at work"
)";

TEST(Explain, SaysWhatIsClosedSinceWhenUntilWhenAndWhoOpensIt) {
    const Time saturday = test::timeOf("2026-03-07T12:00");
    const Lines lines = explainLines(decideHere(readyFacts(), kWeekend, saturday), saturday);
    const std::string margin(27, ' ');
    ASSERT_EQ(lines.size(), 5U);
    EXPECT_EQ(lines[0], "it waits: 2 of 20 gates closed");
    EXPECT_EQ(lines[1], "  window           closed  nobody is at work  [gradus.toml:13:1]");
    EXPECT_EQ(lines[2], margin + "since 2026-03-06 15:00 UTC; opens 2026-03-09 07:00 UTC (in 1d19h); opened by time");
    EXPECT_EQ(lines[3], "  approvals        closed  0 of 1 approvals of the role sre  [gradus.toml:12:14]");
    EXPECT_EQ(lines[4], margin +
                            "since 2026-03-04 10:00 UTC; opened by role sre, but not the author; "
                            "asked for when the rest is open");
}

TEST(Explain, SaysThatPeopleAreAsked) {
    const Lines lines = explainLines(decideHere(readyFacts(), kWeekend), kNoon);
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_TRUE(lines[2].ends_with("; people are asked now")) << lines[2];
}

TEST(Explain, IsShortWhenAllIsWell) {
    EXPECT_EQ(explainLines(decideHere(readyFacts(), ""), kNoon), Lines{"every gate is open"});
}

TEST(Explain, NamesEveryGateWhenAsked) {
    const Lines lines = explainLines(decideHere(readyFacts(), ""), kNoon, true);
    EXPECT_EQ(lines.size(), 1 + kGates.size());
    EXPECT_EQ(lines[1], "  halt             open    work goes on");
}

TEST(Explain, NamesOverridesAndApprovalsThatDoNotCount) {
    Facts facts = readyFacts();
    facts.holds = {{}};
    facts.overrides = {{facts.promotion, "hold", {ActorKind::kPerson, "dora"}, {"override"}, kNoon, "fire"}};
    facts.approvals = {approvalOf(facts, "anna")};
    const Lines lines = explainLines(decideHere(facts, ""), kNoon);
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_TRUE(lines[1].ends_with("; overridden by dora (fire)")) << lines[1];
    EXPECT_EQ(lines[2],
              "  approval 1 of anna, given 2026-03-04 11:00 UTC, does not count: it comes from who made the change");
}

TEST(Explain, SaysWhoseApprovalExpiredAndWhen) {
    Facts facts = readyFacts();
    facts.approvals = {approvalOf(facts, "ben")};
    facts.approvals[0].at = kNoon - std::chrono::hours(13);
    const std::string rules = R"(approvals = [{ count = 1, expires = "12h" }])";
    const Decision decision = decideHere(facts, rules);
    const Lines lines = explainLines(decision, kNoon);
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines[1], "  approvals        closed  0 of 1 approvals (expired: ben)  [gradus.toml:12:14]");
    EXPECT_EQ(
        lines[3],
        "  approval 1 of ben, given 2026-03-03 23:00 UTC, does not count: it expired 2026-03-04 11:00 UTC, and can "
        "be given again");
    const auto json = nlohmann::json::parse(explainJson(decision));
    EXPECT_EQ(json["approvals"][0]["counts"], false);
    EXPECT_EQ(json["approvals"][0]["by"], "ben");
    EXPECT_EQ(json["approvals"][0]["expired"], "2026-03-04T11:00:00.000Z");
}

TEST(Explain, AnApprovalThatHelpsAtOneGateCounts) {
    Facts facts = readyFacts();
    facts.change.makers = {{{ActorKind::kAgent, "fixer"}, std::nullopt}};
    facts.promoter = {ActorKind::kAgent, "fixer"};
    facts.approvals = {approvalOf(facts, "ben")};
    facts.approvals[0].at = kNoon - std::chrono::hours(13);
    // For who comes not alone a day is enough, for the entry it is not.
    const Decision decision = decideHere(facts, R"(approvals = [{ count = 1, expires = "12h" }])");
    EXPECT_EQ(decision.at(Gate::kAlone).state, GateState::kOpen);
    EXPECT_EQ(decision.at(Gate::kApprovals).reason, "0 of 1 approvals (expired: ben)");
    EXPECT_TRUE(decision.approvals[0].counts);
    facts.approvals[0].at = kNoon - std::chrono::hours(25);
    const Decision later = decideHere(facts, R"(approvals = [{ count = 1, expires = "12h" }])");
    EXPECT_TRUE(later.at(Gate::kAlone).reason.ends_with(" (expired: ben)")) << later.at(Gate::kAlone).reason;
    EXPECT_FALSE(later.approvals[0].counts);
}

TEST(Explain, ANewerYesOfTheSamePersonIsNoExpiredOne) {
    Facts facts = readyFacts();
    facts.approvals = {approvalOf(facts, "ben"), approvalOf(facts, "ben")};
    facts.approvals[0].at = kNoon - std::chrono::hours(13);
    facts.approvals[1].id = 2;
    const Decision decision = decideHere(facts, R"(approvals = [{ count = 2, expires = "12h" }])");
    EXPECT_EQ(decision.at(Gate::kApprovals).reason, "1 of 2 approvals (ben)");
    EXPECT_FALSE(decision.approvals[0].counts);
    EXPECT_TRUE(decision.approvals[1].counts);
}

TEST(Explain, SaysWhatGotStuck) {
    Facts facts = readyFacts();
    facts.stuck = StuckFact{20, kNoon, std::nullopt, "nothing was taken back: a person has to decide"};
    EXPECT_EQ(decideHere(facts, "").at(Gate::kQuarantine).reason,
              "p20 got stuck here: nothing was taken back: a person has to decide");
    facts.stuck = StuckFact{20, kNoon, 18};
    EXPECT_EQ(decideHere(facts, "").at(Gate::kQuarantine).reason, "p20, the rollback of p18, got stuck here");
}

TEST(Explain, TellsProgramsTheSame) {
    Facts facts = readyFacts();
    facts.approvals = {approvalOf(facts, "anna")};
    facts.halt = HaltFact{{ActorKind::kPerson, "carl"}, kNoon, "bad \xff byte"};
    const auto json = nlohmann::json::parse(explainJson(decideHere(facts, kWeekend)));
    EXPECT_EQ(json["step"], "wait");
    EXPECT_EQ(json["asks"], false);
    EXPECT_EQ(json["next"], "2026-03-06T15:00:00.000Z");
    ASSERT_EQ(json["gates"].size(), kGates.size());
    EXPECT_EQ(json["gates"][0]["gate"], "halt");
    EXPECT_EQ(json["gates"][0]["state"], "closed");
    EXPECT_EQ(json["gates"][0]["since"], "2026-03-04T12:00:00.000Z");
    EXPECT_TRUE(json["gates"][0]["next"].is_null());
    EXPECT_EQ(json["gates"][19]["rule"], "gradus.toml:12:14");
    EXPECT_EQ(json["approvals"][0]["counts"], false);
}

}  // namespace
}  // namespace gradus
