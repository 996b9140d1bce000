#include "pipeline/engine/way_back.h"

#include "pipeline/engine/step_words.h"
#include "store/model/error.h"

namespace gradus {

namespace {

/// What was said about a step was said of the promotion that was named.
UndoWish wishForRest(const UndoWish& wish) { return {.insist = wish.insist, .words = {}}; }

}  // namespace

std::vector<Promotion> goesWith(const Records& records, const Promotion& promotion) {
    std::vector<Promotion> rest;
    auto above = promotion.undoes ? records.promotion(*promotion.undoes) : std::optional(promotion);
    while (above && above->previous) {
        const auto below = records.promotion(*above->previous);
        const bool isSame = below && below->change == above->change && below->revision == above->revision &&
                            below->state == PromotionState::kPromoted && below->checkpoint;
        if (!isSame) break;
        rest.push_back(*below);
        above = below;
    }
    return rest;
}

void requireRestTakeable(const EngineParts& parts, const StageDriver& target, const Promotion& promotion,
                         const UndoWish& wish) {
    for (const Promotion& below : goesWith(parts.store.records(), promotion)) {
        requireStepsTakeable(parts, below, wishForRest(wish));
        requireWayBack(target, parts.objects, below);
    }
}

void takeOutRest(const EngineProject& project, EngineParts& parts, const Stage& stage, const Promotion& promotion,
                 const std::optional<Drive::Failure>& failure, const UndoWish& wish, const EngineProgress& progress,
                 StageReport& report) {
    for (const Promotion& below : goesWith(parts.store.records(), promotion)) {
        try {
            report.also.push_back(Drive(project, parts, stage, progress, {}).undo(below, failure, wishForRest(wish)));
        } catch (const Error& e) {
            report.also.push_back({.promotion = below, .reason = e.what(), .fault = e});
        }
        if (!report.also.back().isOut()) return;
    }
}

StageReport takeOut(const EngineProject& project, EngineParts& parts, const Stage& stage, const Promotion& promotion,
                    const Drive::Failure& failure, const EngineProgress& progress) {
    // Each is driven by itself: what drives has the target's lock.
    StageReport report = Drive(project, parts, stage, progress, {}).undo(promotion, failure);
    if (report.isOut()) takeOutRest(project, parts, stage, promotion, failure, {}, progress, report);
    return report;
}

}  // namespace gradus
