#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stages/drivers/command_request.h"
#include "stages/drivers/driver.h"
#include "stages/drivers/release_directory.h"

namespace gradus {

/// Commands of the user's own bring trees somewhere and back. What the stage holds is a copy of ours: a release
/// directory below the state that nobody else sees. docs/stages.md has what is promised, and what cannot be.
class CommandDriver final : public StageDriver {
  public:
    explicit CommandDriver(const DriverContext& context);

    TargetIdentity identity() const override;
    std::optional<HeldTree> held() const override { return copies_.held(); }
    std::optional<std::filesystem::path> shown() const override { return copies_.shown(); }
    std::optional<Manifest> source() const override { return copies_.source(); }
    StageTrees trees(const Checkpoint& checkpoint) const override {
        return copies_.trees(CommandStep::decode(checkpoint).copies);
    }
    HeldTree adopt(Adopting how) override;
    std::optional<Conflict> foreignTree() const override;
    bool canLook() const override { return false; }
    std::optional<HeldTree> vouchedFor(const std::optional<Digest>& tree, Adopting how) override;
    std::vector<Conflict> conflicts(const StageChange& change) const override;
    Checkpoint checkpoint(const StageChange& change) override;
    ApplyOutcome apply(const Checkpoint& checkpoint) override;
    Observed observe(const Checkpoint& checkpoint) const override;
    std::vector<std::string> lost(const Checkpoint& checkpoint) const override {
        return copies_.lost(CommandStep::decode(checkpoint).copies);
    }
    std::optional<Obstruction> obstruction(const Checkpoint& checkpoint) const override;
    RollbackOutcome rollback(const Checkpoint& checkpoint) override;
    std::optional<Digest> treeAfter(const Checkpoint& checkpoint) const override;
    void tidy(const std::vector<Checkpoint>& needed) override;

  private:
    struct Status {
        std::optional<std::string> printed;  ///< nothing if there is no such command, or if it cannot tell
        std::string fault;                   ///< why it cannot
    };
    Status askStatus() const;
    std::optional<std::string> status() const { return askStatus().printed; }
    std::string wordWanted() const;
    /// Whether something of this tree can be there: `apply` ran for it at some time.
    bool wasBrought(const Digest& tree) const;
    /// For a hint: how to see all of an output that a message has only the beginning of; empty: it has all.
    std::string whereTheRestIs(const std::string& said) const;
    HostCommand prepared(const std::string& action, const std::vector<std::string>& told) const;
    /// Why it did not go well; empty if it did.
    std::string perform(const std::string& action, const TargetRequest& request, std::string& log);
    std::string bring(const TargetRequest& request, std::string& log);
    std::string carryOut(const Checkpoint& checkpoint, std::string& log);
    bool bringBack(const CommandStep& step, RollbackOutcome& outcome);
    bool isForeign(const CommandStep& step, RollbackOutcome& outcome) const;
    TargetRequest requestOf(const CommandStep& step, bool isBack) const;

    DriverContext context_;
    ReleaseLayout layout_;
    ReleaseDirectoryDriver copies_;
    ReleaseShelf shelf_;
};

}  // namespace gradus
