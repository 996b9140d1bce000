#include <fmt/format.h>

#include <algorithm>

#include "policies/gate/consent.h"

namespace gradus {

namespace {

/// The actors, of those who made and who promotes it, whose kind may not come alone; sorted, each once.
std::vector<std::string> notAlone(const GateInput& input, const std::vector<std::string>& kinds) {
    std::vector<Actor> actors{input.facts.promoter};
    for (const Maker& maker : input.facts.change.makers) actors.push_back(maker.actor);
    std::vector<std::string> names;
    for (const Actor& actor : actors)
        if (std::find(kinds.begin(), kinds.end(), nameOf(kActorKinds, actor.kind)) == kinds.end())
            names.push_back(actorText(actor));
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

}  // namespace

/// Everyone who made or promotes it is of a kind that may do so without another person, or another person consents. Who
/// promotes by hand what others made does so knowingly: that is a consent.
GateAnswer aloneGate(const GateInput& input) {
    const std::string rule = ruleOf(input, "alone");
    const auto kinds = input.stage.policy.settings.list("alone");
    const auto names = notAlone(input, kinds);
    if (names.empty()) return open(Gate::kAlone, "who made and promotes it may do so alone", rule);
    const Actor& promoter = input.facts.promoter;
    const bool mayBring = std::find(kinds.begin(), kinds.end(), "person") != kinds.end();
    if (mayBring && promoter.kind == ActorKind::kPerson && !isMaker(input.facts, promoter))
        return open(Gate::kAlone, fmt::format("{} brings in what {} made", actorText(promoter), listText(names)), rule);
    return consentGate(input, Gate::kAlone, fmt::format("{} may not come here alone", listText(names)), rule);
}

}  // namespace gradus
