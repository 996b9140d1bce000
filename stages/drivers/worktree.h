#pragma once

#include <filesystem>

#include "stages/changes/git_work_tree.h"
#include "stages/drivers/driver.h"
#include "stages/drivers/worktree_commit.h"

namespace gradus {

/// The project's own work tree: a change is written into it around whatever else is edited there, and becomes a commit
/// as well if the stage says so. docs/stages.md has the promises.
class WorktreeDriver final : public StageDriver {
  public:
    explicit WorktreeDriver(const DriverContext& context);

    TargetIdentity identity() const override;
    std::optional<HeldTree> held() const override;
    std::optional<std::filesystem::path> shown() const override { return context_.project; }
    HeldTree adopt(Adopting how) override;
    std::vector<Conflict> conflicts(const StageChange& change) const override;
    Checkpoint checkpoint(const StageChange& change) override;
    ApplyOutcome apply(const Checkpoint& checkpoint) override;
    Observed observe(const Checkpoint& checkpoint) const override;
    std::vector<std::string> lost(const Checkpoint& checkpoint) const override;
    std::optional<Obstruction> obstruction(const Checkpoint& checkpoint) const override;
    RollbackOutcome rollback(const Checkpoint& checkpoint) override;
    std::optional<Digest> treeAfter(const Checkpoint&) const override { return std::nullopt; }
    void tidy(const std::vector<Checkpoint>& needed) override;

  private:
    Plan planned(const StageChange& change) const;
    TreeWriter writer() const;
    Observed observeFiles(const JournalRef& journal) const;
    /// The directory that the journal speaks of is not the one that is here now.
    bool isGone(const JournalRef& journal) const;
    static void forget(JournalDirectory& directory, const JournalRef& journal);
    /// How a change becomes a commit; nothing unless the stage says so.
    std::optional<WorktreeCommit> committing() const;
    WorktreeCommit repository() const;
    std::filesystem::path journals() const { return context_.state / "journals"; }

    DriverContext context_;
    std::optional<GitWorkTree> git_;
};

}  // namespace gradus
