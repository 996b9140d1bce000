#include <fmt/format.h>

#include "policies/gate/gates.h"

namespace gradus {

/// The stage is wholly in one state: no rollback got stuck in it.
GateAnswer quarantineGate(const GateInput& input) {
    const auto& stuck = input.facts.stuck;
    if (!stuck) return open(Gate::kQuarantine, "the stage is in a known state");
    GateAnswer answer = closed(Gate::kQuarantine, fmt::format("the rollback of p{} got stuck here", stuck->promotion));
    answer.since = stuck->at;
    answer.unblock = {"any person, by putting the target right"};
    return answer;
}

}  // namespace gradus
