#include <algorithm>

#include "policies/gate/consent.h"
#include "policies/gate/path_match.h"

namespace gradus {

namespace {

/// Gone or no longer a file, with fewer lines (of bytes without lines: fewer bytes), or with more places that switch a
/// test off. What a line means is not looked at.
bool isWeaker(const TouchedPath& path) {
    if (!path.wasThere) return false;
    const bool hasLines = path.added >= 0 && path.removed >= 0;
    const bool isShorter = hasLines ? path.removed > path.added : path.bytesAfter < path.bytesBefore;
    return !path.isThere || isShorter || path.moreSkips > 0;
}

}  // namespace

/// No file of `test-paths` is weaker than it was, or a person answers for it.
GateAnswer testsGate(const GateInput& input) {
    const auto patterns = input.stage.policy.settings.list("test-paths");
    if (patterns.empty()) return notApplicable(Gate::kTests, "the policy names no tests");
    ChangeFacts weaker;
    std::copy_if(input.facts.change.paths.begin(), input.facts.change.paths.end(), std::back_inserter(weaker.paths),
                 isWeaker);
    const std::string rule = ruleOf(input, "test-paths");
    const auto tests = matchingPaths(weaker, patterns);
    if (tests.empty()) return open(Gate::kTests, "it weakens no test", rule);
    return personGate(input, Gate::kTests, "it weakens tests: " + listText(tests), rule);
}

}  // namespace gradus
