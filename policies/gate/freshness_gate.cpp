#include "policies/gate/gates.h"

namespace gradus {

namespace {

GateAnswer moved(const GateInput& input, const std::string& reason, NextStep instead, const std::string& who) {
    GateAnswer answer =
        closed(Gate::kFreshness, reason + inBrackets(listText(input.facts.moved.paths)), ruleOf(input, "freshness"));
    answer.since = input.facts.moved.at;
    answer.instead = instead;
    answer.unblock = {who};
    return answer;
}

/// Files moved that the change does not touch: `freshness` says what that means for what was checked.
GateAnswer unrelatedMoved(const GateInput& input) {
    const std::string freshness = input.stage.policy.settings.text("freshness");
    if (!input.facts.checked)
        return open(Gate::kFreshness, "the checks will run on what the stage holds now", ruleOf(input, "freshness"));
    if (freshness == "allow")
        return open(Gate::kFreshness, "only files moved that it does not touch", ruleOf(input, "freshness"));
    if (freshness == "exact")
        return moved(input, "files moved since it was checked", NextStep::kStale, "a new revision, by rebase");
    return moved(input, "files moved since it was checked", NextStep::kCheck, "the checks, run again");
}

}  // namespace

/// What the stage holds is what it held when the change was checked, as far as the policy cares.
GateAnswer freshnessGate(const GateInput& input) {
    switch (input.facts.moved.moved) {
        case StageMoved::kNothing:
            return open(Gate::kFreshness, "the stage holds what it held", ruleOf(input, "freshness"));
        case StageMoved::kUnrelated:
            return unrelatedMoved(input);
        case StageMoved::kTouched:
            return moved(input, "files moved that it touches", NextStep::kMerge, "a merge, then the checks");
        case StageMoved::kConflict:
            break;
    }
    return moved(input, "it conflicts with what the stage holds", NextStep::kStale, "a new revision, by rebase");
}

}  // namespace gradus
