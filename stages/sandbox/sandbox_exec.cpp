// Commands in kept sandboxes.

#include <fcntl.h>

#include <algorithm>

#include "stages/sandbox/proofs.h"
#include "stages/sandbox/sandbox_run.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

// A lifetime that ends during the run ends the run.
Limits withinLifetime(Limits limits, Milliseconds lifetime) {
    auto& wall = limits[LimitName::kWallTime];
    const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(lifetime.count(), 1));
    if (!wall || wall->value > most) wall = Limit{most, true};
    return limits;
}

void useLayers(const Layers& layers, const HeldSandbox& held, const Sandboxes::Inside::Ground& ground,
               CloneRequest& clone) {
    clone.upper = layers.upper(held.record.layer);
    clone.work = layers.work(held.record.layer);
    for (std::size_t i = 1; i < held.chain.size(); ++i) clone.lowers.push_back(layers.upper(held.chain[i].id));
    if (!clone.lowers.empty() || ground.stands) clone.lowers.push_back(ground.base);
}

// What belongs to the project and lies elsewhere has its part in every layer that was written to.
void usePart(const Layers& layers, const HeldSandbox& held, const fs::path& name, Overlay& overlay) {
    std::vector<fs::path> lowers;
    FileDescriptor model;
    for (std::size_t i = 1; i < held.chain.size(); ++i)
        if (auto part = layers.open(held.chain[i].id, Layers::Access::kRead).part(name)) {
            lowers.push_back(layers.part(held.chain[i].id, name) / "upper");
            if (!model) model = std::move(*part);
        }
    lowers.insert(lowers.end(), overlay.lowers.begin(), overlay.lowers.end());
    if (!model) model = openFile(overlay.lowers.front(), O_RDONLY | O_DIRECTORY);
    layers.makePart(held.record.layer, name, model);
    const fs::path own = layers.part(held.record.layer, name);
    overlay.lowers = std::move(lowers);
    overlay.upper = own / "upper";
    overlay.work = own / "work";
}

// The sandbox's own layer is written to; the ones below are shared and only read.
void useImages(const Layers& layers, const HeldSandbox& held, Workspace& workspace) {
    for (const LayerRecord& layer : held.chain)
        if (auto image = layers.imageOf(layer.id)) {
            image->readOnly = layer.id != held.record.layer;
            workspace.images.push_back(std::move(*image));
        }
    workspace.boundedUppers = layers.imageOf(held.record.layer).has_value();
}

// What earlier layers hold counts as well.
void addBelow(std::uint64_t bytes, ExecutionReport& report) {
    for (LimitReport& limit : report.execution.limits)
        if (limit.name == LimitName::kDisk && limit.peak) *limit.peak += bytes;
}

}  // namespace

ExecutionReport Sandboxes::exec(std::int64_t sandbox, const CommandRequest& wanted, const Patience& patience) {
    CommandRequest command = wanted;
    command.system = inside_->living(sandbox).system;
    const Confiner confiner = inside_->confinerFor(command);
    HeldSandbox held = inside_->hold(sandbox, patience);
    inside_->requireUnexpired(held.record);
    inside_->useStandingLimit(held, command.limits);
    Limits limits = insisted(command);
    const std::optional<std::uint64_t> bound = inside_->boundLayers(held, command, limits);
    CloneRequest clone = inside_->cloneRequest(held.project.path, command);
    useLayers(inside_->layers(), held, inside_->groundOf(held), clone);
    ClonePlan plan = planClone(clone);
    // A sync of the whole file system after every command would take as long as others keep the disk busy.
    plan.workspace.overlays.at(plan.projectOverlay).disposable = true;
    for (const std::size_t part : plan.alsoKept) {
        Overlay& overlay = plan.workspace.overlays.at(part);
        usePart(inside_->layers(), held, overlay.target, overlay);
    }
    ServicesAround services(*inside_, command, clone, plan,
                            [&] { return inside_->treeOf(held, Layers::Access::kRead).tree; });
    for (const auto& [part, name] : services.parts())
        usePart(inside_->layers(), held, name, plan.workspace.overlays.at(part));
    useImages(inside_->layers(), held, plan.workspace);
    // Killed, we let go of the lock at once, but what runs inside takes a moment to end: it holds the lock as well.
    plan.workspace.held = held.lock.descriptor();
    inside_->layers().renewWork(held.record.layer);

    std::int64_t execution = 0;
    const ProcessIdentity me = inside_->me();
    inside_->write([&](SandboxWriter& writer, Writer&) {
        execution = writer.start(draftOf(confiner, me, command, plan, sandbox));
    });
    std::unique_ptr<Sandbox> open;
    Unfinished unfinished([this](const auto& work) { inside_->write(work); },
                          [&, failed = inside_->notRun(confiner, command, execution, sandbox)](SandboxWriter& writer) {
                              if (open) return writer.lose({execution, sandbox, me});
                              writer.finish(failed);
                          });
    open = confiner.backend.open(plan.workspace, withinLifetime(limits, held.record.lifetime), command.network,
                                 plan.identity);
    Command words = commandFrom(command, plan, sandbox);
    words.started = [&](pid_t init) { held.lock.note(init); };
    ExecutionReport report = inside_->reportOf(services.run(*open, words), confiner, command, execution, sandbox);
    open->close();
    if (bound) addBelow(*bound, report);
    notePlan(command, clone, plan, report);
    services.addTo(report);
    unfinished.isFinished();
    inside_->recordEnd([&](SandboxWriter& writer, Writer&) { writer.finish(report.execution); }, report);
    return report;
}

}  // namespace gradus
