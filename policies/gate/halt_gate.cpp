#include <fmt/format.h>

#include "policies/gate/gates.h"

namespace gradus {

/// Nobody stopped everything.
GateAnswer haltGate(const GateInput& input) {
    const auto& halt = input.facts.halt;
    if (!halt) return open(Gate::kHalt, "work goes on");
    GateAnswer answer = closed(Gate::kHalt, fmt::format("{}halted by {}{}", halt->everywhere ? "everything is " : "",
                                                        actorText(halt->by), inBrackets(halt->reason)));
    answer.since = halt->at;
    answer.everywhere = halt->everywhere;
    answer.unblock = {halt->everywhere ? "any person, by resume --everywhere" : "any person, by resume"};
    return answer;
}

}  // namespace gradus
