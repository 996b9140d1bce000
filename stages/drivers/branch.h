#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stages/drivers/branch_side.h"
#include "stages/drivers/branch_trees.h"
#include "stages/drivers/driver.h"

namespace gradus {

/// What one promotion onto a branch needs to be finished or taken back.
struct BranchStep {
    std::string commit;
    std::optional<std::string> parent;  ///< what the branch was at; nothing: there was none
    std::string guard;                  ///< the ref that keeps the commit from being collected
    Digest tree;                        ///< that the stage holds afterwards
    struct Push {
        std::string remote;  ///< its name
        std::filesystem::path repository;
        std::optional<std::string> before;  ///< what the branch was at there
    };
    std::optional<Push> push;

    std::string encode() const;
    static BranchStep decode(const Checkpoint& checkpoint);
};

/// A branch of a repository on this machine: a change becomes one commit on it. docs/stages.md has the promises.
class BranchDriver final : public StageDriver {
  public:
    explicit BranchDriver(const DriverContext& context);

    TargetIdentity identity() const override;
    std::optional<HeldTree> held() const override;
    std::optional<std::filesystem::path> shown() const override;
    HeldTree adopt(Adopting how) override;
    std::vector<Conflict> conflicts(const StageChange& change) const override;
    Checkpoint checkpoint(const StageChange& change) override;
    ApplyOutcome apply(const Checkpoint& checkpoint) override;
    Observed observe(const Checkpoint& checkpoint) const override;
    std::vector<std::string> lost(const Checkpoint& checkpoint) const override;
    std::optional<Obstruction> obstruction(const Checkpoint& checkpoint) const override;
    RollbackOutcome rollback(const Checkpoint& checkpoint) override;
    std::optional<Digest> treeAfter(const Checkpoint& checkpoint) const override;
    void tidy(const std::vector<Checkpoint>& needed) override;

  private:
    std::optional<Obstruction> outOfReach(const BranchStep::Push& push) const;
    void requireFree() const;
    std::optional<HeldTree> heldAt(const std::optional<std::string>& tip) const;
    std::vector<Conflict> conflictsAt(const std::optional<std::string>& tip, const StageChange& change) const;
    std::vector<Conflict> remoteConflicts(const std::optional<std::string>& tip) const;
    std::vector<Conflict> seedConflicts(const StageChange& change) const;
    std::vector<Conflict> treeConflicts(const std::string& tip, const StageChange& change) const;
    std::vector<Conflict> filtered(const std::string& tip, const ChangeSet& view) const;
    /// The change as git can hold it, against the tree of `tip`.
    ChangeSet viewed(const ChangeSet& changes, const std::string& tip) const;
    GitPlumbing::NewCommit composed(const std::optional<std::string>& tip, const StageChange& change);
    GitEntries seedEntries(const StageChange& change);
    std::optional<BranchSide> remote() const;
    BranchSide remoteOf(const BranchStep::Push& push) const;
    std::optional<BranchStep::Push> prepareRemote(const std::string& commit);
    std::string guards() const;
    void letGo(const std::string& guard, const std::optional<std::string>& commit);

    DriverContext context_;
    std::string branch_;
    mutable BranchSide local_;
    BranchTrees trees_;
};

}  // namespace gradus
