#include "policies/gate/overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "policies/gate/consent.h"

namespace gradus {

namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool asksForConsent(Gate gate) { return gate >= Gate::kCeiling; }

bool counts(const GateInput& input, Gate gate, const OverrideFact& fact) {
    if (fact.promotion != input.facts.promotion || fact.gate != nameOf(kGates, gate)) return false;
    if (fact.by.kind != ActorKind::kPerson || !contains(fact.roles, kOverrideRole)) return false;
    return !(asksForConsent(gate) && isMaker(input.facts, fact.by));
}

/// The earliest that counts.
const OverrideFact* overrideOf(const GateInput& input, Gate gate) {
    if (!contains(input.stage.policy.settings.list("overridable"), nameOf(kGates, gate))) return nullptr;
    const OverrideFact* found = nullptr;
    for (const OverrideFact& fact : input.facts.overrides)
        if (counts(input, gate, fact) && (found == nullptr || std::tie(fact.at, fact.by, fact.reason) <
                                                                  std::tie(found->at, found->by, found->reason)))
            found = &fact;
    return found;
}

}  // namespace

void applyOverride(const GateInput& input, GateAnswer& answer) {
    const OverrideFact* found = overrideOf(input, answer.gate);
    if (found == nullptr || answer.instead) return;
    answer.next.reset();  // Whatever comes, it stays open.
    if (answer.state != GateState::kClosed) return;
    answer = open(answer.gate,
                  fmt::format("{}; overridden by {}{}", answer.reason, actorText(found->by), inBrackets(found->reason)),
                  answer.rule);
    answer.overriddenBy = found->by.name;
}

}  // namespace gradus
