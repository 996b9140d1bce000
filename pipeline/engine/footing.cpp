#include <algorithm>
#include <set>

#include "pipeline/engine/drive.h"
#include "pipeline/engine/ground.h"
#include "pipeline/engine/verified.h"
#include "stages/changes/change_sources.h"
#include "stages/changes/source_tree.h"
#include "store/model/canonical.h"
#include "store/model/error.h"

namespace gradus {

namespace {

/// The identity of the patch stays: it is the same change on other ground.
Submission onNewGround(const Change& change, const Digest& changeSet, const Digest& base) {
    return {changeSet,     base,           change.patch,   change.title.value_or(""),
            change.labels, change.sponsor, change.message, change.author};
}

constexpr std::size_t kMostLookedAt = 50;

bool touches(const ChangeSet& changes, const std::vector<MergeConflict>& conflicts) {
    return std::ranges::any_of(changes.changes(), [&](const PathChange& change) {
        return std::ranges::find(conflicts, change.path, &MergeConflict::path) != conflicts.end();
    });
}

/// What cannot be read is not the same.
bool isSameAt(const std::string& path, const TreeReader& one, const TreeReader& other) {
    try {
        const auto a = one.at(path);
        const auto b = other.at(path);
        return a.has_value() == b.has_value() && (!a || (a->type == b->type && a->digest == b->digest));
    } catch (const Error&) {
        return false;
    }
}

template <typename Look>
auto timed(const EngineProgress& progress, const std::string& stage, const Look& look) {
    const auto began = std::chrono::steady_clock::now();
    auto seen = look();
    progress.looked(stage, std::chrono::steady_clock::now() - began);
    return seen;
}

}  // namespace

std::optional<HeldTree> Drive::heldNow() const {
    return timed(progress_, stage_.name, [&] { return target_->held(); });
}

Seed Drive::seedOf(const Change& change) const {
    return timed(progress_, stage_.name, [&] { return parts_.seed(change); });
}

Digest Footing::tree() const {
    return Canonical("gradus.resulting-tree.1").digest(base()).digest(changes.digest()).hash();
}

Footing Drive::look(std::int64_t change) {
    Footing footing;
    const auto row = parts_.store.records().change(change);
    if (!row) throw Error(ErrorCode::kNotFound, "there is no change c{}", change);
    footing.change = *row;
    requireTarget(project_, parts_.store.records(), stage_, *target_);
    requireFreeTarget();
    footing.held = heldNow();
    requireThere(project_, parts_.store.records(), stage_, footing.held.has_value());
    if (!footing.held) footing.seed = seedOf(*row);
    if (footing.seed) report_.notes.insert(report_.notes.end(), footing.seed->notes.begin(), footing.seed->notes.end());
    const DirectoryReader whole(footing.directory());
    footing.merge = putOnto(PartialReader(whole, footing.outputs()), project_, parts_, *row);
    footing.changes = footing.merge.merged;
    report_.mergeConflicts = footing.merge.conflicts;
    return footing;
}

std::vector<std::int64_t> Drive::missingFor(const Footing& footing) const {
    const auto& stages = project_.pipeline.stages;
    const auto here = std::ranges::find(stages, stage_.name, &Stage::name);
    if (here == stages.begin() || !hasTarget(parts_, *std::prev(here))) return {};
    const Records& records = parts_.store.records();
    std::set<std::int64_t> missing;
    for (const Promotion& promotion : records.promotionsIn(project_.id, std::prev(here)->name, kMostLookedAt)) {
        const std::int64_t change = promotion.change;
        if (change == footing.change.id || missing.contains(change)) continue;
        if (!standingIn(project_, records, change, promotion.stage)) continue;
        if (standingIn(project_, records, change, stage_.name)) continue;
        if (touches(readChanges(parts_.objects, records.change(change)->changeSet), footing.merge.conflicts))
            missing.insert(change);
    }
    return {missing.begin(), missing.end()};
}

std::vector<std::filesystem::path> Drive::apartFrom(const Footing& footing) const {
    std::vector<std::filesystem::path> apart;
    const std::filesystem::path directory = footing.directory();
    if (directory == project_.root) return apart;
    const DirectoryReader here(project_.root);
    const DirectoryReader there(directory);
    for (const MergeConflict& conflict : footing.merge.conflicts)
        if (!isSameAt(conflict.path, here, there)) apart.push_back(directory / conflict.path);
    return apart;
}

// A merge is a new revision: what is checked and applied is named by what it is, not by what it was made from. What
// this stage has already is still part of it: the next one may not.
void Drive::revise(Footing& footing) {
    if (footing.merge.mergedPaths.empty()) return;
    const DirectoryReader whole(footing.directory());
    const ChangeSet kept = withContents(footing.merge.whole, PartialReader(whole, footing.outputs()), parts_.objects);
    const Digest changeSet = parts_.objects.put(kept.encode());
    const Digest base = parts_.objects.put(BaseFingerprint{{}, footing.base()}.encode());
    parts_.store.write([&](Writer& writer) {
        writer.revise(footing.change.id, writer.actor(parts_.actor), onNewGround(footing.change, changeSet, base));
    });
    footing.change = *parts_.store.records().change(footing.change.id);
}

}  // namespace gradus
