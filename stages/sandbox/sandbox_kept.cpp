// Kept sandboxes: made, frozen, taken back, multiplied, compared and removed. Between commands they are rows and
// layers.

#include <fcntl.h>
#include <sys/utsname.h>

#include <cstdlib>

#include "stages/sandbox/clone_view.h"
#include "stages/sandbox/sandboxes_inside.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::string handleOf(std::int64_t sandbox) { return "s" + std::to_string(sandbox); }

// Before 6.5 an overlay takes its layers as one option of 255 bytes.
std::size_t mostLayers() {
    utsname system{};
    ::uname(&system);
    char* rest = nullptr;
    const long major = std::strtol(system.release, &rest, 10);
    const long minor = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
    return major > 6 || (major == 6 && minor >= 5) ? Sandboxes::kMostLayers : 12;
}

// As many layers, and one was frozen since. Each image takes a loop device and a millisecond or two.
bool isDeep(const std::vector<LayerRecord>& chain, const Layers& layers) {
    constexpr std::size_t kMostImages = 8;
    std::size_t images = 0;
    for (const LayerRecord& layer : chain)
        if (layers.imageOf(layer.id)) ++images;
    return chain.size() > mostLayers() || images > kMostImages;
}

// A device's number is another one after a reboot or a remount, and older releases recorded no key.
bool isStillThere(const ProjectIdentity& known, const ProjectIdentity& found) {
    return known.key.empty() || found.key.empty() ? known.inode == found.inode : known.key == found.key;
}

ProjectIdentity identifyProjectOf(std::int64_t sandbox, const fs::path& project) {
    if (!isDirectory(project))
        throw Error(ErrorCode::kNotFound, "{}, which sandbox s{} is a clone of, is gone or was moved",
                    printable(project.native()), sandbox)
            .hint(fmt::format("put it back there, and the sandbox is as it was; `gradus sandbox rm s{}` gives it up",
                              sandbox));
    return identify(project);
}

}  // namespace

fs::path Sandboxes::projectOf(std::int64_t sandbox) { return identifyProjectOf(sandbox, view(sandbox).project).path; }

MaterialisedCommit Sandboxes::Inside::pinned(const fs::path& project, const std::string& commit) const {
    const fs::path cache = around.state.root / "commits";
    makeDirectories(cache);
    MaterialisedCommit tree = materialise(project, commit, cache);
    for (const std::string& note : tree.notes) around.warn(note);
    return tree;
}

Sandboxes::Inside::Ground Sandboxes::Inside::groundOf(const SandboxRecord& record, const ProjectIdentity& project,
                                                      const std::vector<LayerRecord>& chain) {
    if (auto own = layers().baseOf(chain.back().id)) return {std::move(*own), true};
    if (record.commit) return {pinned(project.path, *record.commit).tree, true};
    return {project.path, false};
}

HeldSandbox Sandboxes::Inside::hold(std::int64_t sandbox, const Patience& patience) {
    living(sandbox);  // before a lock file is made for one that is not
    layers().prepare();
    return hold(lockOf(sandbox, patience), sandbox);
}

SandboxLock Sandboxes::Inside::lockOf(std::int64_t sandbox, const Patience& patience) {
    return {layers().lockFile(sandbox), handleOf(sandbox), patience.most, patience.cancel, patience.option};
}

HeldSandbox Sandboxes::Inside::hold(SandboxLock lock, std::int64_t sandbox) {
    HeldSandbox held{std::move(lock), living(sandbox), {}, {}};
    const auto project = read([&](const Records& records) {
        held.chain = records.sandboxes().chain(held.record.layer);
        return records.project(held.record.project);
    });
    held.project = identifyProjectOf(sandbox, project.value_or(ProjectIdentity()).path);
    if (!project || !isStillThere(*project, held.project))
        throw Error(ErrorCode::kNotAllowed, "{} is another directory than sandbox s{} is a clone of",
                    printable(held.project.path.native()), sandbox)
            .hint("make a new sandbox of it; `gradus sandbox rm` removes this one");
    makeWhole(held.chain, held, {});
    return held;
}

void Sandboxes::Inside::makeWhole(const std::vector<LayerRecord>& chain, const HeldSandbox& held,
                                  const std::set<std::int64_t>& known) {
    const Layers& all = layers();
    // A squash that was recorded and not placed: its layer is still where it was built, in the one above.
    if (chain.size() == 2 && chain[1].frozen && !all.isWhole(chain[1].id)) all.placeMerged(chain[0].id, chain[1].id);
    // What a failed check left was recorded and not placed: it is still where it was copied to, in the one below.
    if (chain.size() == 2 && chain[1].frozen && !all.isWhole(chain[0].id)) all.placeNext(chain[1].id, chain[0].id);
    const std::string common = all.placeFlaw();
    for (auto layer = chain.rbegin(); layer != chain.rend(); ++layer) {
        const std::string own = known.contains(layer->id) || !common.empty() ? "" : all.ownFlaw(layer->id);
        const std::string& flaw = common.empty() ? own : common;
        if (flaw.empty()) continue;
        if (layer->used)
            throw Error(ErrorCode::kDamaged, "sandbox s{} cannot be used: {}", chain.front().sandbox, flaw)
                .hint("somebody changed it from outside; `gradus sandbox rm` removes what is left");
        if (layer->below)
            all.make(layer->id, all.openUpper(*layer->below).get());
        else
            all.make(layer->id, groundOf(held).base);
    }
}

SandboxRecord Sandboxes::create(const CreateRequest& request) {
    checkName(request.name, "sandbox");
    reap();
    const ProjectIdentity project = identify(request.project);
    CommandRequest nothing;
    nothing.system = request.system;
    if (request.system) inside_->confinerFor(nothing);        // where no backend can, there is no use in a record
    planClone(inside_->cloneRequest(project.path, nothing));  // one that cannot be cloned is refused now, not later
    fs::path base = project.path;
    SandboxDraft draft;
    draft.kind = SandboxKind::kKept;
    draft.system = request.system;
    draft.name = request.name;
    std::optional<MaterialisedCommit> pinned;  // held until there is a record that stands on it
    if (request.commit) {
        pinned = inside_->pinned(project.path, *request.commit);
        // By its full name: what a branch means changes.
        draft.commit = pinned->commit;
        base = pinned->tree;
    }
    draft.since = fileSystemNow();
    draft.lifetime = request.lifetime.value_or(kDefaultLifetime);
    SandboxRecord record;
    inside_->write([&](SandboxWriter& writer, Writer& all) {
        draft.project = all.project(project, all.actor(inside_->around.actor));
        record = writer.create(draft);
    });
    inside_->layers().make(record.layer, base);
    return record;
}

SnapshotRecord Sandboxes::snapshot(std::int64_t sandbox, const std::string& name, const Patience& patience) {
    checkName(name, "snapshot");
    const HeldSandbox held = inside_->hold(sandbox, patience);
    inside_->requireUnexpired(held.record);
    SnapshotRecord snapshot;
    std::int64_t next = 0;
    inside_->write([&](SandboxWriter& writer, Writer&) {
        snapshot = writer.snapshot(sandbox, name);
        next = writer.records().sandbox(sandbox)->layer;
    });
    inside_->layers().make(next, inside_->layers().openUpper(snapshot.layer).get());
    inside_->squashIfDeep(held);
    return snapshot;
}

void Sandboxes::restore(std::int64_t sandbox, const std::string& name, const Patience& patience) {
    const HeldSandbox held = inside_->hold(sandbox, patience);
    inside_->requireUnexpired(held.record);
    const auto limit = inside_->limitOf(held.chain);
    const auto snapshot =
        inside_->read([&](const Records& records) { return records.sandboxes().snapshot(sandbox, name); });
    if (!snapshot)
        throw Error(ErrorCode::kNotFound, "sandbox s{} has no snapshot '{}'", sandbox, printable(name))
            .hint("`gradus sandbox show` lists its snapshots");
    const auto chain =
        inside_->read([&](const Records& records) { return records.sandboxes().chain(snapshot->layer); });
    std::set<std::int64_t> known;
    for (const LayerRecord& layer : held.chain) known.insert(layer.id);
    inside_->makeWhole(chain, held, known);
    std::int64_t dropped = 0;
    std::int64_t next = 0;
    inside_->write([&](SandboxWriter& writer, Writer&) {
        dropped = writer.restore(*snapshot);
        next = writer.records().sandbox(sandbox)->layer;
    });
    inside_->layers().make(next, inside_->layers().openUpper(snapshot->layer).get());
    // A limit is the sandbox's, and not of what was in it.
    if (limit) inside_->layers().setLimit(next, *limit);
    inside_->layers().discard(dropped);
}

void Sandboxes::removeSnapshot(std::int64_t sandbox, const std::string& name) {
    inside_->living(sandbox);
    inside_->write([&](SandboxWriter& writer, Writer&) {
        const auto snapshot = writer.records().snapshot(sandbox, name);
        if (!snapshot) throw Error(ErrorCode::kNotFound, "sandbox s{} has no snapshot '{}'", sandbox, printable(name));
        const auto others = writer.records().standingOn(snapshot->layer, sandbox);
        if (!others.empty())
            throw Error(ErrorCode::kNotAllowed, "sandbox s{} stands on the snapshot '{}' of s{}", others.front(), name,
                        sandbox)
                .hint(fmt::format("remove s{} first", others.front()));
        writer.removeSnapshot(*snapshot);
    });
}

std::vector<SandboxRecord> Sandboxes::fork(std::int64_t sandbox, std::size_t count,
                                           const std::vector<std::string>& names, const Patience& patience,
                                           std::optional<Milliseconds> lifetime) {
    if (count == 0 || count > kMostForks || names.size() > count)
        throw Error(ErrorCode::kUsage, "a fork makes 1 to {} sandboxes, with at most as many names", kMostForks);
    for (const std::string& name : names) checkName(name, "sandbox");
    const HeldSandbox held = inside_->hold(sandbox, patience);
    SandboxDraft draft;
    draft.project = held.record.project;
    draft.kind = SandboxKind::kKept;
    draft.system = held.record.system;
    draft.commit = held.record.commit;
    draft.since = held.record.since;
    draft.forkedFrom = sandbox;
    draft.lifetime = lifetime.value_or(held.record.lifetime);
    std::vector<SandboxRecord> forks;
    std::int64_t next = 0;
    inside_->write([&](SandboxWriter& writer, Writer&) {
        // What nobody wrote to need not be shared.
        const bool isEmpty = !held.chain.front().used;
        draft.below = isEmpty ? held.chain.front().below : writer.freeze(sandbox);
        next = writer.records().sandbox(sandbox)->layer;
        forks.clear();
        for (std::size_t i = 0; i < count; ++i) {
            draft.name = i < names.size() ? std::optional(names[i]) : std::nullopt;
            forks.push_back(writer.create(draft));
        }
    });
    const Layers& all = inside_->layers();
    const FileDescriptor model = draft.below
                                     ? all.openUpper(*draft.below)
                                     : openFile(inside_->groundOf(held).base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (next != held.record.layer) all.make(next, model.get());
    for (const SandboxRecord& fork : forks) all.make(fork.layer, model.get());
    inside_->squashIfDeep(held);
    return forks;
}

// The merged layer is built where only we look, then recorded, then put in its place: whoever holds the sandbox next
// finds it in the one or the other, or builds it anew.
void Sandboxes::Inside::squashIfDeep(const HeldSandbox& held) {
    if (!isDeep(held.chain, layers())) return;
    const std::int64_t sandbox = held.record.id;
    const SandboxRecord record = living(sandbox);
    const auto chain = read([&](const Records& records) { return records.sandboxes().chain(record.layer); });
    std::vector<std::int64_t> frozen;
    for (std::size_t i = 1; i < chain.size(); ++i) frozen.push_back(chain[i].id);
    try {
        layers().merge(frozen, record.layer);
    } catch (const Error& e) {
        around.warn(
            fmt::format("sandbox s{} has {} layers, which could not be merged: {}", sandbox, frozen.size(), e.what()));
        return;
    }
    if (const auto limit = limitOf(chain)) layers().setLimit(record.layer, *limit);
    std::int64_t merged = 0;
    write([&](SandboxWriter& writer, Writer&) { merged = writer.squash(sandbox); });
    layers().placeMerged(record.layer, merged);
    discardUnreachable(frozen);
}

Harvest Sandboxes::Inside::harvestOf(const HeldSandbox& held, const HarvestOptions& options) {
    HarvestSource source;
    std::vector<OpenLayer> chain;
    std::vector<FileDescriptor> open;
    for (const LayerRecord& layer : held.chain) {
        chain.push_back(layers().open(layer.id, Layers::Access::kRead));
        open.push_back(chain.back().upper());
        source.layers.push_back(open.back().get());
    }
    const Ground ground = groundOf(held);
    source.base = ground.base;
    source.since = held.record.since;
    source.pinned = ground.stands;
    if (source.pinned) source.repository = held.project.path;
    CommandRequest nothing;
    nothing.system = held.record.system;
    CloneRequest request = cloneRequest(held.project.path, nothing);
    if (source.pinned) request.lowers = {source.base};
    const ClonePlan plan = planClone(request);
    source.notOurs = plan.notOurs;
    const auto partsOf = [&](std::size_t part) {
        std::vector<int> found;
        for (const OpenLayer& layer : chain) {
            auto upper = layer.part(plan.workspace.overlays.at(part).target);
            if (!upper) continue;
            open.push_back(std::move(*upper));
            found.push_back(open.back().get());
        }
        return found;
    };
    for (const auto& [part, base] : repositoriesIn(plan)) source.repositories.push_back({partsOf(part), base});
    Harvest found = harvest(source, options);
    if (held.record.system) found.system = systemChangesIn(plan, partsOf, options);
    return found;
}

Harvest Sandboxes::diff(std::int64_t sandbox, const HarvestOptions& options, const Patience& patience) {
    return inside_->harvestOf(inside_->hold(sandbox, patience), options);
}

void Sandboxes::Inside::requireUnexpired(const SandboxRecord& record) const {
    if (record.expiresAt() > around.clock.now()) return;
    throw Error(ErrorCode::kNotAllowed, "sandbox s{} expired at {}", record.id, formatTime(record.expiresAt()))
        .hint(fmt::format("`gradus sandbox fork s{}` goes on with a copy, `gradus submit s{}` makes a change of it",
                          record.id, record.id));
}

void Sandboxes::Inside::end(const HeldSandbox& held, SandboxEnd reason, const std::optional<Digest>& changeSet) {
    // Whoever removes something from a full disk must not be refused for want of space.
    write([&](SandboxWriter& writer, Writer&) { writer.end(held.record.id, reason, changeSet); },
          Store::Urgency::kVital);
    held.lock.removeFile();
}

// Its layers need not be whole for that.
void Sandboxes::remove(std::int64_t sandbox, const Patience& patience) {
    inside_->living(sandbox);
    inside_->layers().prepare();
    HeldSandbox held{inside_->lockOf(sandbox, patience), {}, {}, {}};
    held.record = inside_->living(sandbox);
    std::vector<std::int64_t> layers;
    inside_->read([&](const Records& records) {
        for (const LayerRecord& layer : records.sandboxes().chain(held.record.layer)) layers.push_back(layer.id);
        for (const SnapshotRecord& snapshot : records.sandboxes().snapshots(sandbox))
            for (const LayerRecord& layer : records.sandboxes().chain(snapshot.layer)) layers.push_back(layer.id);
        return 0;
    });
    try {
        inside_->end(held, SandboxEnd::kRemoved, std::nullopt);
    } catch (const FullDisk&) {
        // Nobody else stands on its own layer, which may be all that fills the disk.
        inside_->layers().remove(held.record.layer);
        inside_->end(held, SandboxEnd::kRemoved, std::nullopt);
    }
    inside_->discardUnreachable(layers);
    inside_->emptyTrashIfPossible();
}

}  // namespace gradus
