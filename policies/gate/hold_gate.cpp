#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "policies/gate/gates.h"

namespace gradus {

namespace {

bool isAbout(const HoldFact& hold, const GateInput& input) {
    if (hold.until && input.now >= *hold.until) return false;
    if (hold.stage && *hold.stage != input.stage.name) return false;
    const bool namesChange = hold.change || hold.patch;
    const bool sameChange = hold.change == input.facts.change.id;
    const bool samePatch = hold.patch == input.facts.change.patch;
    return !namesChange || sameChange || samePatch;
}

bool binds(const HoldFact& hold, const GateInput& input) {
    return !hold.onlyMachines || input.facts.promoter.kind != ActorKind::kPerson;
}

/// The one that lasts longest, of those one that holds everybody, and of those the oldest: the same whatever the order
/// of the facts.
bool isWeightier(const HoldFact& a, const HoldFact& b) {
    const Time aUntil = a.until.value_or(Time::max());
    const Time bUntil = b.until.value_or(Time::max());
    if (aUntil != bUntil) return aUntil > bUntil;
    return std::tie(a.onlyMachines, a.at, a.by, a.reason) < std::tie(b.onlyMachines, b.at, b.by, b.reason);
}

}  // namespace

/// Nobody holds the stage, the change, or the change in this stage. After a rollback machines are held, people not.
GateAnswer holdGate(const GateInput& input) {
    const HoldFact* found = nullptr;
    const HoldFact* ignored = nullptr;
    std::optional<Time> lastWord;
    for (const HoldFact& hold : input.facts.holds) {
        if (!isAbout(hold, input)) continue;
        if (binds(hold, input)) lastWord = std::max(lastWord.value_or(hold.at), hold.at);
        const HoldFact*& kept = binds(hold, input) ? found : ignored;
        if (kept == nullptr || isWeightier(hold, *kept)) kept = &hold;
    }
    if (found == nullptr && ignored != nullptr)
        return open(Gate::kHold, fmt::format("machines are held{}; a person promotes it", inBrackets(ignored->reason)));
    if (found == nullptr) return open(Gate::kHold, "nothing holds it");
    GateAnswer answer =
        closed(Gate::kHold, fmt::format("held by {}{}", actorText(found->by), inBrackets(found->reason)));
    answer.since = found->at;
    answer.lastWord = lastWord;
    answer.next = found->until;
    answer.unblock = {found->onlyMachines ? "any person, by unhold or by promoting it by hand"
                                          : "any person, by unhold"};
    return answer;
}

}  // namespace gradus
