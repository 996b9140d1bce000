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
    EXPECT_EQ(lines[0], "it waits: 2 of 19 gates closed");
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
    EXPECT_EQ(lines[2], "  approval 1 does not count: it comes from who made the change");
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
    EXPECT_EQ(json["gates"][18]["rule"], "gradus.toml:12:14");
    EXPECT_EQ(json["approvals"][0]["counts"], false);
}

}  // namespace
}  // namespace gradus
