#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "stages/changes/git_work_tree.h"
#include "stages/drivers/driver.h"
#include "stages/drivers/git_plumbing.h"

namespace gradus {

/// The repository at `path`, bare or not: a directory that is one, or that lies in the work tree of one. Throws Error
/// if there is none, or if it is another user's.
GitWorkTree openRepository(const std::filesystem::path& path, const std::filesystem::path& project);

/// One repository with the branch in it: the stage's own, or the one that is pushed to. The ref is only ever moved from
/// exactly the commit that it is expected at.
class BranchSide {
  public:
    /// `name`: what people call the branch there.
    BranchSide(const GitWorkTree& git, std::string ref, std::string name, FileOperations& files);

    const GitWorkTree& repository() const { return git_; }
    GitPlumbing& plumbing() const { return plumbing_; }
    const std::string& name() const { return name_; }

    /// Nothing: there is no such branch yet.
    std::optional<std::string> tip() const { return plumbing_.commitAt(ref_); }
    /// The branch is at `commit`, or has gone on from there.
    bool holds(const std::string& commit) const;
    /// Why the branch may not be moved: a work tree has it checked out, or it is another branch's name.
    std::optional<Conflict> obstacle() const;

    /// From one commit to the next. The reason, if it was somewhere else.
    std::optional<Conflict> land(const std::optional<std::string>& from, const std::string& commit);
    /// Back again, if nobody has gone on from there: that is kept.
    void takeBack(const std::string& commit, const std::optional<std::string>& to, RollbackOutcome& outcome);

  private:
    std::optional<std::filesystem::path> checkedOutIn() const;

    GitWorkTree git_;
    std::string ref_;
    std::string name_;
    mutable GitPlumbing plumbing_;
};

}  // namespace gradus
