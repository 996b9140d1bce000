#include "policies/gate/gate.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/gate/consent.h"
#include "policies/gate/gates.h"
#include "policies/gate/overrides.h"

namespace gradus {

namespace {

struct GateRow {
    Gate gate;
    GateAnswer (*answer)(const GateInput& input);
};

// In the order of kGates: first what nobody can talk away, last what people are asked for.
constexpr std::array kTable{
    GateRow{Gate::kHalt, haltGate},
    GateRow{Gate::kQuarantine, quarantineGate},
    GateRow{Gate::kVeto, vetoGate},
    GateRow{Gate::kHold, holdGate},
    GateRow{Gate::kPin, pinGate},
    GateRow{Gate::kVerified, verifiedGate},
    GateRow{Gate::kWindow, windowGate},
    GateRow{Gate::kQueue, queueGate},
    GateRow{Gate::kFreshness, freshnessGate},
    GateRow{Gate::kEvidence, evidenceGate},
    GateRow{Gate::kCeiling, ceilingGate},
    GateRow{Gate::kRules, rulesGate},
    GateRow{Gate::kProtectedPaths, protectedPathsGate},
    GateRow{Gate::kHazards, hazardsGate},
    GateRow{Gate::kTests, testsGate},
    GateRow{Gate::kRisk, riskGate},
    GateRow{Gate::kBudget, budgetGate},
    GateRow{Gate::kAlone, aloneGate},
    GateRow{Gate::kSteps, stepsGate},
    GateRow{Gate::kApprovals, approvalsGate},
};

bool anyClosed(const Decision& decision, std::optional<NextStep> instead, bool needsPerson) {
    return std::any_of(decision.gates.begin(), decision.gates.end(), [&](const GateAnswer& answer) {
        return answer.state == GateState::kClosed && answer.instead == instead && answer.needsPerson == needsPerson;
    });
}

/// Ends first; then what only time or somebody else opens; then work that proves; people last, when the proof is there.
NextStep stepOf(const Decision& decision) {
    for (const NextStep end : {NextStep::kSupersede, NextStep::kStale})
        if (anyClosed(decision, end, false)) return end;
    if (anyClosed(decision, std::nullopt, false)) return NextStep::kWait;
    for (const NextStep work : {NextStep::kMerge, NextStep::kCheck})
        if (anyClosed(decision, work, false)) return work;
    return anyClosed(decision, std::nullopt, true) ? NextStep::kWait : NextStep::kApply;
}

/// People are asked only for what then goes ahead.
void markAsked(Decision& decision) {
    const bool othersPass = std::none_of(decision.gates.begin(), decision.gates.end(), [](const GateAnswer& answer) {
        return answer.state == GateState::kClosed && !answer.needsPerson;
    });
    for (GateAnswer& answer : decision.gates) answer.ask = answer.needsPerson && othersPass;
}

std::optional<Time> earliest(const std::vector<GateAnswer>& gates) {
    std::optional<Time> next;
    for (const GateAnswer& answer : gates)
        if (answer.next && (!next || *answer.next < *next)) next = answer.next;
    return next;
}

/// When it ended at the last of the gates that it is a yes to; nothing: it helps at one, or none asks for it.
std::optional<Time> expiryOf(std::int64_t approval, const std::vector<GateAnswer>& gates) {
    std::optional<Time> latest;
    for (const GateAnswer& gate : gates)
        for (const ApprovalUse& use : gate.uses) {
            if (use.approval != approval) continue;
            if (!use.lapsed) return std::nullopt;
            latest = std::max(latest.value_or(use.until), use.until);
        }
    return latest;
}

ApprovalAnswer answerTo(const ApprovalFact& approval, const GateInput& input, const std::vector<GateAnswer>& gates) {
    ApprovalAnswer answer{.id = approval.id, .counts = true, .why = {}, .by = approval.by, .at = approval.at};
    answer.why = whyItDoesNotCount(input.facts, approval);
    if (answer.why.empty()) answer.expired = expiryOf(approval.id, gates);
    if (answer.expired) answer.why = fmt::format("expired {}, and can be given again", minuteText(*answer.expired));
    answer.counts = answer.why.empty();
    return answer;
}

}  // namespace

const GateAnswer& Decision::at(Gate gate) const {
    return *std::find_if(gates.begin(), gates.end(), [&](const GateAnswer& answer) { return answer.gate == gate; });
}

bool Decision::asks() const {
    return std::any_of(gates.begin(), gates.end(), [](const GateAnswer& answer) { return answer.ask; });
}

Decision decide(const Facts& facts, const Stage& stage, const Pipeline& pipeline, const Zones& zones, Time now) {
    const GateInput input{facts, stage, pipeline, zones, now};
    Decision decision;
    for (const GateRow& row : kTable) {
        decision.gates.push_back(row.answer(input));
        applyOverride(input, decision.gates.back());
    }
    for (const ApprovalFact& approval : facts.approvals)
        decision.approvals.push_back(answerTo(approval, input, decision.gates));
    markAsked(decision);
    decision.step = stepOf(decision);
    decision.next = earliest(decision.gates);
    return decision;
}

Decision decideRollback(const Facts& /*facts*/) {
    Decision decision;
    for (const auto& row : kGates) decision.gates.push_back(notApplicable(row.value, "going back is always allowed"));
    decision.step = NextStep::kApply;
    return decision;
}

}  // namespace gradus
