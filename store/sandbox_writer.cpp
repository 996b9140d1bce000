#include "store/sandbox_writer.h"

#include <nlohmann/json.hpp>

#include "store/model/error.h"

namespace gradus {

namespace {

// Any bytes may be in a name, a path or an argument; JSON holds only UTF-8, so what is not is replaced.
std::string payload(const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json named(const std::optional<std::string>& name) {
    return name ? nlohmann::json{{"name", *name}} : nlohmann::json::object();
}

std::int64_t signedOf(std::uint64_t value) { return static_cast<std::int64_t>(value); }

void setOutcome(EventFields& fields, const Execution& execution) {
    fields.set("guarantees", formatGuarantees(execution.guarantees))
        .set("verdict", verdictName(execution.verdict.value_or(Verdict::kSetupFailed)))
        .setIfPresent("exit", execution.exitCode)
        .setIfPresent("signal", execution.signal)
        .setIfPresent("stdout", execution.out)
        .setIfPresent("stderr", execution.err)
        .set("stdout-bytes", signedOf(execution.outBytes))
        .set("stderr-bytes", signedOf(execution.errBytes))
        .set("truncated", std::int64_t{execution.truncated ? 1 : 0})
        .set("started-at", toMillis(execution.startedAt))
        .set("wall-ms", signedOf(execution.wallMillis))
        .set("cpu-ms", signedOf(execution.cpuMillis));
    if (execution.peakMemoryBytes) fields.set("peak-memory", signedOf(*execution.peakMemoryBytes));
    fields.set("limits", formatLimits(execution.limits))
        .set("side-effects", formatEffectCounts(execution.sideEffects))
        .setIfPresent("services", execution.services);
}

}  // namespace

void refuseTaken(const SandboxRecords& records, const std::optional<std::string>& name) {
    if (!name) return;
    if (const auto other = records.named(*name))
        throw Error(ErrorCode::kUsage, "sandbox s{} is called '{}' already", *other, *name)
            .hint("give another name, or remove that one first");
}

SandboxWriter::SandboxWriter(Writer& writer, ActorId by) : writer_(writer), records_(writer.sandboxes()), by_(by) {}

SandboxRecord SandboxWriter::living(std::int64_t sandbox) const {
    auto record = records_.sandbox(sandbox);
    if (!record) throw Error(ErrorCode::kNotFound, "there is no sandbox s{}", sandbox);
    if (record->ended)
        throw Error(ErrorCode::kNotFound, "sandbox s{} has ended: {}", sandbox, nameOf(kSandboxEnds, *record->ended));
    return std::move(*record);
}

EventDraft SandboxWriter::about(EventKind kind, std::int64_t sandbox) const {
    EventDraft draft;
    draft.kind = kind;
    draft.actor = by_;
    draft.project = records_.sandbox(sandbox).value_or(SandboxRecord()).project;
    draft.fields.set("sandbox", sandbox);
    return draft;
}

SandboxRecord SandboxWriter::create(const SandboxDraft& wanted) {
    refuseTaken(records_, wanted.name);
    const std::int64_t id = records_.nextSandbox();
    EventDraft draft;
    draft.kind = EventKind::kSandboxCreated;
    draft.actor = by_;
    draft.project = wanted.project;
    draft.fields.set("sandbox", id)
        .set("kind", nameOf(kSandboxKinds, wanted.kind))
        .set("layer", records_.nextLayer())
        .setIfPresent("below", wanted.below)
        .setIfPresent("commit", wanted.commit)
        .set("since-s", std::int64_t{wanted.since.tv_sec})
        .set("since-ns", std::int64_t{wanted.since.tv_nsec})
        .setIfPresent("forked-from", wanted.forkedFrom);
    if (wanted.system) draft.fields.set("scope", "system");
    if (wanted.owner) draft.fields.set("owner", formatOwner(*wanted.owner));
    draft.fields.set("lifetime-ms", std::int64_t{wanted.lifetime.count()});
    if (wanted.name) draft.payload = payload(named(wanted.name));
    writer_.record(std::move(draft));
    return living(id);
}

void SandboxWriter::keep(std::int64_t sandbox, const std::optional<std::string>& name, Milliseconds lifetime) {
    refuseTaken(records_, name);
    EventDraft draft = about(EventKind::kSandboxKept, sandbox);
    draft.fields.set("lifetime-ms", std::int64_t{lifetime.count()});
    if (name) draft.payload = payload(named(name));
    writer_.record(std::move(draft));
}

SnapshotRecord SandboxWriter::snapshot(std::int64_t sandbox, const std::string& name) {
    const SandboxRecord record = living(sandbox);
    if (records_.snapshot(sandbox, name))
        throw Error(ErrorCode::kUsage, "sandbox s{} has a snapshot '{}' already", sandbox, name)
            .hint("give another name");
    const std::int64_t id = records_.nextSnapshot();
    EventDraft draft = about(EventKind::kSandboxSnapshotted, sandbox);
    draft.fields.set("snapshot", id).set("layer", record.layer).set("next", records_.nextLayer());
    draft.payload = payload(named(name));
    const Event event = writer_.record(std::move(draft));
    return {id, sandbox, record.layer, name, event.at};
}

std::int64_t SandboxWriter::restore(const SnapshotRecord& snapshot) {
    const std::int64_t before = living(snapshot.sandbox).layer;
    EventDraft draft = about(EventKind::kSandboxRestored, snapshot.sandbox);
    draft.fields.set("snapshot", snapshot.id).set("layer", snapshot.layer).set("next", records_.nextLayer());
    writer_.record(std::move(draft));
    return before;
}

std::int64_t SandboxWriter::freeze(std::int64_t sandbox) {
    const std::int64_t layer = living(sandbox).layer;
    EventDraft draft = about(EventKind::kSandboxForked, sandbox);
    draft.fields.set("layer", layer).set("next", records_.nextLayer());
    writer_.record(std::move(draft));
    return layer;
}

std::int64_t SandboxWriter::squash(std::int64_t sandbox) {
    const std::int64_t merged = records_.nextLayer();
    EventDraft draft = about(EventKind::kSandboxSquashed, sandbox);
    draft.fields.set("layer", merged).set("under", living(sandbox).layer);
    writer_.record(std::move(draft));
    return merged;
}

void SandboxWriter::touch(std::int64_t sandbox) {
    EventDraft draft = about(EventKind::kSandboxWritten, sandbox);
    draft.fields.set("layer", living(sandbox).layer);
    writer_.record(std::move(draft));
}

void SandboxWriter::end(std::int64_t sandbox, SandboxEnd reason, const std::optional<Digest>& changeSet) {
    EventDraft draft = about(EventKind::kSandboxEnded, sandbox);
    draft.fields.set("reason", nameOf(kSandboxEnds, reason)).setIfPresent("change-set", changeSet);
    writer_.record(std::move(draft));
}

void SandboxWriter::removeSnapshot(const SnapshotRecord& snapshot) {
    EventDraft draft = about(EventKind::kSnapshotRemoved, snapshot.sandbox);
    draft.fields.set("snapshot", snapshot.id);
    writer_.record(std::move(draft));
}

std::int64_t SandboxWriter::start(const ExecutionDraft& wanted) {
    const std::int64_t id = records_.nextExecution();
    EventDraft draft = about(EventKind::kExecutionStarted, wanted.sandbox);
    draft.fields.set("execution", id)
        .set("backend", wanted.backend)
        .set("without", formatGuarantees(wanted.without))
        .set("owner", formatOwner(wanted.owner))
        .set("network", nameOf(kExecutionNetworks, wanted.network));
    if (wanted.reads) draft.fields.set("reads", 1);
    nlohmann::json words{{"arguments", wanted.arguments}, {"directory", wanted.directory.native()}};
    if (!wanted.destinations.empty()) words["network"] = wanted.destinations;
    draft.payload = payload(words);
    writer_.record(std::move(draft));
    return id;
}

void SandboxWriter::finish(const Execution& execution) {
    EventDraft draft = about(EventKind::kExecutionFinished, execution.sandbox);
    draft.fields.set("execution", execution.id);
    setOutcome(draft.fields, execution);
    if (!execution.sideEffects.isNothing()) draft.payload = formatSideEffects(execution.sideEffects);
    writer_.record(std::move(draft));
}

void SandboxWriter::lose(const RunningExecution& execution) {
    EventDraft draft = about(EventKind::kExecutionLost, execution.sandbox);
    draft.fields.set("execution", execution.id);
    writer_.record(std::move(draft));
}

}  // namespace gradus
