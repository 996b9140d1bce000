// Promises about promotions that the decision keeps. tests/mutants/ has a decision that breaks each; these catch it.
#include <gtest/gtest.h>

#include "tests/policies/gate/gate_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::approvalOf;
using test::decideHere;
using test::named;
using test::readyFacts;

const char* const kOneApproval = "approvals = [{ count = 1 }]";
const char* const kMachinesToo = "alone = [\"person\", \"agent\", \"daemon\", \"ci\"]\ntest-paths = [\"tests/**\"]";

GateState approvalsWith(const Facts& facts) { return decideHere(facts, kOneApproval).at(Gate::kApprovals).state; }

Facts withApproval(const std::string& person = "ben") {
    Facts facts = readyFacts();
    facts.approvals = {approvalOf(facts, person)};
    return facts;
}

TEST(GateInvariant, AnApprovalIsUsedOnce) {
    GRADUS_CASES("I9");
    Facts facts = withApproval();
    EXPECT_EQ(approvalsWith(facts), GateState::kOpen);
    facts.approvals[0].usedBy = facts.promotion + 1;
    EXPECT_EQ(approvalsWith(facts), GateState::kClosed);
}

TEST(GateInvariant, AnApprovalIsForWhatItWasGivenFor) {
    GRADUS_CASES("I9");
    const Facts given = withApproval();
    Facts facts = given;
    facts.base = named("moved");
    EXPECT_EQ(approvalsWith(facts), GateState::kClosed);
    facts = given;
    facts.checked->evidence = named("run again");
    EXPECT_EQ(approvalsWith(facts), GateState::kClosed);
    facts = given;
    facts.rules = named("tightened");
    EXPECT_EQ(approvalsWith(facts), GateState::kClosed);
    facts = given;
    ++facts.change.revision;
    EXPECT_EQ(approvalsWith(facts), GateState::kClosed);
    EXPECT_EQ(approvalsWith(given), GateState::kOpen);
}

TEST(GateInvariant, AnOverrideOpensWhatWasClosedByTheRulesOfThen) {
    Facts facts = readyFacts();
    facts.holds = {{.by = {ActorKind::kPerson, "ben"}, .at = test::kNoon - std::chrono::hours(1)}};
    facts.overrides = {{.promotion = facts.promotion,
                        .gate = "hold",
                        .by = {ActorKind::kPerson, "dora"},
                        .roles = {"override"},
                        .at = test::kNoon,
                        .reason = "fire",
                        .about = facts.rules.hex()}};
    EXPECT_EQ(decideHere(facts, "").at(Gate::kHold).state, GateState::kOpen);
    facts.rules = named("frozen since");
    EXPECT_EQ(decideHere(facts, "").at(Gate::kHold).state, GateState::kClosed);
}

TEST(GateInvariant, NobodyApprovesWhatTheyMade) {
    GRADUS_CASES("I10");
    EXPECT_EQ(approvalsWith(withApproval("anna")), GateState::kClosed);
    Facts facts = withApproval("ben");
    facts.change.makers.push_back({{ActorKind::kPerson, "ben"}, std::nullopt});
    EXPECT_EQ(approvalsWith(facts), GateState::kClosed) << "made an earlier revision";
}

TEST(GateInvariant, NoMachineApproves) {
    GRADUS_CASES("I10");
    for (const ActorKind kind : {ActorKind::kAgent, ActorKind::kDaemon, ActorKind::kCi}) {
        Facts facts = withApproval("helper");
        facts.approvals[0].by.kind = kind;
        EXPECT_EQ(approvalsWith(facts), GateState::kClosed) << nameOf(kActorKinds, kind);
    }
}

Facts byAgent(const TouchedPath& path) {
    Facts facts = readyFacts();
    facts.change.makers = {{{ActorKind::kAgent, "fixer"}, std::nullopt}};
    facts.promoter = {ActorKind::kAgent, "fixer"};
    facts.change.paths = {path};
    return facts;
}

TEST(GateInvariant, AChangeOfTheRulesNeedsAPerson) {
    GRADUS_CASES("I16", "CA13");
    for (const char* path : {"gradus.toml", ".gradus/policies/here.toml", ".gitattributes", ".gitmodules"}) {
        Facts facts = byAgent({.path = path, .added = 1});
        EXPECT_TRUE(decideHere(facts, kMachinesToo).at(Gate::kRules).ask) << path;
        facts.approvals = {approvalOf(facts)};
        EXPECT_EQ(decideHere(facts, kMachinesToo).step, NextStep::kApply) << path;
    }
}

TEST(GateInvariant, WeakerTestsNeedAPerson) {
    GRADUS_CASES("I16");
    for (const TouchedPath& path : {TouchedPath{.path = "tests/a.py", .isThere = false},
                                    TouchedPath{.path = "tests/a.py", .added = 1, .removed = 2},
                                    TouchedPath{.path = "tests/a.py", .added = 1, .moreSkips = 1}})
        EXPECT_TRUE(decideHere(byAgent(path), kMachinesToo).at(Gate::kTests).ask);
    EXPECT_EQ(decideHere(byAgent({.path = "tests/a.py", .added = 2, .removed = 1}), kMachinesToo).step,
              NextStep::kApply);
}

TEST(GateInvariant, GoingBackAsksNobodyAndWaitsForNothing) {
    GRADUS_CASES("I17");
    Facts facts = readyFacts();
    facts.halt = HaltFact{};
    facts.stuck = StuckFact{};
    facts.holds = {{}};
    facts.vetoes = {{.changeSet = facts.change.changeSet}};
    facts.ahead = {{}};
    facts.checked.reset();
    facts.moved.moved = StageMoved::kConflict;
    const Decision decision = decideRollback(facts);
    EXPECT_EQ(decision.step, NextStep::kApply);
    EXPECT_FALSE(decision.asks());
    for (const GateAnswer& answer : decision.gates) EXPECT_EQ(answer.state, GateState::kNotApplicable);
}

/// What is remembered after the promotion of `change` was rolled back here because a check said no.
HoldFact afterRollback(const ChangeFacts& change) {
    return {.stage = "here",
            .change = change.id,
            .patch = change.patch,
            .onlyMachines = true,
            .by = {ActorKind::kDaemon, "gradus"},
            .reason = "rolled back"};
}

TEST(GateInvariant, NoMachineTriesAgainWhatWasRolledBack) {
    GRADUS_CASES("I20");
    for (const ActorKind kind : {ActorKind::kAgent, ActorKind::kDaemon, ActorKind::kCi}) {
        Facts facts = readyFacts();
        facts.holds = {afterRollback(facts.change)};
        facts.promoter = {kind, "helper"};
        EXPECT_EQ(decideHere(facts, kMachinesToo).at(Gate::kHold).state, GateState::kClosed);
        facts.promoter = {ActorKind::kPerson, "anna"};
        EXPECT_EQ(decideHere(facts, kMachinesToo).step, NextStep::kApply) << "a person may";
    }
}

TEST(GateInvariant, NoMachineTriesARebaseOfWhatWasRolledBack) {
    GRADUS_CASES("I20");
    Facts facts = readyFacts();
    facts.holds = {afterRollback(facts.change)};
    facts.promoter = {ActorKind::kDaemon, "gradus"};
    facts.change.id = 99;
    facts.change.changeSet = named("the same patch on another base");
    EXPECT_EQ(decideHere(facts, kMachinesToo).at(Gate::kHold).state, GateState::kClosed);
    facts.change.patch = named("another patch");
    EXPECT_EQ(decideHere(facts, kMachinesToo).step, NextStep::kApply);
}

TEST(GateInvariant, NobodyIsAskedForWhatCannotGoAhead) {
    GRADUS_CASES("I21");
    Facts facts = readyFacts();
    EXPECT_TRUE(decideHere(facts, kOneApproval).asks());
    facts.holds = {{}};
    EXPECT_FALSE(decideHere(facts, kOneApproval).asks());
    facts = readyFacts();
    facts.checked.reset();
    EXPECT_FALSE(decideHere(facts, kOneApproval).asks());
}

TEST(GateInvariant, AnEarlyApprovalIsKept) {
    GRADUS_CASES("I21");
    Facts facts = readyFacts();
    facts.checked.reset();
    facts.holds = {{}};
    facts.approvals = {approvalOf(facts)};
    facts.holds.clear();
    facts.checked = readyFacts().checked;
    EXPECT_EQ(decideHere(facts, kOneApproval).step, NextStep::kApply);
}

}  // namespace
}  // namespace gradus
