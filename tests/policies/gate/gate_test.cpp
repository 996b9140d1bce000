#include "policies/gate/gate.h"

#include <gtest/gtest.h>

#include "tests/policies/gate/gate_fixture.h"

namespace gradus {
namespace {

using test::approvalOf;
using test::decideHere;
using test::readyFacts;

TEST(Gate, AnswersForEveryGateInTheOrderOfTheirNames) {
    const Decision decision = decideHere(readyFacts(), "");
    ASSERT_EQ(decision.gates.size(), kGates.size());
    for (std::size_t i = 0; i < kGates.size(); ++i) {
        EXPECT_EQ(decision.gates[i].gate, kGates[i].value);
        EXPECT_FALSE(decision.gates[i].reason.empty()) << kGates[i].word;
    }
    EXPECT_EQ(decision.step, NextStep::kApply);
    EXPECT_FALSE(decision.asks());
}

TEST(Gate, NamesThePlaceOfTheRule) {
    const Decision decision = decideHere(readyFacts(), "approvals = [{ role = \"sre\" }]");
    const GateAnswer& answer = decision.at(Gate::kApprovals);
    EXPECT_EQ(answer.state, GateState::kClosed);
    EXPECT_EQ(answer.rule, "gradus.toml:12:14");
    EXPECT_EQ(answer.reason, "0 of 1 approvals of the role sre");
    EXPECT_EQ(answer.since, readyFacts().openedAt);
    EXPECT_EQ(answer.unblock, std::vector<std::string>{"role sre, but not the author"});
    EXPECT_TRUE(answer.ask);
}

TEST(Gate, AsksPeopleOnlyWhenTheChecksHavePassed) {
    Facts facts = readyFacts();
    facts.checked.reset();
    const Decision decision = decideHere(facts, "approvals = [{ count = 1 }]");
    EXPECT_EQ(decision.step, NextStep::kCheck);
    EXPECT_FALSE(decision.asks());
}

TEST(Gate, KeepsAnApprovalThatWasGivenEarly) {
    Facts facts = readyFacts();
    facts.checked.reset();
    facts.approvals = {approvalOf(facts)};
    facts.checked = readyFacts().checked;
    EXPECT_EQ(decideHere(facts, "approvals = [{ count = 1 }]").step, NextStep::kApply);
}

TEST(Gate, SaysWhyAnApprovalDoesNotCount) {
    Facts facts = readyFacts();
    facts.approvals = {approvalOf(facts), approvalOf(facts, "anna")};
    facts.approvals[0].subject.base = test::named("another tree");
    const Decision decision = decideHere(facts, "approvals = [{ count = 1 }]");
    EXPECT_EQ(decision.approvals[0].why, "was given when the stage held another tree");
    EXPECT_EQ(decision.approvals[1].why, "comes from who made the change");
}

}  // namespace
}  // namespace gradus
