#include "policies/gate/consent.h"
#include "policies/gate/path_match.h"

namespace gradus {

/// The change touches no path of `protected-paths`, or a person answers for it.
GateAnswer protectedPathsGate(const GateInput& input) {
    const auto patterns = input.stage.policy.settings.list("protected-paths");
    if (patterns.empty()) return notApplicable(Gate::kProtectedPaths, "the policy protects no path");
    const std::string rule = ruleOf(input, "protected-paths");
    const auto touched = matchingPaths(input.facts.change, patterns);
    if (touched.empty()) return open(Gate::kProtectedPaths, "it touches no protected path", rule);
    return personGate(input, Gate::kProtectedPaths, "it touches protected paths: " + listText(touched), rule);
}

}  // namespace gradus
