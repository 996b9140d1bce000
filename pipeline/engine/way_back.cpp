#include "pipeline/engine/way_back.h"

#include "pipeline/engine/ground.h"
#include "pipeline/engine/step_words.h"
#include "store/model/error.h"

namespace gradus {

namespace {

/// What was said about a step was said of the promotion that was named.
UndoWish wishForRest(const UndoWish& wish) { return {.insist = wish.insist, .words = {}}; }

bool isOut(const EngineProject& project, const EngineParts& parts, const Promotion& promotion) {
    const Records& records = parts.store.records();
    return !isWhatStands(records, records.stageState(project.id, promotion.stage), promotion.id);
}

}  // namespace

std::vector<Promotion> goesWith(const Records& records, const Promotion& promotion) {
    std::vector<Promotion> rest;
    auto above = promotion.undoes ? records.promotion(*promotion.undoes) : std::optional(promotion);
    // Whoever wrote something brought it in anew, whatever lies below on record.
    while (above && above->previous && above->paths.value_or(0) == 0) {
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
    // The change is held already, for what failed.
    std::optional<Drive::Failure> same = failure;
    if (same) same->holds = false;
    for (const Promotion& below : goesWith(parts.store.records(), promotion)) {
        try {
            report.also.push_back(Drive(project, parts, stage, progress, {}).undo(below, same, wishForRest(wish)));
        } catch (const Error& e) {
            // Whoever recovered meanwhile took it out.
            if (isOut(project, parts, below)) continue;
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

StageReport goOnOut(const EngineProject& project, EngineParts& parts, const Stage& stage, const Promotion& left,
                    const EngineProgress& progress) {
    return takeOut(project, parts, stage, left,
                   {Cause::kErrored, "the process that took the change out ended before all of it was out"}, progress);
}

}  // namespace gradus
