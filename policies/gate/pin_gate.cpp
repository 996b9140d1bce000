#include <fmt/format.h>

#include <tuple>

#include "policies/gate/gates.h"

namespace gradus {

namespace {

bool letsIn(const PinFact& pin, const ChangeFacts& change) {
    return pin.change == change.id && (!pin.revision || *pin.revision == change.revision);
}

bool isEarlier(const PinFact& a, const PinFact& b) {
    return std::tie(a.at, a.change, a.revision, a.by, a.reason) < std::tie(b.at, b.change, b.revision, b.by, b.reason);
}

}  // namespace

/// The stage is not pinned to another change.
GateAnswer pinGate(const GateInput& input) {
    const PinFact* found = nullptr;
    for (const PinFact& pin : input.facts.pins) {
        if (pin.stage != input.stage.name || letsIn(pin, input.facts.change)) continue;
        if (found == nullptr || isEarlier(pin, *found)) found = &pin;
    }
    if (found == nullptr) return open(Gate::kPin, "the stage is not pinned to another change");
    const std::string revision = found->revision ? fmt::format(".{}", *found->revision) : std::string();
    GateAnswer answer = closed(Gate::kPin, fmt::format("pinned to c{}{} by {}{}", found->change, revision,
                                                       actorText(found->by), inBrackets(found->reason)));
    answer.since = found->at;
    answer.lastWord = found->at;
    answer.unblock = {"any person, by unpin"};
    return answer;
}

}  // namespace gradus
