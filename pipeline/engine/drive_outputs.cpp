#include <algorithm>

#include "pipeline/engine/built.h"
#include "pipeline/engine/drive.h"
#include "pipeline/engine/ground.h"
#include "stages/changes/source_tree.h"
#include "stages/changes/work_tree.h"
#include "store/model/error.h"

namespace gradus {

namespace {

bool contains(const std::vector<Guarantee>& all, Guarantee guarantee) {
    return std::find(all.begin(), all.end(), guarantee) != all.end();
}

bool isDirectory(const PathChange& change) { return change.after->type == EntryType::kDirectory; }

bool isWhole(const Objects& objects, const Digest& outputs) {
    if (!objects.contains(outputs)) return false;
    const ChangeSet built = readChanges(objects, outputs);
    return std::all_of(built.changes().begin(), built.changes().end(), [&](const PathChange& change) {
        return isDirectory(change) || objects.contains(change.after->digest);
    });
}

}  // namespace

ChangeSet Drive::outputsOf(const std::vector<CheckReport>& reports) const {
    std::vector<Digest> built;
    for (const CheckReport& report : reports)
        if (const auto outputs = report.outputs(); outputs && report.answer.verdict == Cause::kPassed)
            built.push_back(*outputs);
    return builtTogether(parts_.objects, built, stage_.name);
}

bool Drive::isLive(const Footing& footing) const {
    std::error_code ignored;
    return std::filesystem::equivalent(footing.directory(), project_.root, ignored);
}

// What the driver knows of its own tree is not read again; of the project, what git ignores is no part of it.
const Manifest& Drive::sourceOf(const Footing& footing) {
    if (source_) return *source_;
    if (footing.held) source_ = target_->source();
    if (source_) return *source_;
    if (isLive(footing))
        source_ = workTreeFiles({.project = project_.root, .cache = parts_.state.treeCache(project_.root)});
    else
        source_ = filesIn(footing.directory(), footing.seed ? footing.seed->leftOut : footing.outputs());
    return *source_;
}

std::optional<EarlierProof> Drive::builtBefore(const Digest& builtOf, const std::vector<Guarantee>& demanded) const {
    const Records& records = parts_.store.records();
    auto proof = records.builtBefore(project_.id, builtOf);
    if (!proof || !proof->result.outputs || !isWhole(parts_.objects, *proof->result.outputs)) return std::nullopt;
    // Built where less was guaranteed than is demanded here: it is built again.
    const auto run = proof->result.execution ? records.sandboxes().execution(*proof->result.execution) : std::nullopt;
    const bool isEnough = std::all_of(demanded.begin(), demanded.end(),
                                      [&](Guarantee guarantee) { return run && contains(run->guarantees, guarantee); });
    return isEnough ? proof : std::nullopt;
}

void Drive::addOutputs(TreeUnderTest& tree, const Footing& footing) {
    tree.source = [this, &footing] {
        // Where people work it is another one at every look.
        if (isLive(footing)) source_.reset();
        return sourceDigest(sourceOf(footing), footing.changes);
    };
    tree.leftOver = [this, &footing](const std::vector<std::string>& patterns) {
        return leftOvers(footing.directory(), OutputPatterns(patterns), sourceOf(footing));
    };
    tree.asksAll = asksAll_;
    tree.built = [this](const Digest& builtOf, const std::vector<Guarantee>& demanded) {
        return builtBefore(builtOf, demanded);
    };
}

}  // namespace gradus
