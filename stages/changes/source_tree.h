#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "stages/changes/output_patterns.h"
#include "stages/changes/tree_reader.h"
#include "store/model/change_set.h"

namespace gradus {

/// A tree without some of its paths and what is below them, as if they were not there.
class PartialReader final : public TreeReader {
  public:
    /// `whole` outlives it.
    PartialReader(const TreeReader& whole, const std::vector<std::string>& without)
        : whole_(whole), without_(without.begin(), without.end()) {}
    std::optional<Entry> at(const std::string& path) const override;
    std::optional<Entry> keep(const std::string& path, Objects& objects) const override;
    std::vector<std::string> names(const std::string& directory) const override;

  private:
    bool isLeftOut(const std::string& path) const;

    const TreeReader& whole_;
    std::set<std::string> without_;
};

/// Every file and link of a directory as it lies there, all the way down; `.git` is left out.
Manifest filesIn(const std::filesystem::path& directory, const std::vector<std::string>& leftOut);

/// What a change makes of a tree, told by its files alone: names, bytes, and whether they can be executed. Empty
/// directories, owners and the rest of the modes are not looked at, so that a commit, a work tree and a release of the
/// same files are the same.
Digest sourceDigest(const Manifest& tree, const ChangeSet& changes);

/// Paths of a directory that match and are no files of the tree: left over from a build that somebody else made there.
/// A directory that holds nothing else is named as a whole.
std::vector<std::string> leftOvers(const std::filesystem::path& directory, const OutputPatterns& patterns,
                                   const Manifest& tree);

}  // namespace gradus
