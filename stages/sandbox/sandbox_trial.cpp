// Commands in transient sandboxes, which go with them unless they are kept.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <utility>

#include "stages/changes/room.h"
#include "stages/sandbox/proofs.h"
#include "stages/sandbox/sandbox_run.h"
#include "store/model/utf8.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

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
    clone.hiddenPaths.push_back(clone.project);
    clone.project = room.path();
    clone.directory = room.path();
    clone.environment = [](const std::string&) { return std::optional<std::string>(); };
    clone.passed = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"};
    clone.hide.clear();
    clone.show.clear();
    clone.bare = true;
}

// The layer that the sandbox would have if it were kept.
void useOwnLayer(const Layers& layers, std::int64_t layer, const Parts& parts, ClonePlan& plan) {
    Overlay& project = plan.workspace.overlays.at(plan.projectOverlay);
    layers.make(layer, project.lowers.front());
    project.upper = layers.upper(layer);
    project.work = layers.work(layer);
    useDisk(layers, layer, parts, plan.workspace);
}

// To look at what a command left is a part of its run: it costs what the command chose to make it cost.
void bound(const TryRequest& request, const Limits& limits, const Execution& execution, HarvestOptions& options) {
    constexpr std::chrono::milliseconds kAtLeast{10'000};
    constexpr std::chrono::milliseconds kInterrupted{2'000};
    const auto now = std::chrono::steady_clock::now();
    // One that was interrupted while it ran is looked at all the same, unless that takes long.
    if (request.command.cancel.stop_requested())
        options.until = now + kInterrupted;
    else
        options.cancel = request.command.cancel;
    if (const auto& wall = limits[LimitName::kWallTime]; wall && !options.until) {
        const std::chrono::milliseconds left(static_cast<std::int64_t>(wall->value) -
                                             static_cast<std::int64_t>(execution.wallMillis));
        options.until = now + std::max(kAtLeast, left);
    }
    if (request.afterwards != Afterwards::kDiscard || request.contents != nullptr) return;
    options.readsContents = false;
    options.maxBytes = std::uint64_t{1} << 30;
}

/// Of a command that did not succeed: a file of the host that it names and that no sandbox has.
void noteHiddenTmp(const CommandRequest& command, const ClonePlan& plan, ExecutionReport& report) {
    if (report.execution.success()) return;
    const fs::path& project = plan.workspace.overlays.at(plan.projectOverlay).target;
    for (const std::string& word : command.arguments) {
        const fs::path path = fs::path(word.substr(word.find('=') + 1)).lexically_normal();
        std::error_code error;
        const bool isThere = path.native().starts_with("/tmp/") && fs::exists(fs::symlink_status(path, error));
        if (!isThere || isWithin(path, project)) continue;
        report.notes.push_back(fmt::format(
            "{} is not there inside: a sandbox has a /tmp of its own. Copy it into the project, or pass it as input",
            printable(path.native())));
        return;
    }
}

std::uint64_t spaceForLayers(const fs::path& state) {
    auto left = roomAt(state / "sandboxes");  // where layers lie, once there are any
    if (!left) left = roomAt(state);
    return left ? left->bytes : UINT64_MAX;
}

// What cannot be kept is lost after it ran, so it is refused before. Whoever is asked at the end can make room first.
void requireSpaceToKeep(const fs::path& state, Afterwards afterwards,
                        const std::function<std::uint64_t()>& emptyTrash) {
    constexpr std::uint64_t kLeast = std::uint64_t{1} << 20;
    if (afterwards == Afterwards::kDiscard || afterwards == Afterwards::kAsk) return;
    if (spaceForLayers(state) >= kLeast || (emptyTrash() > 0 && spaceForLayers(state) >= kLeast)) return;
    throw Error(ErrorCode::kInfrastructure, "there is no space to keep a sandbox: {} has {} KiB free, and nothing ran",
                state.native(), spaceForLayers(state) / 1024)
        .hint("free some space (`gradus gc`), or keep nothing: gradus try --discard");
}

bool isToBeKept(Afterwards afterwards, const Harvest& harvest) {
    if (afterwards == Afterwards::kKeep) return true;
    const bool changed =
        !harvest.changes.changes().empty() || harvest.ignored > harvest.ignoredBySelf || !harvest.refused.empty();
    const bool elsewhere = harvest.inRepository > 0 || (harvest.system && harvest.system->entries > 0);
    return afterwards != Afterwards::kDiscard && (changed || elsewhere);
}

}  // namespace

Trial Sandboxes::attempt(const TryRequest& request) {
    checkName(request.name, "sandbox");
    if (request.name && request.afterwards != Afterwards::kDiscard)
        inside_->read([&](const Records& records) {
            refuseTaken(records.sandboxes(), request.name);
            return 0;
        });
    reap();
    requireSpaceToKeep(inside_->around.state.root, request.afterwards,
                       [this] { return inside_->emptyTrashIfPossible(); });
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
                              lost =
                                  lost || (trial.sandbox_ && trial.report_.execution.verdict == Verdict::kSetupFailed);
                              trial.sandbox_.reset();
                              if (lost) writer.lose({execution, id, *draft.owner});
                              if (!lost) writer.finish(trial.report_.execution);
                              writer.end(id, SandboxEnd::kFailed);
                          });
    trial.onDisk_ = clone.onDisk;
    trial.parts_ = partsOf(plan, services);
    if (clone.onDisk) useOwnLayer(inside_->layers(), trial.record_.layer, trial.parts_, plan);
    trial.sandbox_ = confiner.backend.open(plan.workspace, limits, command.network, plan.identity);
    trial.overlay_ = plan.projectOverlay;
    trial.report_ = inside_->reportOf(services.run(*trial.sandbox_, commandFrom(command, plan, id)), confiner, command,
                                      execution, id);
    notePlan(command, clone, plan, trial.report_);
    noteHiddenTmp(command, plan, trial.report_);
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
    bound(request, limits, trial.report_.execution, options);
    try {
        trial.harvest_ = harvest(source, options);
        if (command.system)
            trial.harvest_.system = systemChangesIn(
                plan, [&](std::size_t overlay) { return std::vector{trial.sandbox_->upper(overlay)}; }, options);
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
    if (!unread && !isToBeKept(request.afterwards, trial.harvest_)) return trial.end();
    if (request.afterwards != Afterwards::kAsk || unread) {
        keepOrTell(trial, request);
        return;
    }
    trial.finished_ = inside_->recordEnd([&](SandboxWriter& writer, Writer&) { trial.finish(writer); }, trial.report_);
}

// Nobody is asked, so nobody can make room and try again.
void Sandboxes::keepOrTell(Trial& trial, const TryRequest& request) {
    try {
        trial.keepAs(request.name, request.lifetime, Trial::Naming::kIfFree);
    } catch (const Error& e) {
        throw Error(e.code(), "the command ran, but what it changed could not be kept and is gone: {}", e.what())
            .hint("once that is mended, run it again; on a full disk `gradus sandbox rm` and `gradus gc` make room");
    }
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
      finished_(other.finished_),
      kept_(other.kept_) {}

Trial::~Trial() {
    try {
        discard();
        dropLayer();
    } catch (const std::exception&) {
        // Whoever starts next finds the record of a dead owner, or `gradus gc` that of a living one's; nothing is left.
    }
}

void Trial::finish(SandboxWriter& writer) const {
    if (!finished_) writer.finish(report_.execution);
}

// Taken down while its end is recorded. Should we die in between, it goes on being taken down all the same.
void Trial::end() {
    const std::unique_ptr<Sandbox> sandbox = std::move(sandbox_);
    sandbox->beginClose();
    if (onDisk_) {
        // What it wrote may be what fills the disk that its end is to be recorded on.
        sandbox->close();
        dropLayer();
    }
    owner_->inside_->recordEnd(
        [&](SandboxWriter& writer, Writer&) {
            finish(writer);
            writer.end(record_.id, SandboxEnd::kDiscarded);
        },
        report_);
    sandbox->close();
}

void Trial::dropLayer() {
    if (!std::exchange(onDisk_, false)) return;
    try {
        owner_->inside_->layers().remove(record_.layer);
    } catch (const Error& e) {
        owner_->inside_->around.warn(e.what());  // it is in the trash
    }
}

void Trial::discard() {
    if (sandbox_) end();
}

std::int64_t Trial::keep(const std::optional<std::string>& name, std::optional<Milliseconds> lifetime) {
    if (!sandbox_) throw Error(ErrorCode::kUsage, "sandbox s{} was kept or discarded before", record_.id);
    checkName(name, "sandbox");
    return keepAs(name, lifetime, Naming::kInsist);
}

void Trial::moveToDisk() {
    const Layers& layers = owner_->inside_->layers();
    if (onDisk_) {
        // It is there already, and must not be mounted any more when somebody else may use it.
        sandbox_->close();
    } else {
        layers.makeFrom(record_.layer, sandbox_->upper(overlay_));
        for (const auto& [index, target] : parts_) layers.makePart(record_.layer, target, sandbox_->upper(index));
    }
    for (const LimitReport& limit : report_.execution.limits)
        if (limit.name == LimitName::kDisk) layers.setLimit(record_.layer, limit.value);
}

// The copy is whole before the record says so. Until then it is a dead owner's leftover like any other.
std::int64_t Trial::keepAs(const std::optional<std::string>& name, std::optional<Milliseconds> lifetime,
                           Naming naming) {
    Sandboxes::Inside& inside = *owner_->inside_;
    std::optional<std::int64_t> namesake;
    const auto attempt = [&] {
        try {
            moveToDisk();
            inside.write([&](SandboxWriter& writer, Writer&) {
                finish(writer);
                if (name && naming == Naming::kIfFree) namesake = writer.records().named(*name);
                writer.keep(record_.id, namesake ? std::nullopt : name, lifetime.value_or(Sandboxes::kDefaultLifetime));
            });
        } catch (const std::exception&) {
            if (!onDisk_) inside.layers().remove(record_.layer);  // else it is no copy, but all there is
            throw;
        }
    };
    try {
        attempt();
    } catch (const std::exception&) {
        if (inside.emptyTrashIfPossible() == 0) throw;
        attempt();
    }
    if (namesake)
        report_.notes.push_back(
            fmt::format("sandbox s{} is called '{}' by now, so this one has no name", *namesake, *name));
    finished_ = true;
    kept_ = record_.id;
    onDisk_ = false;
    sandbox_->close();
    sandbox_.reset();
    return record_.id;
}

}  // namespace gradus
