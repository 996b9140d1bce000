#include "pipeline/engine/by_hand.h"

#include <algorithm>

namespace gradus {

bool isTakenBackByHand(const Stage& stage) { return stage.policy.settings.text("rollback") == "manual"; }

std::optional<std::string> saidNo(const Records& records, const Promotion& promotion) {
    const auto results = records.checkResults(promotion.id);
    const auto no = std::ranges::find_if(results, [](const CheckResult& result) {
        return result.phase == CheckPhase::kAfter && result.verdict == Cause::kFailed;
    });
    return no == results.end() ? std::nullopt : std::optional(no->check);
}

std::optional<std::string> leftToAPerson(const Records& records, const Stage* stage, const Promotion& promotion) {
    const bool isLookedAt =
        promotion.state == PromotionState::kVerifying || promotion.state == PromotionState::kSoaking;
    if (stage == nullptr || !isLookedAt || promotion.undoes || !isTakenBackByHand(*stage)) return std::nullopt;
    return saidNo(records, promotion);
}

}  // namespace gradus
