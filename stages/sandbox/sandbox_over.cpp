// Commands over trees that do not exist yet.

#include <sys/stat.h>

#include "stages/sandbox/clone_view.h"
#include "stages/sandbox/outputs.h"
#include "stages/sandbox/proofs.h"
#include "stages/sandbox/sandbox_run.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

/// The layer of a tree that does not exist yet, for as long as a command runs over it. One that a crash leaves behind
/// goes with the record of its sandbox.
class LayerForNow {
  public:
    LayerForNow(const Layers& layers, std::int64_t layer) : layers_(layers), layer_(layer) {}
    LayerForNow(const LayerForNow&) = delete;
    LayerForNow& operator=(const LayerForNow&) = delete;
    ~LayerForNow() {
        if (stays_) return;
        try {
            layers_.remove(layer_);
        } catch (const std::exception&) {
            // `gradus gc` finds it: nothing stands on it.
        }
    }
    void stay() { stays_ = true; }
    void make(const ResultingTree& tree, const Objects& objects) const {
        struct stat owner {};
        ::stat(tree.project.c_str(), &owner);
        const fs::path& below = tree.base != nullptr ? tree.base->directory : tree.directory;
        layers_.makeFrom(layer_, {below, tree.changes, tree.leftOut, owner.st_uid, owner.st_gid}, objects);
    }

  private:
    const Layers& layers_;
    std::int64_t layer_;
    bool stays_ = false;
};

void takeOutputs(const OutputRequest& wanted, const ResultingTree& tree, Sandbox& sandbox, std::size_t overlay,
                 Objects objects, ExecutionReport& report) {
    if (wanted.patterns.empty() || report.execution.verdict != Verdict::kOk) return;
    try {
        report.outputs = collectOutputs(sandbox.upper(overlay), tree, wanted, objects);
    } catch (const Error& e) {
        report.outputsFault = e.what();
        if (!e.hint().empty()) report.outputsFault += "; " + e.hint();
    }
}

// It ran, and the answer was no: there is something to look at. What stands on a base that several share goes with it.
bool isToBeKept(const Execution& execution, const CommandRequest& command, const ResultingTree& tree) {
    const bool isFailure = execution.verdict != Verdict::kOk && execution.verdict != Verdict::kSetupFailed;
    return isFailure && command.keepFailed.count() > 0 && !command.cancel.stop_requested() && tree.base == nullptr;
}

// A stage's target is hidden, unless it is where the tree is shown.
void showProjectAnyway(CloneRequest& clone) {
    std::erase_if(clone.hiddenPaths, [&](const fs::path& hidden) { return isWithin(clone.project, hidden); });
}

}  // namespace

ExecutionReport Sandboxes::runOver(const ResultingTree& tree, const CommandRequest& command,
                                   const OutputRequest& outputs) {
    reap();
    const Confiner confiner = inside_->confinerFor(command);
    const Limits limits = insisted(command);
    const ProjectIdentity project = identify(tree.project);
    CloneRequest clone = inside_->cloneRequest(project.path, command);
    showProjectAnyway(clone);
    SandboxDraft draft;
    draft.kind = SandboxKind::kTransient;
    draft.system = command.system;
    draft.since = fileSystemNow();
    draft.owner = inside_->me();
    SandboxRecord record;
    std::int64_t execution = 0;
    inside_->write([&](SandboxWriter& writer, Writer& all) {
        draft.project = all.project(project, all.actor(inside_->around.actor));
        record = writer.create(draft);
        execution = writer.start({record.id, *draft.owner, std::string(confiner.backend.name()), lowered(command),
                                  command.arguments, clone.directory, networkOf(command), destinationsOf(command)});
    });
    ExecutionReport report;
    report.execution = inside_->notRun(confiner, command, execution, record.id);
    LayerForNow layer(inside_->layers(), record.layer);
    std::unique_ptr<Sandbox> open;
    Unfinished unfinished([this](const auto& work) { inside_->write(work); },
                          [&, lost = false](SandboxWriter& writer) mutable {
                              lost = lost || (open && report.execution.verdict == Verdict::kSetupFailed);
                              open.reset();
                              if (lost) writer.lose({execution, record.id, *draft.owner});
                              if (!lost) writer.finish(report.execution);
                              writer.end(record.id, SandboxEnd::kFailed);
                          });
    layer.make(tree, inside_->objects());
    clone.lowers = {inside_->layers().upper(record.layer)};
    if (tree.base != nullptr) standOn(*tree.base, clone);
    if (tree.base == nullptr) clone.lowers.push_back(tree.directory);
    clone.onDisk = inside_->writesToDisk(limits);
    ClonePlan plan = planClone(clone);
    ServicesAround services(*inside_, command, clone, plan);
    if (clone.onDisk) {
        Parts parts = partsOf(plan, services);
        parts.emplace_back(plan.projectOverlay, project.path);
        useDisk(inside_->layers(), record.layer, parts, plan.workspace);
    }
    open = confiner.backend.open(plan.workspace, limits, command.network, plan.identity);
    report = inside_->reportOf(services.run(*open, commandFrom(command, plan, record.id)), confiner, command, execution,
                               record.id);
    notePlan(command, clone, plan, report);
    services.addTo(report);
    takeOutputs(outputs, tree, *open, plan.projectOverlay, inside_->objects(), report);
    unfinished.isFinished();
    if (isToBeKept(report.execution, command, tree))
        report.keptAs = inside_->keepFailed(record, tree, open->upper(plan.projectOverlay), report, command.keepFailed);
    if (report.keptAs) {
        layer.stay();
        open->close();
        inside_->tidyFailed(record);
        return report;
    }
    // Taken down while its end is recorded.
    open->beginClose();
    inside_->write([&](SandboxWriter& writer, Writer&) {
        writer.finish(report.execution);
        writer.end(record.id, SandboxEnd::kDiscarded);
    });
    open->close();
    return report;
}

}  // namespace gradus
