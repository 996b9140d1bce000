#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "policies/gate/consent.h"
#include "policies/gate/overrides.h"

namespace gradus {

std::string irreversibleDigest(const Stage& stage) {
    std::vector<StepPlan> steps;
    std::ranges::copy_if(stage.steps, std::back_inserter(steps), &StepPlan::irreversible);
    return steps.empty() ? "" : sha256(encodeSteps(steps)).hex();
}

namespace {

/// A person's own word for this very promotion, given with it, to exactly what would be run.
const OverrideFact* wordOf(const GateInput& input) {
    const auto& words = input.facts.overrides;
    const auto found = std::find_if(words.begin(), words.end(), [&](const OverrideFact& word) {
        return word.promotion == input.facts.promotion && word.gate == nameOf(kGates, Gate::kSteps) &&
               whyNotOverridden(input, Gate::kSteps, word).empty();
    });
    return found == words.end() ? nullptr : &*found;
}

std::string irreversibleSteps(const Stage& stage) {
    std::vector<std::string> names;
    for (const StepPlan& step : stage.steps)
        if (step.irreversible) names.push_back(step.name);
    return listText(names);
}

}  // namespace

/// What cannot be taken back runs on a person's word: one who approves, or who promotes and says so.
GateAnswer stepsGate(const GateInput& input) {
    const std::string names = irreversibleSteps(input.stage);
    if (names.empty()) return notApplicable(Gate::kSteps, "everything can be taken back");
    const Value* rule = input.stage.settings.find("step");
    const std::string where = rule == nullptr ? "" : rule->origin.text();
    const std::string reason = fmt::format("what {} does cannot be taken back", names);
    if (const OverrideFact* word = wordOf(input))
        return open(Gate::kSteps,
                    fmt::format("{}; {} consented{}", reason, actorText(word->by), inBrackets(word->reason)), where);
    GateAnswer answer = consentGate(input, Gate::kSteps, reason, where, ": needs a person");
    if (answer.needsPerson) answer.unblock.emplace_back("a person who promotes it with --irreversible REASON");
    return answer;
}

}  // namespace gradus
