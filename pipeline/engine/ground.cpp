#include "pipeline/engine/ground.h"

#include <algorithm>

#include "pipeline/engine/drive.h"
#include "stages/drivers/target_lock.h"
#include "store/audit_query.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::int64_t kLookedBack = 100;

bool isFromWorkTree(Store& store, std::int64_t change) {
    const auto submitted =
        queryEvents(store.sql(), {.kind = EventKind::kChangeSubmitted, .change = change, .limit = 1});
    return !submitted.empty() && submitted.front().fields.has("from");
}

void addStates(const ChangeSet& changes, EarlierStates& states) {
    for (const PathChange& change : changes.changes()) states[change.path].push_back(change.after);
}

// The files of a work tree go from one submission to the next, as long as the commit below is the same.
void addFromWorkTree(const EngineProject& project, const EngineParts& parts, const Change& change,
                     EarlierStates& states) {
    const Records& records = parts.store.records();
    const auto first = records.change(change.id, 1);
    if (!first || !isFromWorkTree(parts.store, change.id)) return;
    for (const Change& other : records.changes(project.id, kLookedBack)) {
        const auto begun = other.id < change.id ? records.change(other.id, 1) : std::nullopt;
        if (begun && begun->base == first->base && isFromWorkTree(parts.store, other.id))
            addStates(readChanges(parts.objects, begun->changeSet), states);
    }
}

EarlierStates earlierStates(const EngineProject& project, const EngineParts& parts, const Change& change) {
    EarlierStates states;
    for (std::int64_t revision = change.revision - 1; revision > 0; --revision)
        if (const auto earlier = parts.store.records().change(change.id, revision))
            addStates(readChanges(parts.objects, earlier->changeSet), states);
    addFromWorkTree(project, parts, change, states);
    return states;
}

std::string holding(const Records& records, const StageState& state) {
    if (!state.promotion) return "what was adopted";
    const auto promotion = records.promotion(*state.promotion);
    return fmt::format("{} ({})", promotion ? changeHandle(promotion->change) : "something",
                       promotionHandle(*state.promotion));
}

/// Only where the change did not merge without them: elsewhere nobody asked what its author had in between.
EarlierStates statesFor(const std::vector<MergeConflict>& conflicts, EarlierStates states) {
    const auto meet = [](const std::string& a, const std::string& b) {
        return a == b || b.starts_with(a + "/") || a.starts_with(b + "/");
    };
    std::erase_if(states, [&](const auto& state) {
        return std::ranges::none_of(conflicts, [&](const MergeConflict& one) { return meet(one.path, state.first); });
    });
    return states;
}

}  // namespace

bool areOutdated(const EngineProject& project, const Records& records) {
    const auto now = records.trustedRules(project.id);
    return now && project.trusted != now->files;
}

void requireNewestState(const EngineProject& project, const EngineParts& parts) {
    const std::string store = parts.store.storeId();
    const std::int64_t newest = parts.store.records().counts().promotions;
    for (const Stage& stage : project.pipeline.stages) {
        std::optional<TargetClaim> claim;
        std::filesystem::path marker;
        try {
            marker = parts.driver(stage, {})->identity().marker;
            if (!marker.empty()) claim = TargetLock::claimOf(marker);
        } catch (const Error&) {
            continue;  // whoever enters that stage is told
        }
        if (!claim || claim->store != store || claim->promotion <= newest) continue;
        throw Error(
            ErrorCode::kDamaged,
            "stage {} was last written by {}, and this state directory knows no promotion after {}: {} is older "
            "than the target",
            stage.name, promotionHandle(claim->promotion), promotionHandle(newest), parts.state.root.native())
            .hint(fmt::format("put the newest copy of {} back; if there is none, look at what {} holds, then "
                              "`rm {}` and `gradus adopt {}`",
                              parts.state.root.native(), stage.name, marker.native(), stage.name));
    }
}

bool hasTarget(const EngineParts& parts, const Stage& stage) {
    return !parts.driver(stage, {})->identity().marker.empty();
}

bool isWhatStands(const Records& records, const StageState& holds, std::int64_t promotion) {
    if (!holds.stuck) return holds.promotion == promotion;
    const auto stuck = records.promotion(*holds.stuck);
    return *holds.stuck == promotion || (stuck && stuck->undoes == promotion);
}

void requireNotClosedTo(const Records& records, const StageState& holds, const Promotion& promotion) {
    if (!holds.stuck || isWhatStands(records, holds, promotion.id)) return;
    throw Error(ErrorCode::kNotAllowed, "{} is stuck at {}, so {} stays as it is", promotion.stage,
                promotionHandle(*holds.stuck), promotionHandle(promotion.id))
        .hint(fmt::format("first gradus rollback {}", promotionHandle(*holds.stuck)));
}

MergeResult putOnto(const TreeReader& now, const EngineProject& project, const EngineParts& parts,
                    const Change& change) {
    const ChangeSet wanted = readChanges(parts.objects, change.changeSet);
    MergeResult merge = mergeOnto(wanted, now, parts.objects);
    if (merge.conflicts.empty()) return merge;
    const EarlierStates states = statesFor(merge.conflicts, earlierStates(project, parts, change));
    return states.empty() ? merge : mergeOnto(wanted, now, parts.objects, states);
}

void requireTargetOf(const Promotion& promotion, const StageDriver& driver) {
    const TargetIdentity now = driver.identity();
    if (!promotion.target || now.isNamedBy(*promotion.target)) return;
    throw Error(ErrorCode::kNotAllowed, "{} went into another target of {} than the rules name now: {}, not {}",
                promotionHandle(promotion.id), promotion.stage, *promotion.target, now.canonical)
        .hint(fmt::format(
            "bring the old driver and path back into gradus.toml and run `gradus trust`; or take what is at "
            "the new one as what the stage holds: gradus adopt {}",
            promotion.stage));
}

void requireNoneHalfWay(const EngineProject& project, const EngineParts& parts, const std::string& stage,
                        const TargetClaim& found) {
    if (found.store != parts.store.storeId()) return;
    const Records& records = parts.store.records();
    const auto other = records.promotion(found.promotion);
    // The stage's own is recovered by its project, before anything else comes in.
    if (!other || (other->project == project.id && other->stage == stage)) return;
    const bool isHalfWay = other->state == PromotionState::kApplying || other->state == PromotionState::kRollingBack;
    if (!isHalfWay || SandboxLock::holder(drivingLock(parts.state, other->id))) return;
    const std::string path = records.project(other->project).value_or(ProjectIdentity()).path;
    throw Error(ErrorCode::kNotAllowed,
                "promotion {} of {} stopped half-way in this target, or in the one it was copied from",
                promotionHandle(other->id), printable(path))
        .hint(fmt::format("finish it there first: cd '{}' && gradus recover", printable(path)));
}

void requireTarget(const EngineProject& project, const Records& records, const Stage& stage,
                   const StageDriver& driver) {
    const StageState state = records.stageState(project.id, stage.name);
    if (!state.promotion) return;
    if (const auto promotion = records.promotion(*state.promotion)) requireTargetOf(*promotion, driver);
}

// `there` was read before: whoever is at work between the two is seen here, or has put both in order.
std::optional<Conflict> strayedFrom(const EngineProject& project, const Records& records, const Stage& stage,
                                    const StageDriver& driver, const HeldTree& there) {
    if (!driver.holdsOnlyOurs()) return std::nullopt;
    const auto active = records.atWork(project.id, stage.name);
    const StageState state = records.stageState(project.id, stage.name);
    const bool isAtWork = std::ranges::any_of(active, [](const Promotion& one) {
        return one.state != PromotionState::kQueued && one.state != PromotionState::kChecking;
    });
    if (isAtWork || state.stuck || !state.tree || *state.tree == there.digest) return std::nullopt;
    return Conflict{ConflictKind::kOtherTree, stage.name, fmt::format("what is on record, {}", holding(records, state)),
                    there.directory.native(), std::nullopt};
}

void requireThere(const EngineProject& project, const Records& records, const Stage& stage, bool isThere) {
    const StageState state = records.stageState(project.id, stage.name);
    if (isThere || (!state.promotion && !state.tree)) return;
    throw Error(ErrorCode::kNotAllowed, "{} holds {} on record, and nothing is there any more", stage.name,
                holding(records, state))
        .hint(fmt::format("put it back as it was; or say that it is gone for good, so that the stage begins anew: "
                          "gradus adopt {}",
                          stage.name));
}

}  // namespace gradus
