#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "stages/drivers/driver.h"
#include "stages/drivers/git_plumbing.h"

namespace gradus {

/// Trees of commits as directories, each written once. Whoever asks, with or without the target's lock, finds a whole
/// one or makes it. As root the files belong to the project's owner.
class BranchTrees {
  public:
    explicit BranchTrees(const DriverContext& context);

    /// The tree of `commit`, or of the directory that the repository's prefix names.
    HeldTree at(const GitWorkTree& git, const GitPlumbing& plumbing, const std::string& commit) const;
    /// Removes all but the trees of these directories.
    void tidy(const std::set<std::filesystem::path>& wanted) const;

  private:
    std::filesystem::path root_;
    std::filesystem::path project_;
};

}  // namespace gradus
