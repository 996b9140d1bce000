#include <algorithm>
#include <array>

#include "policies/gate/consent.h"
#include "policies/gate/path_match.h"

namespace gradus {

namespace {

// What judges later changes, and what decides how git reads files. A name without '/' counts in every folder.
constexpr std::array kRulePatterns{"gradus.toml",    ".gradus/**",  ".gradus",
                                   ".gitattributes", ".gitmodules", ".lfsconfig"};

}  // namespace

/// The change leaves alone what judges changes; otherwise the rules in force judge it still, and a person answers.
GateAnswer rulesGate(const GateInput& input) {
    if (input.stage.driver == "sandbox") return notApplicable(Gate::kRules, "nothing real is touched here");
    const auto touched = matchingPaths(input.facts.change, {kRulePatterns.begin(), kRulePatterns.end()});
    if (touched.empty()) return open(Gate::kRules, "it touches no rules");
    return personGate(input, Gate::kRules, "it changes what judges changes: " + listText(touched), "built in");
}

}  // namespace gradus
