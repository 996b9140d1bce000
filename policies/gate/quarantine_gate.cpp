#include <fmt/format.h>

#include "policies/gate/gates.h"

namespace gradus {

namespace {

std::string whatIsStuck(const StuckFact& stuck) {
    return (stuck.undoes ? fmt::format("p{}, the rollback of p{},", stuck.promotion, *stuck.undoes)
                         : fmt::format("p{}", stuck.promotion)) +
           " got stuck here" + (stuck.reason.empty() ? "" : ": " + stuck.reason);
}

}  // namespace

/// The stage is wholly in one state: nothing got stuck in it.
GateAnswer quarantineGate(const GateInput& input) {
    const auto& stuck = input.facts.stuck;
    if (!stuck) return open(Gate::kQuarantine, "the stage is in a known state");
    GateAnswer answer = closed(Gate::kQuarantine, whatIsStuck(*stuck));
    answer.since = stuck->at;
    answer.unblock = {"any person, by putting the target right"};
    return answer;
}

}  // namespace gradus
