// Running commands: in a transient sandbox that goes with its command, and in a kept one.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "stages/sandbox/clone_mounts.h"
#include "stages/sandbox/clone_view.h"
#include "stages/sandbox/outputs.h"
#include "stages/sandbox/proofs.h"
#include "stages/sandbox/sandboxes_inside.h"
#include "stages/sandbox/system_changes.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::optional<Digest> storeText(Objects& objects, const CapturedStream& stream) {
    if (stream.bytes == 0) return std::nullopt;
    return objects.put(stream.text());
}

void storeOutput(const Sandboxes::Surroundings& around, ExecutionReport& report) {
    if (report.out.bytes + report.err.bytes == 0) return;
    Objects objects(around.state.objects(), around.clock);
    report.execution.out = storeText(objects, report.out);
    report.execution.err = storeText(objects, report.err);
}

void notePlan(const CommandRequest& command, const CloneRequest& request, const ClonePlan& plan,
              ExecutionReport& report) {
    report.home = plan.home;
    report.notes = plan.notes;
    report.notes.insert(report.notes.end(), command.remarks.begin(), command.remarks.end());
    if (command.arguments.empty()) return;
    if (auto line = resolvesDifferently(plan, request, command.arguments.front()))
        report.notes.push_back(std::move(*line));
}

ExecutionNetwork networkOf(const CommandRequest& request) {
    if (request.network.host) return ExecutionNetwork::kHost;
    return request.network.isByName() ? ExecutionNetwork::kByName : ExecutionNetwork::kNone;
}

std::vector<std::string> destinationsOf(const CommandRequest& request) {
    std::vector<std::string> all;
    for (const Destination& destination : request.network.destinations) all.push_back(formatDestination(destination));
    return all;
}

}  // namespace

std::vector<std::pair<std::size_t, fs::path>> repositoriesIn(const ClonePlan& plan) {
    std::vector<std::pair<std::size_t, fs::path>> found;
    for (const std::size_t part : plan.alsoKept) {
        const fs::path& base = plan.workspace.overlays.at(part).lowers.back();
        if (::access((base / "HEAD").c_str(), F_OK) == 0 && ::access((base / "objects").c_str(), F_OK) == 0)
            found.emplace_back(part, base);
    }
    return found;
}

SystemChanges systemChangesIn(const ClonePlan& plan, const std::function<std::vector<int>(std::size_t)>& layers) {
    std::vector<SystemSource> sources;
    for (const std::size_t overlay : plan.system)
        sources.push_back({layers(overlay), plan.workspace.overlays.at(overlay).target});
    return systemChanges(sources, plan.workspace.seeds);
}

Command commandFrom(const CommandRequest& request, const ClonePlan& plan, std::int64_t sandbox) {
    Command command;
    command.arguments = request.arguments;
    command.environment = plan.environment;
    // What runs inside can tell where it is.
    std::erase_if(command.environment, [](const std::string& word) { return word.starts_with("GRADUS_SANDBOX="); });
    command.environment.push_back(fmt::format("GRADUS_SANDBOX=s{}", sandbox));
    command.directory = plan.directory;
    command.input = request.input;
    command.inputFrom = request.inputFrom;
    command.terminal = request.terminal;
    command.keepOut = request.keepOut;
    command.keepErr = request.keepErr;
    command.live = request.live;
    command.grace = request.grace;
    command.cancel = request.cancel;
    return command;
}

CloneRequest Sandboxes::Inside::cloneRequest(const fs::path& project, const CommandRequest& command) const {
    CloneRequest request;
    request.project = project;
    request.directory = command.directory.empty() ? project : command.directory;
    request.environment = around.environment;
    request.passed = command.passed;
    request.hide = command.hide;
    request.hiddenPaths = command.hiddenPaths;
    request.show = command.show;
    request.hiddenPaths.push_back(around.state.root);
    request.system = command.system;
    return request;
}

// Memory is what holds a size that is insisted on; what it cannot do then is in a note of the plan.
bool Sandboxes::Inside::writesToDisk(const Limits& limits) const {
    const std::optional<Limit>& disk = limits[LimitName::kDisk];
    if (disk && disk->required) return false;
    const fs::path& state = around.state.root;
    return around.onDisk.value_or(!memoryHoldsLayers() && takesUserAttributes(state) && !unfitAsUpper(state));
}

ExecutionReport Sandboxes::Inside::reportOf(Outcome outcome, const Confiner& confiner, const CommandRequest& request,
                                            std::int64_t id, std::int64_t sandbox) {
    ExecutionReport report;
    Execution& execution = report.execution;
    execution = notRun(confiner, request, id, sandbox);
    execution.guarantees = held(confiner.proofs, request, outcome);
    execution.verdict = outcome.verdict;
    execution.exitCode = outcome.exitCode;
    execution.signal = outcome.signal;
    execution.outBytes = outcome.out.bytes;
    execution.errBytes = outcome.err.bytes;
    execution.truncated = outcome.out.truncated || outcome.err.truncated;
    execution.startedAt = outcome.startedAt;
    execution.wallMillis = outcome.wallMillis;
    execution.cpuMillis = outcome.cpuMillis;
    execution.peakMemoryBytes = outcome.peakMemoryBytes;
    execution.limits = std::move(outcome.limits);
    report.out = std::move(outcome.out);
    report.err = std::move(outcome.err);
    report.failure = std::move(outcome.failure);
    report.leftBehind = outcome.leftBehind;
    execution.sideEffects = std::move(outcome.sideEffects);
    report.backendVersion = confiner.proofs.version;
    storeOutput(around, report);
    return report;
}

Execution Sandboxes::Inside::notRun(const Confiner& confiner, const CommandRequest& request, std::int64_t id,
                                    std::int64_t sandbox) {
    Execution execution;
    execution.id = id;
    execution.sandbox = sandbox;
    execution.state = ExecutionState::kFinished;
    execution.backend = confiner.backend.name();
    execution.without = lowered(request);
    execution.verdict = Verdict::kSetupFailed;
    execution.startedAt = around.clock.now();
    execution.arguments = request.arguments;
    execution.network = networkOf(request);
    execution.destinations = destinationsOf(request);
    return execution;
}

namespace {

/// Between the first commit and the last: whatever throws, the record says that it ended, and nothing else is left.
class Unfinished {
  public:
    using Write = std::function<void(const std::function<void(SandboxWriter&, Writer&)>&)>;
    Unfinished(Write write, std::function<void(SandboxWriter&)> give)
        : write_(std::move(write)), give_(std::move(give)) {}
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;
    ~Unfinished() {
        if (!give_) return;
        try {
            write_([&](SandboxWriter& writer, Writer&) { give_(writer); });
        } catch (const std::exception&) {
            // The fault that brought us here is the one to tell; the next start finds our record and ends it.
        }
    }
    void isFinished() { give_ = nullptr; }

  private:
    Write write_;
    std::function<void(SandboxWriter&)> give_;
};

ExecutionDraft draftOf(const Confiner& confiner, const ProcessIdentity& me, const CommandRequest& request,
                       const ClonePlan& plan, std::int64_t sandbox) {
    return {sandbox,
            me,
            std::string(confiner.backend.name()),
            lowered(request),
            request.arguments,
            plan.directory,
            networkOf(request),
            destinationsOf(request)};
}

/// A directory with nothing in it, for a command that is to see nothing of the caller's. Root's is nobody's.
class EmptyRoom {
  public:
    EmptyRoom() {
        char path[] = "/tmp/untrusted-XXXXXX";
        if (::mkdtemp(path) == nullptr)
            throw Error(ErrorCode::kInfrastructure, "cannot make a directory in /tmp: {}", errnoText(errno));
        path_ = path;
        constexpr uid_t kNobody = 65534;
        if (isMachineRoot() && ::chown(path, kNobody, kNobody) != 0)
            throw Error(ErrorCode::kInfrastructure, "cannot give {} away: {}", path, errnoText(errno));
    }
    EmptyRoom(const EmptyRoom&) = delete;
    EmptyRoom& operator=(const EmptyRoom&) = delete;
    ~EmptyRoom() { ::rmdir(path_.c_str()); }
    const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

void seeNothing(CloneRequest& clone, const EmptyRoom& room) {
    clone.project = room.path();
    clone.directory = room.path();
    clone.environment = [](const std::string&) { return std::optional<std::string>(); };
    clone.passed = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"};
    clone.hide.clear();
    clone.show.clear();
    clone.bare = true;
}

void useDisk(const Layers& layers, std::int64_t layer, Overlay& overlay) {
    layers.makePart(layer, overlay.target, openFile(overlay.lowers.front(), O_RDONLY | O_DIRECTORY));
    const fs::path own = layers.part(layer, overlay.target);
    overlay.upper = own / "upper";
    overlay.work = own / "work";
}

// The layer that the sandbox would have if it were kept.
void useOwnLayer(const Layers& layers, std::int64_t layer, ClonePlan& plan) {
    Overlay& project = plan.workspace.overlays.at(plan.projectOverlay);
    layers.make(layer, project.lowers.front());
    project.upper = layers.upper(layer);
    project.work = layers.work(layer);
    for (const std::size_t part : plan.alsoKept) useDisk(layers, layer, plan.workspace.overlays.at(part));
}

bool isToBeKept(Afterwards afterwards, const Harvest& harvest) {
    if (afterwards == Afterwards::kKeep) return true;
    const bool changed = !harvest.changes.changes().empty() || harvest.ignored > 0 || !harvest.refused.empty();
    const bool elsewhere = harvest.inRepository > 0 || (harvest.system && harvest.system->entries > 0);
    return afterwards != Afterwards::kDiscard && (changed || elsewhere);
}

void standOn(const StandingBase& base, CloneRequest& clone) {
    clone.lowers.insert(clone.lowers.end(), base.lowers.begin(), base.lowers.end());
    clone.lowersHaveGit = base.hasGit;
}

}  // namespace

Trial Sandboxes::attempt(const TryRequest& request) {
    checkName(request.name, "sandbox");
    reap();
    const CommandRequest& command = request.command;
    const Confiner confiner = inside_->confinerFor(command);
    const Limits limits = insisted(command);
    const ProjectIdentity project = identify(request.project);
    CloneRequest clone = inside_->cloneRequest(project.path, command);
    std::optional<MaterialisedCommit> pinned;
    if (request.commit) pinned = inside_->pinned(project.path, *request.commit);
    if (pinned) clone.lowers = {pinned->tree};
    if (request.base != nullptr) standOn(*request.base, clone);
    std::optional<EmptyRoom> room;
    if (request.untrusted) seeNothing(clone, room.emplace());
    clone.onDisk = inside_->writesToDisk(limits);
    ClonePlan plan = planClone(clone);
    ServicesAround services(*inside_, command, clone, plan);

    Trial trial(*this);
    SandboxDraft draft;
    draft.kind = SandboxKind::kTransient;
    draft.system = command.system;
    if (pinned) draft.commit = pinned->commit;
    // Should it be kept it lies on the project as it is: whoever touched a file since the copy was made comes between.
    draft.since = request.base != nullptr ? request.base->since : fileSystemNow();
    draft.owner = inside_->me();
    std::int64_t execution = 0;
    inside_->write([&](SandboxWriter& writer, Writer& all) {
        draft.project = all.project(project, all.actor(inside_->around.actor));
        trial.record_ = writer.create(draft);
        execution = writer.start(draftOf(confiner, *draft.owner, command, plan, trial.record_.id));
    });
    const std::int64_t id = trial.record_.id;
    trial.report_.execution = inside_->notRun(confiner, command, execution, id);
    Unfinished unfinished([this](const auto& work) { inside_->write(work); },
                          [&, lost = false](SandboxWriter& writer) mutable {
                              lost = trial.sandbox_ && trial.report_.execution.verdict == Verdict::kSetupFailed;
                              trial.sandbox_.reset();
                              if (lost) writer.lose({execution, id, *draft.owner});
                              if (!lost) writer.finish(trial.report_.execution);
                              writer.end(id, SandboxEnd::kFailed);
                          });
    trial.onDisk_ = clone.onDisk;
    if (clone.onDisk) useOwnLayer(inside_->layers(), trial.record_.layer, plan);
    trial.sandbox_ = confiner.backend.open(plan.workspace, limits, command.network, plan.identity);
    trial.overlay_ = plan.projectOverlay;
    for (const std::size_t part : plan.alsoKept)
        trial.parts_.emplace_back(part, plan.workspace.overlays.at(part).target);
    trial.parts_.insert(trial.parts_.end(), services.parts().begin(), services.parts().end());
    trial.report_ = inside_->reportOf(services.run(*trial.sandbox_, commandFrom(command, plan, id)), confiner, command,
                                      execution, id);
    notePlan(command, clone, plan, trial.report_);
    services.addTo(trial.report_);
    HarvestSource source;
    source.layers = {trial.sandbox_->upper(plan.projectOverlay)};
    source.base = pinned ? pinned->tree : clone.project;
    source.since = draft.since;
    source.pinned = pinned.has_value();
    if (pinned) source.repository = project.path;
    if (request.base != nullptr) {
        source.base = request.base->directory;
        source.pinned = true;
        if (!request.base->hasGit) source.repository = project.path;
    }
    source.notOurs = plan.notOurs;
    for (const auto& [part, base] : repositoriesIn(plan))
        source.repositories.push_back({{trial.sandbox_->upper(part)}, base});
    HarvestOptions options;
    options.withIgnored = request.withIgnored;
    options.keep = request.contents;
    options.maxEntries = request.mostChanges;
    try {
        trial.harvest_ = harvest(source, options);
        if (command.system)
            trial.harvest_.system =
                systemChangesIn(plan, [&](std::size_t overlay) { return std::vector{trial.sandbox_->upper(overlay)}; });
    } catch (const Error& e) {
        // What was done must not be lost with the sandbox only because it is more than can be listed.
        trial.unread_ = e.what();
    }
    unfinished.isFinished();
    settle(trial, request);
    return trial;
}

// The last commit; the caller who wants to be asked gets one of its own for the answer.
void Sandboxes::settle(Trial& trial, const TryRequest& request) {
    const bool unread = trial.unread_ && request.afterwards != Afterwards::kDiscard;
    if (!unread && !isToBeKept(request.afterwards, trial.harvest_)) return trial.end(true);
    if (request.afterwards != Afterwards::kAsk || unread) {
        trial.keepAs(request.name, request.lifetime, true);
        return;
    }
    inside_->write([&](SandboxWriter& writer, Writer&) { writer.finish(trial.report_.execution); });
}

Trial::Trial(Trial&& other) noexcept
    : owner_(other.owner_),
      sandbox_(std::move(other.sandbox_)),
      overlay_(other.overlay_),
      onDisk_(std::exchange(other.onDisk_, false)),
      parts_(std::move(other.parts_)),
      record_(std::move(other.record_)),
      report_(std::move(other.report_)),
      harvest_(std::move(other.harvest_)),
      unread_(std::move(other.unread_)),
      kept_(other.kept_) {}

Trial::~Trial() {
    try {
        discard();
        dropLayer();
    } catch (const std::exception&) {
        // Whoever starts next finds the record of a dead owner, or `gradus gc` that of a living one's; nothing is left.
    }
}

// Taken down while its end is recorded. Should we die in between, it goes on being taken down all the same.
void Trial::end(bool withExecution) {
    const std::unique_ptr<Sandbox> sandbox = std::move(sandbox_);
    sandbox->beginClose();
    owner_->inside_->write([&](SandboxWriter& writer, Writer&) {
        if (withExecution) writer.finish(report_.execution);
        writer.end(record_.id, SandboxEnd::kDiscarded);
    });
    sandbox->close();
    dropLayer();
}

void Trial::dropLayer() {
    if (onDisk_) owner_->inside_->layers().remove(record_.layer);
    onDisk_ = false;
}

void Trial::discard() {
    if (sandbox_) end(false);
}

std::int64_t Trial::keep(const std::optional<std::string>& name, std::optional<Milliseconds> lifetime) {
    if (!sandbox_) throw Error(ErrorCode::kUsage, "sandbox s{} was kept or discarded before", record_.id);
    checkName(name, "sandbox");
    return keepAs(name, lifetime, false);
}

void Trial::moveToDisk() {
    // It is there already, and must not be mounted any more when somebody else may use it.
    if (onDisk_) return sandbox_->close();
    const Layers& layers = owner_->inside_->layers();
    layers.makeFrom(record_.layer, sandbox_->upper(overlay_));
    for (const auto& [index, target] : parts_) layers.makePart(record_.layer, target, sandbox_->upper(index));
}

// The copy is whole and on the disk before the record says so. Until then it is a dead owner's leftover like any other.
std::int64_t Trial::keepAs(const std::optional<std::string>& name, std::optional<Milliseconds> lifetime,
                           bool withExecution) {
    Sandboxes::Inside& inside = *owner_->inside_;
    try {
        moveToDisk();
        inside.write([&](SandboxWriter& writer, Writer&) {
            if (withExecution) writer.finish(report_.execution);
            writer.keep(record_.id, name, lifetime.value_or(Sandboxes::kDefaultLifetime));
        });
    } catch (const std::exception&) {
        inside.layers().discard(record_.layer);
        throw;
    }
    kept_ = record_.id;
    onDisk_ = false;
    sandbox_->close();
    sandbox_.reset();
    return record_.id;
}

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
    Limits limits = insisted(command);
    HeldSandbox held = inside_->hold(sandbox, patience);
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
    inside_->write([&](SandboxWriter& writer, Writer&) { writer.finish(report.execution); });
    return report;
}

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

// It ran, and the answer was no: there is something to look at.
bool isFailure(const Execution& execution) {
    return execution.verdict != Verdict::kOk && execution.verdict != Verdict::kSetupFailed;
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
                          [&](SandboxWriter& writer) {
                              const bool lost = open && report.execution.verdict == Verdict::kSetupFailed;
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
    if (clone.onDisk) useDisk(inside_->layers(), record.layer, plan.workspace.overlays.at(plan.projectOverlay));
    open = confiner.backend.open(plan.workspace, limits, command.network, plan.identity);
    report = inside_->reportOf(services.run(*open, commandFrom(command, plan, record.id)), confiner, command, execution,
                               record.id);
    notePlan(command, clone, plan, report);
    services.addTo(report);
    takeOutputs(outputs, tree, *open, plan.projectOverlay, inside_->objects(), report);
    unfinished.isFinished();
    // What stands on a base that several share goes with it.
    if (command.keepFailed.count() > 0 && isFailure(report.execution) && !command.cancel.stop_requested() &&
        tree.base == nullptr) {
        report.keptAs = inside_->keepFailed(record, tree, open->upper(plan.projectOverlay), report, command.keepFailed);
        if (report.keptAs) {
            layer.stay();
            open->close();
            return report;
        }
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
