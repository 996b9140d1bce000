#include "policies/gate/gates.h"

namespace gradus {

/// Nobody stopped everything.
GateAnswer haltGate(const GateInput& input) {
    const auto& halt = input.facts.halt;
    if (!halt) return open(Gate::kHalt, "work goes on");
    GateAnswer answer = closed(Gate::kHalt, "halted by " + actorText(halt->by) + inBrackets(halt->reason));
    answer.since = halt->at;
    answer.unblock = {"any person, by resume"};
    return answer;
}

}  // namespace gradus
