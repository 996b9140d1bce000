#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stages/changes/git_work_tree.h"
#include "stages/drivers/driver.h"
#include "stages/drivers/git_change.h"
#include "stages/drivers/git_plumbing.h"

namespace gradus {

/// A commit whose objects are written and that no ref leads to yet.
struct PreparedCommit {
    std::string ref;
    std::optional<std::string> parent;
    std::string id;
    /// What git has at each path before and after.
    struct Step {
        std::string path;  ///< from the repository's top
        std::optional<GitEntry> before;
        std::optional<GitEntry> after;
    };
    std::vector<Step> steps;

    std::string encode() const;
    static PreparedCommit decode(std::string_view bytes);
};

/// `commit = true`: the change becomes a commit on the branch that is checked out, and nothing else does: what a person
/// has staged or edited stays staged and edited.
class WorktreeCommit {
  public:
    WorktreeCommit(const DriverContext& context, const GitWorkTree& git);

    /// Why no commit can be made of exactly this change. Reads only.
    std::vector<Conflict> conflicts(const StageChange& change) const;
    /// Writes objects. Nothing if the change is about directories alone.
    std::optional<PreparedCommit> prepare(const StageChange& change);

    /// The branch leads to the commit, the index has its entries. The reason, if the branch has moved meanwhile.
    std::optional<Conflict> land(const PreparedCommit& commit, std::vector<std::string>& notes);
    /// Wholly, as far as nobody has gone on from there.
    bool isLanded(const PreparedCommit& commit) const;
    bool isUntouched(const PreparedCommit& commit) const;
    /// Back to the parent; what still has the commit, or what it brought, and why.
    std::vector<Kept> takeBack(const PreparedCommit& commit);

  private:
    void addUncommitted(const FilesByPath& files, std::vector<Conflict>& found) const;
    /// Index entries that are as one side of the steps become as the other.
    bool restage(const PreparedCommit& commit, bool isForward);
    std::string indexLocked() const;
    /// The commit that is checked out, if it has anything of what the steps lead to.
    std::optional<std::string> headWithIt(const PreparedCommit& commit) const;

    const DriverContext& context_;
    GitWorkTree git_;
    mutable GitPlumbing plumbing_;
};

}  // namespace gradus
