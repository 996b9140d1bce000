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
    return fact.promotion == input.facts.promotion && fact.gate == nameOf(kGates, gate) &&
           whyNotOverridden(input, gate, fact).empty();
}

/// The earliest that counts.
const OverrideFact* overrideOf(const GateInput& input, const GateAnswer& answer) {
    const OverrideFact* found = nullptr;
    for (const OverrideFact& fact : input.facts.overrides)
        // What somebody said since is nothing that it was about.
        if (counts(input, answer.gate, fact) && (!answer.lastWord || *answer.lastWord <= fact.at) &&
            (found == nullptr ||
             std::tie(fact.at, fact.by, fact.reason) < std::tie(found->at, found->by, found->reason)))
            found = &fact;
    return found;
}

}  // namespace

// A gate that asks for something else by now is not the one that was opened. What older releases recorded is about
// the gate as such.
std::string overrideSubject(const GateInput& input, Gate gate) {
    return gate == Gate::kSteps ? irreversibleDigest(input.stage) : input.facts.rules.hex();
}

std::string whyNotOverridden(const GateInput& input, Gate gate, const OverrideFact& fact) {
    // Consent to what cannot be taken back is no override: the gate asks for it, and counts it itself.
    if (gate == Gate::kSteps && fact.about != irreversibleDigest(input.stage)) return "it was given for other steps";
    if (gate == Gate::kSteps) return fact.by.kind == ActorKind::kPerson ? "" : "only a person consents";
    if (!fact.about.empty() && fact.about != overrideSubject(input, gate)) return "it was given under other rules";
    if (!contains(input.stage.policy.settings.list("overridable"), nameOf(kGates, gate)))
        return "the policy does not list it in `overridable`";
    if (fact.by.kind != ActorKind::kPerson) return "only a person overrides";
    if (!contains(fact.roles, kOverrideRole))
        return fmt::format("{} has not the role '{}'", fact.by.name, kOverrideRole);
    if (asksForConsent(gate) && isMaker(input.facts, fact.by)) return "nobody consents to a change that they made";
    return {};
}

void applyOverride(const GateInput& input, GateAnswer& answer) {
    const OverrideFact* found = overrideOf(input, answer);
    if (found == nullptr || answer.instead) return;
    answer.next.reset();  // Whatever comes by itself, it stays open.
    if (answer.state != GateState::kClosed) return;
    answer = open(answer.gate,
                  fmt::format("{}; overridden by {}{}", answer.reason, actorText(found->by), inBrackets(found->reason)),
                  answer.rule);
    answer.overriddenBy = found->by.name;
}

}  // namespace gradus
