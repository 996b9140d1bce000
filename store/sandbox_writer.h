#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "store/sandbox_records.h"
#include "store/store.h"

namespace gradus {

/// A sandbox about to be made.
struct SandboxDraft {
    std::int64_t project = 0;
    SandboxKind kind = SandboxKind::kTransient;
    std::optional<std::string> name;
    std::optional<std::string> commit;
    bool system = false;
    timespec since{};
    std::optional<std::int64_t> below;  ///< a frozen layer to stand on
    std::optional<std::int64_t> forkedFrom;
    std::optional<ProcessIdentity> owner;
    Milliseconds lifetime{0};
};

/// A command about to be run.
struct ExecutionDraft {
    std::int64_t sandbox = 0;
    ProcessIdentity owner;
    std::string backend;
    std::vector<Guarantee> without;
    std::vector<std::string> arguments;
    std::filesystem::path directory;
    ExecutionNetwork network = ExecutionNetwork::kNone;
    std::vector<std::string> destinations{};  ///< by name: what may be reached
    bool reads = false;                       ///< the program itself looks something up: it is nobody's work
};

/// Throws Error(kUsage) for a name that a living sandbox has.
void refuseTaken(const SandboxRecords& records, const std::optional<std::string>& name);

/// The steps of sandboxes within one write transaction; each records an event. What is not as a step expects it is an
/// Error(kNotAllowed), and nothing of the transaction is kept.
class SandboxWriter {
  public:
    SandboxWriter(Writer& writer, ActorId by);

    const SandboxRecords& records() const { return records_; }

    /// Gives the record as it is from now on. Throws Error(kUsage) for a name that a living one has.
    SandboxRecord create(const SandboxDraft& draft);
    void keep(std::int64_t sandbox, const std::optional<std::string>& name, Milliseconds lifetime);
    /// The sandbox's layer is frozen under that name, and a new one takes its changes.
    SnapshotRecord snapshot(std::int64_t sandbox, const std::string& name);
    /// A new layer on the snapshot's takes the changes; gives the one that did so far.
    std::int64_t restore(const SnapshotRecord& snapshot);
    /// As snapshot(), without a name; gives the frozen layer.
    std::int64_t freeze(std::int64_t sandbox);
    /// One frozen layer, with everything that was below the sandbox's own, takes their place; gives its id.
    std::int64_t squash(std::int64_t sandbox);
    /// Its own layer is about to be written to from outside.
    void touch(std::int64_t sandbox);
    void end(std::int64_t sandbox, SandboxEnd reason, const std::optional<Digest>& changeSet = {});
    void removeSnapshot(const SnapshotRecord& snapshot);

    std::int64_t start(const ExecutionDraft& draft);
    void finish(const Execution& execution);
    void lose(const RunningExecution& execution);

  private:
    SandboxRecord living(std::int64_t sandbox) const;
    EventDraft about(EventKind kind, std::int64_t sandbox) const;

    Writer& writer_;
    SandboxRecords records_;
    ActorId by_;
};

}  // namespace gradus
