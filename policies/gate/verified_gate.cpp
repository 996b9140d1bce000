#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "policies/gate/gates.h"

namespace gradus {

namespace {

/// The last answer of that stage about this revision; of two at once the one that was taken back.
const VerifiedFact* latest(const Facts& facts, const std::string& stage) {
    const auto order = [](const VerifiedFact& fact) {
        return std::tuple(fact.promotion, fact.at, fact.revokedAt.has_value());
    };
    const VerifiedFact* found = nullptr;
    for (const VerifiedFact& fact : facts.verified) {
        if (fact.stage != stage || fact.revision != facts.change.revision) continue;
        if (found == nullptr || order(fact) > order(*found)) found = &fact;
    }
    return found;
}

GateAnswer unverified(const GateInput& input, const Stage& before, const VerifiedFact* fact) {
    const bool isRevoked = fact != nullptr;
    GateAnswer answer =
        closed(Gate::kVerified,
               isRevoked ? fmt::format("{} took its yes back{}", before.name, inBrackets(fact->revokedBecause))
                         : fmt::format("revision {} is not verified in {}", input.facts.change.revision, before.name),
               before.origin.text());
    answer.since = isRevoked ? fact->revokedAt : input.facts.openedAt;
    answer.unblock = {"promotion to " + before.name};
    return answer;
}

}  // namespace

/// Every stage before this one has verified this very revision, and none took that back.
GateAnswer verifiedGate(const GateInput& input) {
    if (input.pipeline.findStage(input.stage.name) == nullptr)
        return notApplicable(Gate::kVerified, "the stage is in no pipeline");
    std::vector<std::string> names;
    for (const Stage& before : input.pipeline.stages) {
        if (before.name == input.stage.name) break;
        const VerifiedFact* fact = latest(input.facts, before.name);
        if (fact == nullptr || fact->revokedAt) return unverified(input, before, fact);
        names.push_back(before.name);
    }
    if (names.empty()) return notApplicable(Gate::kVerified, "no stage comes before");
    return open(Gate::kVerified, "verified in " + listText(names, 32), input.stage.origin.text());
}

}  // namespace gradus
