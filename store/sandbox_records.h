#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/model/execution.h"
#include "store/model/sandbox.h"
#include "store/sql.h"

namespace gradus {

/// A command that is said to be running, and the process that waits for it.
struct RunningExecution {
    std::int64_t id = 0;
    std::int64_t sandbox = 0;
    ProcessIdentity owner;
};

/// What is remembered about sandboxes, to be asked; "not found" is an answer. One thread at a time.
class SandboxRecords {
  public:
    explicit SandboxRecords(Sql& sql) : sql_(&sql) {}

    std::optional<SandboxRecord> sandbox(std::int64_t id) const;
    /// Of that kind, oldest first.
    std::vector<SandboxRecord> living(SandboxKind kind) const;
    /// Among living kept ones.
    std::optional<std::int64_t> named(const std::string& name) const;
    std::optional<std::int64_t> latest() const;

    /// Oldest first.
    std::vector<SnapshotRecord> snapshots(std::int64_t sandbox) const;
    std::optional<SnapshotRecord> snapshot(std::int64_t sandbox, const std::string& name) const;

    std::optional<LayerRecord> layer(std::int64_t id) const;
    /// The layer and all below it, topmost first.
    std::vector<LayerRecord> chain(std::int64_t layer) const;
    /// Every layer that a living sandbox, or a snapshot of one, stands on.
    std::set<std::int64_t> reachableLayers() const;
    /// Living sandboxes but `except` that stand on the layer.
    std::vector<std::int64_t> standingOn(std::int64_t layer, std::int64_t except) const;

    std::optional<Execution> execution(std::int64_t id) const;
    /// Newest first.
    std::vector<Execution> executions(std::int64_t sandbox, std::int64_t limit) const;
    std::vector<RunningExecution> running() const;

    /// The next free ones, inside a write transaction.
    std::int64_t nextSandbox() const;
    std::int64_t nextLayer() const;
    std::int64_t nextSnapshot() const;
    std::int64_t nextExecution() const;

  private:
    Sql& sql() const { return *sql_; }
    Sql* sql_;
};

}  // namespace gradus
