#include <fmt/format.h>

#include <algorithm>

#include "policies/gate/gates.h"

namespace gradus {

/// No later revision took its place, and nobody's turn at the target is before its own.
GateAnswer queueGate(const GateInput& input) {
    if (const auto& newer = input.facts.newer) {
        GateAnswer answer = closed(Gate::kQueue, fmt::format("c{}.{} took its place with p{}", newer->change,
                                                             newer->revision, newer->promotion));
        answer.since = newer->openedAt;
        answer.instead = NextStep::kSupersede;
        answer.unblock = {"nobody: it is replaced"};
        return answer;
    }
    if (input.facts.ahead.empty()) return open(Gate::kQueue, "it is its turn");
    std::vector<std::int64_t> ahead;
    for (const QueuedFact& other : input.facts.ahead) ahead.push_back(other.promotion);
    std::sort(ahead.begin(), ahead.end());
    std::vector<std::string> names;
    for (const std::int64_t promotion : ahead) names.push_back(fmt::format("p{}", promotion));
    GateAnswer answer = closed(Gate::kQueue, "before it: " + listText(names));
    answer.since = input.facts.openedAt;
    answer.unblock = {"the end of " + listText(names)};
    return answer;
}

}  // namespace gradus
