#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stages/drivers/driver.h"
#include "stages/drivers/release_layout.h"
#include "stages/drivers/release_shelf.h"

namespace gradus {

/// What one promotion into a release directory needs to be finished or taken back.
struct ReleaseStep {
    std::int64_t promotion = 0;
    std::string handle;  ///< of the change
    std::string id;      ///< the new release
    Digest manifest;     ///< its tree
    /// What `current` was: the link's text and the release's id. Nothing: the stage was empty.
    std::optional<std::string> previousLink;
    std::string previous;

    std::string encode() const;
    static ReleaseStep decode(const Checkpoint& checkpoint);
};

/// A directory of releases and a link to the one in use. docs/stages.md has layout and promises.
class ReleaseDirectoryDriver final : public StageDriver {
  public:
    explicit ReleaseDirectoryDriver(const DriverContext& context);
    ReleaseDirectoryDriver(const DriverContext& context, const ReleaseLayout& layout);

    TargetIdentity identity() const override;
    std::optional<HeldTree> held() const override;
    std::optional<std::filesystem::path> shown() const override;
    std::optional<Manifest> source() const override;
    StageTrees trees(const Checkpoint& checkpoint) const override;
    HeldTree adopt(Adopting how) override;
    /// Whether a release of that tree is there, as it was recorded.
    bool keeps(const Digest& tree) const { return kept(tree).has_value(); }
    /// Lets `current` lead to such a release, or nowhere; runs nothing. Throws Error(kNotAllowed) if there is none.
    std::optional<HeldTree> takeKept(const std::optional<Digest>& tree, Adopting how);
    std::vector<Conflict> conflicts(const StageChange& change) const override;
    Checkpoint checkpoint(const StageChange& change) override;
    ApplyOutcome apply(const Checkpoint& checkpoint) override;
    Observed observe(const Checkpoint& checkpoint) const override;
    bool holdsOnlyOurs() const override { return true; }
    std::vector<std::string> lost(const Checkpoint& checkpoint) const override;
    std::optional<Obstruction> obstruction(const Checkpoint& checkpoint) const override;
    RollbackOutcome rollback(const Checkpoint& checkpoint) override;
    std::optional<Digest> treeAfter(const Checkpoint& checkpoint) const override;
    std::vector<Kept> departed(const Checkpoint& checkpoint) const override;
    void tidy(const std::vector<Checkpoint>& needed) override;
    void leave() override { removeTarget(); }

  private:
    struct Current {
        std::string link;
        ReleaseHead head;
    };
    std::optional<Current> current() const;
    std::optional<ReleaseHead> kept(const Digest& tree) const;
    void leadTo(const std::optional<ReleaseHead>& head);
    std::vector<std::string> goneOf(const ReleaseStep& step) const;
    std::vector<std::string> strangers() const;
    void requireUntouched() const;
    void requireNobodyElses() const;
    HeldTree adoptLinked(int root, Adopting how);
    HeldTree adoptDirectory(int root, const Sighting& seen, Adopting how);
    ReleaseHead remember(const std::string& id, const TreeRecord& record);
    ReleaseHead build(const std::string& id, const std::optional<Current>& current, const StageChange& change);
    HostOutcome activate(const ReleaseStep& step, bool isBack, std::string& log);
    bool switchBack(const ReleaseStep& step, RollbackOutcome& outcome);
    void verifyPrevious(const ReleaseStep& step, RollbackOutcome& outcome) const;
    bool drop(const std::string& id, std::vector<Kept>& kept);
    void addDepartures(const ReleaseHead& head, std::vector<Kept>& kept) const;
    void clearMade(std::vector<Kept>& kept);
    void clearUnused();
    bool isLedTo(const std::string& made) const;
    void removeTarget();
    std::vector<std::string> newest(std::size_t count, const std::string& shown) const;

    DriverContext context_;
    ReleaseLayout layout_;
    std::vector<std::string> activate_;
    std::int64_t keep_ = 5;
    ReleaseShelf shelf_;
};

}  // namespace gradus
