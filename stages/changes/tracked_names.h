#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {

/// The names in git's index file (versions 2 to 4, SHA-1 or SHA-256), and nothing else of it. Pure: bytes in.
class TrackedNames {
  public:
    /// Nothing unless `bytes` are a whole index. Its checksum is not computed: lengths must fit to the last byte.
    static std::optional<TrackedNames> parse(std::string_view bytes);

    /// `path` itself, or a directory of a sparse index that it lies in.
    bool contains(std::string_view path) const;
    bool containsBeneath(std::string_view directory) const;
    /// In the index, and left out of the work tree on purpose: by a sparse checkout.
    bool isSkipped(std::string_view path) const;
    /// Names, each once, that a merge has left with more than one version. Of one whose name is in the shared index:
    /// "".
    const std::vector<std::string>& unmerged() const { return unmerged_; }
    /// The names come from another index beside this one too: its file is called `sharedindex.` and this.
    const std::string& sharedWith() const { return shared_; }

  private:
    class Reader;
    bool isInSparseDirectory(std::string_view path) const;

    std::vector<std::string> names_;    ///< in order of their bytes
    std::vector<std::string> skipped_;  ///< the same, of some of them
    std::vector<std::string> unmerged_;
    std::string shared_;
    bool sparse_ = false;
};

}  // namespace gradus
