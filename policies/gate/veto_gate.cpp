#include <fmt/format.h>

#include <tuple>

#include "policies/gate/gates.h"

namespace gradus {

namespace {

bool isAbout(const VetoFact& veto, const GateInput& input) {
    if (veto.stage && *veto.stage != input.stage.name) return false;
    return veto.changeSet == input.facts.change.changeSet || veto.patch == input.facts.change.patch;
}

bool isEarlier(const VetoFact& a, const VetoFact& b) {
    return std::tie(a.at, a.changeSet, a.by, a.reason) < std::tie(b.at, b.changeSet, b.by, b.reason);
}

}  // namespace

/// Nobody said no to these bytes, or to this patch on whatever base.
GateAnswer vetoGate(const GateInput& input) {
    const VetoFact* found = nullptr;
    for (const VetoFact& veto : input.facts.vetoes) {
        if (!isAbout(veto, input)) continue;
        if (found == nullptr || isEarlier(veto, *found)) found = &veto;
    }
    if (found == nullptr) return open(Gate::kVeto, "nobody said no to it");
    const bool sameBytes = found->changeSet == input.facts.change.changeSet;
    GateAnswer answer =
        closed(Gate::kVeto, fmt::format("{} said no to {}{}", actorText(found->by), sameBytes ? "it" : "the same patch",
                                        inBrackets(found->reason)));
    answer.since = found->at;
    answer.unblock = {"any person, by unveto"};
    return answer;
}

}  // namespace gradus
