// What a crash or a forgotten sandbox leaves behind, ended and removed: only what is proven dead, or named by nothing.

#include <set>

#include "stages/sandbox/owner.h"
#include "stages/sandbox/sandboxes_inside.h"

namespace gradus {

namespace {

// After the last use of a commit's tree that nothing stands on: making it again costs reading the repository.
constexpr Milliseconds kCommitsStay{std::int64_t{7} * 24 * 3600 * 1000};

bool isTransient(const SandboxRecords& records, std::int64_t sandbox) {
    const auto record = records.sandbox(sandbox);
    return record && !record->ended && record->kind == SandboxKind::kTransient;
}

bool isEnded(const SandboxRecords& records, std::int64_t sandbox) {
    const auto record = records.sandbox(sandbox);
    return !record || record->ended;
}

}  // namespace

// Looked at again inside the transaction: two who start at once must not both end it.
void Sandboxes::Inside::reap(CollectReport& report) {
    const auto transient =
        read([](const Records& records) { return records.sandboxes().living(SandboxKind::kTransient); });
    std::vector<SandboxRecord> dead;
    for (const SandboxRecord& record : transient)
        if (record.owner && isProvenDead(*record.owner)) dead.push_back(record);
    if (dead.empty()) return;
    try {
        endDead(dead, report);
    } catch (const FullDisk&) {
        // Recorded last then: what they leave is nobody's, and may be all that fills the disk.
        for (const SandboxRecord& record : dead)
            if (read([&](const Records& records) { return isTransient(records.sandboxes(), record.id); }))
                layers().discard(record.layer);
        endDead(dead, report);
    }
}

void Sandboxes::Inside::endDead(const std::vector<SandboxRecord>& dead, CollectReport& report) {
    std::vector<std::int64_t> theirs;
    write([&](SandboxWriter& writer, Writer&) {
        theirs.clear();
        report.reaped.clear();
        for (const SandboxRecord& record : dead) {
            if (!isTransient(writer.records(), record.id)) continue;
            for (const RunningExecution& running : writer.records().running())
                if (running.sandbox == record.id) writer.lose(running);
            writer.end(record.id, SandboxEnd::kReaped);
            report.reaped.push_back(record.id);
            theirs.push_back(record.layer);
        }
    });
    report.layers += discardUnreachable(theirs);
}

void Sandboxes::Inside::loseExecutions(CollectReport& report) {
    const auto running = read([](const Records& records) { return records.sandboxes().running(); });
    std::set<std::int64_t> dead;
    for (const RunningExecution& execution : running)
        if (isProvenDead(execution.owner)) dead.insert(execution.id);
    if (dead.empty()) return;
    write([&](SandboxWriter& writer, Writer&) {
        report.lostExecutions = 0;
        for (const RunningExecution& execution : writer.records().running()) {
            if (!dead.contains(execution.id)) continue;
            writer.lose(execution);
            ++report.lostExecutions;
        }
    });
}

void Sandboxes::Inside::expire(CollectReport& report) {
    for (const SandboxRecord& record :
         read([](const Records& records) { return records.sandboxes().living(SandboxKind::kKept); })) {
        if (record.expiresAt() > around.clock.now()) continue;
        try {
            layers().prepare();
            auto lock = SandboxLock::attempt(layers().lockFile(record.id));
            if (!lock) continue;  // in use, which is the opposite of forgotten
            const HeldSandbox held = hold(std::move(*lock), record.id);
            if (held.record.expiresAt() > around.clock.now()) continue;
            Objects store = objects();
            HarvestOptions options;
            options.keep = &store;
            const Digest changes = store.put(harvestOf(held, options).changes.encode());
            end(held, SandboxEnd::kExpired, changes);
            report.expired.push_back(record.id);
        } catch (const Error& e) {
            report.problems.push_back(fmt::format("sandbox s{} expired and is still there: {}", record.id, e.what()));
        }
    }
}

std::uint64_t Sandboxes::Inside::discardUnreachable(const std::vector<std::int64_t>& candidates) {
    const auto standing = read([](const Records& records) { return records.sandboxes().reachableLayers(); });
    std::uint64_t count = 0;
    for (const std::int64_t layer : std::set(candidates.begin(), candidates.end()))
        if (!standing.contains(layer) && layers().discard(layer)) ++count;
    return count;
}

// The directories are listed before the rows are read: a layer's row is there before its directory, so one that is
// listed and has no row, or one that nothing stands on, will never be used.
void Sandboxes::Inside::sweep(CollectReport& report) {
    report.layers += discardUnreachable(layers().listed());
    for (const std::int64_t sandbox : layers().locked()) {
        if (!read([&](const Records& records) { return isEnded(records.sandboxes(), sandbox); })) continue;
        if (const auto lock = SandboxLock::attempt(layers().lockFile(sandbox))) lock->removeFile();
    }
    layers().removeOldTemplates(around.clock.now());
    collectTrash(report);
}

void Sandboxes::Inside::collectTrash(CollectReport& report) const {
    try {
        report.removedBytes += emptyTrash();
    } catch (const Error& e) {
        report.problems.emplace_back(e.what());
    }
}

// A record of a living sandbox is there before whoever made it lets go of the tree.
void Sandboxes::Inside::collectPinned(CollectReport& report) {
    const auto isNeeded = [this](const std::string& commit) {
        return read([&](const Records& records) {
            for (const SandboxKind kind : {SandboxKind::kKept, SandboxKind::kTransient})
                for (const SandboxRecord& record : records.sandboxes().living(kind))
                    if (record.commit == commit) return true;
            return false;
        });
    };
    layers().prepare();
    report.commits += collectCommits(around.state.root / "commits", around.clock.now() - kCommitsStay, isNeeded,
                                     layersRoot() / "trash");
}

CollectReport Sandboxes::reap() {
    CollectReport report;
    inside_->reap(report);
    return report;
}

// The trash comes first as well: on a full disk nothing can be recorded before something is deleted, and the store need
// not even be opened for that.
CollectReport Sandboxes::collect() {
    CollectReport report;
    inside_->collectTrash(report);
    using Step = void (Inside::*)(CollectReport&);
    for (const Step step : {&Inside::reap, &Inside::loseExecutions, &Inside::expire, &Inside::collectPinned,
                            &Inside::collectData, &Inside::sweep}) {
        try {
            (inside_.get()->*step)(report);
        } catch (const FullDisk& e) {
            report.problems.emplace_back(e.what());
        }
    }
    return report;
}

}  // namespace gradus
