#include <algorithm>

#include "policies/gate/consent.h"

namespace gradus {

/// The change brings nothing that is not what it looks like (a link that leads out, a repository inside the
/// repository, names that look or are the same), or a person answers for it. People who made and promote it are only
/// warned.
GateAnswer hazardsGate(const GateInput& input) {
    if (input.stage.driver == "sandbox") return notApplicable(Gate::kHazards, "nothing real is touched here");
    const Settings& settings = input.stage.policy.settings;
    const std::string demand = settings.has("hazards") ? settings.text("hazards") : "person";
    std::string rule = ruleOf(input, "hazards");
    if (rule.empty()) rule = "built in";
    std::vector<std::string> hazards = input.facts.change.hazards;
    if (hazards.empty()) return open(Gate::kHazards, "everything in it is what it looks like", rule);
    std::sort(hazards.begin(), hazards.end());
    const std::string reason = "look at it first: " + listText(hazards);
    if (demand == "allow") return open(Gate::kHazards, reason + "; the policy allows it", rule);
    if (demand == "consent") return consentGate(input, Gate::kHazards, reason, rule, ": needs another person");
    return personGate(input, Gate::kHazards, reason, rule);
}

}  // namespace gradus
