#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/objects.h"

namespace gradus {

/// One entry of a commit's tree.
struct GitTreeItem {
    std::string path;
    std::string id;
    std::uint32_t mode = 0;  ///< as git writes it: 040000, 100644, 100755, 120000, 160000

    bool isDirectory() const { return mode == 0040000; }
    bool isSubmodule() const { return mode == 0160000; }
    bool isLink() const { return mode == 0120000; }
    bool isExecutable() const { return mode == 0100755; }
    bool isBlob() const { return !isDirectory() && !isSubmodule(); }
};

struct GitCommit {
    std::string id;
    std::vector<std::string> parents;
    std::string author;   ///< "Name <mail>"
    std::string message;  ///< as it was written, its first line the title
    std::string title() const;
};

/// From one commit to another.
struct GitDistance {
    std::uint64_t ahead = 0;   ///< commits that the other has in addition
    std::uint64_t behind = 0;  ///< and those that it lacks
};

/// Reads objects of a repository with the user's own git: `rev-parse`, `rev-list`, `ls-tree` and `cat-file`, which look
/// at no work tree and run neither hooks nor filters; without configuration of user or machine, without network,
/// without prompts (docs/decisions: commits are read by git).
class GitObjects {
  public:
    /// `git`: the directory, or the file that names one. Throws Error if there is no git program.
    explicit GitObjects(std::filesystem::path git);

    /// The full name of a commit. Throws Error if there is none of that name.
    std::string resolveCommit(const std::string& name) const;
    /// The same; "none of that name" is an answer.
    std::optional<std::string> findCommit(const std::string& name) const;
    /// `commit`: a full name.
    GitCommit commit(const std::string& commit) const;
    /// Nothing: one of them, or what lies between, is not there. Full names.
    std::optional<GitDistance> distance(const std::string& from, const std::string& to) const;

    /// Everything in the tree of `commit` below `prefix`, directories before what they hold; nothing where the commit
    /// has no such directory.
    std::optional<std::vector<GitTreeItem>> tree(const std::string& commit, const std::filesystem::path& prefix) const;

    /// Calls `each` for every id in order, with its number, its size and the content, which ends where it ends; what is
    /// left unread is skipped. Throws Error when a content is missing, by its path where `paths` has them.
    void blobs(const std::vector<std::string>& ids,
               const std::function<void(std::size_t number, std::uint64_t size, ByteSource& content)>& each,
               const std::vector<std::string>& paths = {}) const;

  private:
    std::filesystem::path git_;
    std::filesystem::path program_;
};

/// All that is left of it. For contents whose size is known to be small.
std::string readWhole(ByteSource& source);

}  // namespace gradus
