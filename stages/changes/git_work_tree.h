#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace gradus {

/// Where git keeps its own things for a directory. Found by reading; git itself is never run.
struct GitWorkTree {
    std::filesystem::path root;       ///< the directory with the `.git`
    std::filesystem::path directory;  ///< of this work tree: has its index
    std::filesystem::path common;     ///< shared by all work trees of the repository: has info/exclude
    std::string prefix;               ///< from `root` to the directory that was asked for: "" or "a/b/"
};

/// The work tree that `directory` lies in, itself or above it; nothing where there is none.
std::optional<GitWorkTree> findWorkTree(const std::filesystem::path& directory);

/// Throws Error(kNotAllowed) for a git directory that belongs to neither the caller nor, if that is root, the owner of
/// `project`. The same rule as git's: a repository of somebody else may be made to run code of theirs.
void refuseForeign(const std::filesystem::path& git, const std::filesystem::path& project);
/// The same for all of a work tree's directories, and for a linked work tree that its repository does not know: a file
/// `.git` that came with somebody's archive could name any repository of this user.
void refuseForeign(const GitWorkTree& tree, const std::filesystem::path& project);

/// A regular file's bytes; nothing when there is none, when it is a link or anything else, or larger than `cap`.
std::optional<std::string> readPlainFile(int directory, const std::string& name, std::uint64_t cap);

}  // namespace gradus
