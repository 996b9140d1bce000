#include <fmt/format.h>

#include "policies/gate/gates.h"
#include "policies/language/duration.h"

namespace gradus {

namespace {

GateAnswer checkAgain(const GateInput& input, const std::string& reason, std::optional<Time> since) {
    GateAnswer answer = closed(Gate::kEvidence, reason, ruleOf(input, "evidence-lifetime"));
    answer.since = since;
    answer.instead = NextStep::kCheck;
    answer.unblock = {"the checks of this stage"};
    return answer;
}

}  // namespace

/// The before checks of this stage passed, under the rules in force, and not too long ago.
GateAnswer evidenceGate(const GateInput& input) {
    const auto& checked = input.facts.checked;
    if (!checked) return checkAgain(input, "the checks of this stage have not passed yet", input.facts.openedAt);
    if (checked->rules != input.facts.rules) return checkAgain(input, "it was checked under other rules", checked->at);
    const Value* lifetime = input.stage.policy.settings.find("evidence-lifetime");
    if (lifetime == nullptr) return open(Gate::kEvidence, "the checks passed");
    const Time end = checked->at + Milliseconds(lifetime->number);
    if (input.now >= end)
        return checkAgain(
            input, fmt::format("the checks passed more than {} ago", formatDuration(Milliseconds(lifetime->number))),
            end);
    GateAnswer answer = open(Gate::kEvidence, "the checks passed", lifetime->origin.text());
    answer.next = end;
    return answer;
}

}  // namespace gradus
