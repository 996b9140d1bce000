#include "stages/sandbox/sandboxes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "plugins/api/choice.h"
#include "stages/sandbox/owner.h"
#include "stages/sandbox/proofs.h"
#include "stages/sandbox/sandboxes_inside.h"
#include "store/change_sets.h"
#include "store/model/canonical.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestName = 64;

bool isNameCharacter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
}

std::ptrdiff_t provenBy(const ProbeResult& result) {
    return std::count_if(result.proofs.begin(), result.proofs.end(), [](const Proof& proof) { return proof.holds; });
}

}  // namespace

void checkName(const std::optional<std::string>& name, std::string_view what) {
    if (!name) return;
    const bool fits = !name->empty() && name->size() <= kLongestName && name->front() != '-' && name->front() != '.' &&
                      std::all_of(name->begin(), name->end(), isNameCharacter);
    if (!fits)
        throw Error(ErrorCode::kUsage, "'{}' is no name for a {}", printable(*name), what)
            .hint("use letters, digits, '-', '_' and '.', at most 64");
    if (parseHandle(*name))
        throw Error(ErrorCode::kUsage, "'{}' is no name for a {}: it reads like a handle", *name, what)
            .hint("give a name that is not a letter and a number, nor hexadecimal");
}

void Sandboxes::Inside::write(const std::function<void(SandboxWriter&, Writer&)>& work, Store::Urgency urgency) {
    const std::lock_guard guard(mutex);
    const auto attempt = [&](Store::Urgency how) {
        around.store().write(
            [&](Writer& writer) {
                SandboxWriter sandboxes(writer, writer.actor(around.actor));
                work(sandboxes, writer);
            },
            how);
    };
    try {
        attempt(Store::Urgency::kRoutine);
    } catch (const FullDisk&) {
        if (emptyTrashIfPossible() == 0 && urgency == Store::Urgency::kRoutine) throw;
        attempt(urgency);
    }
}

std::uint64_t Sandboxes::Inside::emptyTrashIfPossible() const noexcept {
    try {
        return emptyTrash();
    } catch (const std::exception&) {
        return 0;
    }
}

bool Sandboxes::Inside::recordEnd(const std::function<void(SandboxWriter&, Writer&)>& work, ExecutionReport& report) {
    try {
        write(work);
        return true;
    } catch (const FullDisk& e) {
        report.notes.push_back(fmt::format("how e{} ended is not on record: {}", report.execution.id, e.what()));
        return false;
    }
}

const Layers& Sandboxes::Inside::layers() {
    const std::lock_guard guard(mutex);
    if (!layerStore) layerStore.emplace(layersRoot(), around.store().storeId());
    return *layerStore;
}

namespace {

// Where the backend filters calls it does so for every command: to give the guarantee up would make the record weaker
// and let nothing through.
void refuseFilterGivenUpForNothing(const CommandRequest& request, const IsolationBackend& backend,
                                   const ProbeResult& proofs) {
    const auto& without = request.without;
    if (std::find(without.begin(), without.end(), Guarantee::kKernelFilter) == without.end()) return;
    if (!proofs.proves(Guarantee::kKernelFilter)) return;
    throw Error(ErrorCode::kNotAllowed, "kernel-filter is given up, but backend '{}' filters system calls all the same",
                backend.name())
        .hint(
            "take kernel-filter out of `without`; what needs namespaces of its own runs on the host, by a check with "
            "on = \"host\"");
}

}  // namespace

Confiner Sandboxes::Inside::confinerFor(const CommandRequest& request) {
    const std::lock_guard guard(mutex);
    const auto probe = [this](IsolationBackend& backend) {
        const auto known = proofs.find(&backend);
        if (known != proofs.end()) return known->second;
        const fs::path cache = around.state.root / "proofs";
        makeDirectories(cache);
        return proofs.emplace(&backend, cachedProbe(backend, cache)).first->second;
    };
    std::vector<IsolationBackend*> backends = around.backends;
    if (request.system) {
        if (request.network.isByName())
            throw Error(ErrorCode::kNotAllowed, "a copy of the system has no network by name")
                .hint("give it none, or the host's own (--network host); or leave --system out");
        for (IsolationBackend*& backend : backends) backend = backend->forSystem();
        std::erase(backends, nullptr);
    }
    if (request.strongest)
        std::stable_sort(backends.begin(), backends.end(), [&](IsolationBackend* a, IsolationBackend* b) {
            return provenBy(probe(*a)) > provenBy(probe(*b));
        });
    IsolationBackend& chosen =
        chooseBackend(backends, {.guarantees = demanded(request), .networkByName = request.network.isByName()}, probe);
    refuseFilterGivenUpForNothing(request, chosen, probe(chosen));
    return {chosen, proofs.at(&chosen)};
}

Digest Sandboxes::confinement(const CommandRequest& request) {
    const Confiner confiner = inside_->confinerFor(request);
    std::vector<Guarantee> proven;
    for (const Proof& proof : confiner.proofs.proofs)
        if (proof.holds) proven.push_back(proof.guarantee);
    return Canonical("gradus.confinement.1")
        .text(confiner.backend.name())
        .text(confiner.proofs.version)
        .text(formatGuarantees(proven))
        .text(formatGuarantees(lowered(request)))
        .hash();
}

void Sandboxes::expect() {
    const std::lock_guard guard(inside_->mutex);
    const auto known = [this](IsolationBackend& backend) {
        return keptProbe(backend, inside_->around.state.root / "proofs").value_or(ProbeResult{});
    };
    try {
        chooseBackend(inside_->around.backends, {.guarantees = demanded({})}, known).expect();
    } catch (const Error&) {
        return;  // whoever asks for the sandbox hears why there is none
    }
}

const ProcessIdentity& Sandboxes::Inside::me() {
    const std::lock_guard guard(mutex);
    if (!self) self = thisProcess();
    return *self;
}

SandboxRecord Sandboxes::Inside::living(std::int64_t sandbox) {
    auto record = read([&](const Records& records) { return records.sandboxes().sandbox(sandbox); });
    if (!record || record->kind != SandboxKind::kKept)
        throw Error(ErrorCode::kNotFound, "there is no sandbox s{}", sandbox).hint("`gradus sandbox list` shows them");
    if (record->ended)
        throw Error(ErrorCode::kNotFound, "sandbox s{} is no more: it was {}", sandbox,
                    nameOf(kSandboxEnds, *record->ended))
            .hint("`gradus sandbox list` shows those that are");
    return std::move(*record);
}

Sandboxes::Sandboxes(Surroundings surroundings) : inside_(std::make_unique<Inside>(std::move(surroundings))) {}
Sandboxes::~Sandboxes() = default;

std::optional<SandboxRecord> Sandboxes::find(std::string_view handleOrName) {
    return inside_->read([&](const Records& all) -> std::optional<SandboxRecord> {
        const SandboxRecords records = all.sandboxes();
        const auto handle = parseHandle(handleOrName);
        std::optional<std::int64_t> id;
        if (handle && handle->kind == HandleKind::kSandbox)
            id = handle->number;
        else if (handle && handle->kind == HandleKind::kLatest)
            id = records.latest();
        else
            id = records.named(std::string(handleOrName));
        auto record = id ? records.sandbox(*id) : std::nullopt;
        if (!record || record->ended || record->kind != SandboxKind::kKept) return std::nullopt;
        return record;
    });
}

std::optional<ExpiredSandbox> Sandboxes::findExpired(std::string_view handle) {
    const auto parsed = parseHandle(handle);
    if (!parsed || parsed->kind != HandleKind::kSandbox) return std::nullopt;
    return inside_->read([&](const Records& all) -> std::optional<ExpiredSandbox> {
        const auto record = all.sandboxes().sandbox(parsed->number);
        if (!record || record->ended != SandboxEnd::kExpired || !record->changeSet) return std::nullopt;
        return ExpiredSandbox{*record, all.project(record->project).value_or(ProjectIdentity()).path,
                              readChanges(inside_->objects(), *record->changeSet)};
    });
}

SandboxView Sandboxes::Inside::viewOf(const SandboxRecord& record) {
    SandboxView view;
    view.record = record;
    const auto chain = read([&](const Records& all) {
        view.project = all.project(record.project).value_or(ProjectIdentity()).path;
        view.snapshots = all.sandboxes().snapshots(record.id);
        if (std::vector<Execution> latest = all.sandboxes().executions(record.id, 1); !latest.empty())
            view.last = std::move(latest.front());
        return all.sandboxes().chain(record.layer);
    });
    view.depth = chain.size() - 1;
    view.onCopy = layers().baseOf(chain.back().id).has_value();
    view.inUseBy = SandboxLock::holder(layers().lockFile(record.id));
    for (const LayerRecord& layer : chain)
        if (std::string flaw = layer.used ? layers().flaw(layer.id) : ""; !flaw.empty()) view.damage = flaw;
    return view;
}

SandboxView Sandboxes::view(std::int64_t sandbox) { return inside_->viewOf(inside_->living(sandbox)); }

std::vector<SandboxView> Sandboxes::list(const std::optional<fs::path>& project) {
    const auto kept =
        inside_->read([](const Records& records) { return records.sandboxes().living(SandboxKind::kKept); });
    std::vector<SandboxView> all;
    for (const SandboxRecord& record : kept) {
        SandboxView one = inside_->viewOf(record);
        if (!project || one.project == *project) all.push_back(std::move(one));
    }
    return all;
}

}  // namespace gradus
