#include <algorithm>

#include "pipeline/engine/check_runner.h"
#include "pipeline/service/service.h"
#include "stages/changes/merge.h"
#include "stages/changes/tree_reader.h"
#include "store/model/handle.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

const Stage& stageOf(const Pipeline& pipeline, const std::optional<std::string>& name) {
    if (!name) return pipeline.stages.front();
    if (const Stage* stage = pipeline.findStage(*name)) return *stage;
    std::string known;
    for (const Stage& stage : pipeline.stages) known += (known.empty() ? "" : ", ") + stage.name;
    throw Error(ErrorCode::kNotFound, "there is no stage '{}'", *name).hint("the stages are " + known);
}

/// Onto the work tree as it is now: what is there already is left out, what does not fit is said.
ChangeSet onto(const fs::path& project, const ChangeSet& changes, const std::string& subject, Objects& objects) {
    MergeResult merge = mergeOnto(changes, DirectoryReader(project), objects);
    if (merge.conflicts.empty()) return std::move(merge.merged);
    std::string list;
    for (const MergeConflict& conflict : merge.conflicts) list += "\n  " + conflict.path + ": " + conflict.detail;
    throw Error(ErrorCode::kNotAllowed, "{} does not fit the work tree as it is now:{}", subject, list)
        .hint("make the two agree, then check again");
}

std::vector<std::string> notRunOf(const Pipeline& pipeline, const Stage& stage, const CheckSummary& summary) {
    std::vector<std::string> names;
    for (const std::string& name : stage.checks) {
        const bool ran = std::any_of(summary.reports.begin(), summary.reports.end(),
                                     [&](const CheckReport& report) { return report.check == name; });
        if (!ran && pipeline.checks.at(name).when == CheckWhen::kBefore) names.push_back(name);
    }
    return names;
}

}  // namespace

// A change, or what a sandbox has changed by now.
std::pair<std::string, ChangeSet> Service::changesNamed(const fs::path& directory, const std::string& name,
                                                        Objects& objects) {
    if (namesChange(name)) {
        ChangeView view = viewChange(directory, name);
        return {fmt::format("{}.{}", changeHandle(view.change.id), view.change.revision), std::move(view.changes)};
    }
    const SandboxRecord record = sandbox(name);
    HarvestOptions options;
    options.keep = &objects;
    return {sandboxHandle(record.id), sandboxes().diff(record.id, options).changes};
}

CheckSummary Service::check(const fs::path& directory, const CheckWish& wish) {
    const ProjectRules project = rules(directory);
    if (project.state == RulesState::kNone)
        throw Error(ErrorCode::kNotFound, "there is no gradus.toml in {}", project.root.native())
            .hint("`gradus init` writes one");
    const Pipeline pipeline = pipelineInForce(project);
    const Stage& stage = stageOf(pipeline, wish.stage);
    Objects store = objects();
    CheckSummary summary{stage.name, "the work tree", {}, {}};
    TreeUnderTest tree;
    tree.project = projectRoot(directory);
    tree.directory = tree.project;
    tree.evidence.rules = rulesDigest(pipeline);
    tree.now = [&] { return baseNow(tree.project).digest(); };
    tree.was = tree.now();
    tree.evidence.base = tree.was;
    if (wish.on) {
        auto [subject, changes] = changesNamed(directory, *wish.on, store);
        tree.changes = onto(tree.project, changes, subject, store);
        summary.subject = std::move(subject);
    }
    tree.evidence.change = tree.changes.digest();
    CheckRunner runner({sandboxes(), store, around_.checkKinds, {}});
    summary.reports = runner.before(pipeline, stage, tree, wish.progress, wish.cancel);
    const bool moved = std::ranges::any_of(summary.reports, [](const CheckReport& report) { return report.moved; });
    // Once more, over a copy that stands still. One too large to be copied stays errored.
    if (const auto frozen = moved && !wish.cancel.stop_requested()
                                ? sandboxes().pin({.project = tree.project, .look = tree.now, .budget = {}})
                                : nullptr) {
        const Digest base = tree.now();
        if (base == tree.was) {
            tree.base = &frozen->base();
            tree.now = {};
            summary.reports = runner.before(pipeline, stage, tree, wish.progress, wish.cancel);
        }
    }
    summary.notRun = notRunOf(pipeline, stage, summary);
    return summary;
}

}  // namespace gradus
