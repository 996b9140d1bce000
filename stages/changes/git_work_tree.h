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

/// A regular file's bytes; nothing when there is none, when it is a link or anything else, or larger than `cap`.
std::optional<std::string> readPlainFile(int directory, const std::string& name, std::uint64_t cap);

}  // namespace gradus
