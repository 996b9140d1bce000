#include <fmt/format.h>

#include <algorithm>

#include "policies/gate/gates.h"

namespace gradus {

namespace {

constexpr std::size_t kNamedAhead = 3;

}  // namespace

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
    // How many there are is not counted: a long line is not looked through.
    std::string names;
    for (std::size_t i = 0; i < ahead.size() && i < kNamedAhead; ++i)
        names += fmt::format("{}p{}", i == 0 ? "" : ", ", ahead[i]);
    if (ahead.size() > kNamedAhead) names += " and others";
    GateAnswer answer = closed(Gate::kQueue, "before it: " + names);
    answer.since = input.facts.openedAt;
    answer.unblock = {"the end of " + names};
    return answer;
}

}  // namespace gradus
