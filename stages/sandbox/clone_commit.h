#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "store/file.h"
#include "store/model/clock.h"

namespace gradus {

/// The tree of a commit as a directory.
struct MaterialisedCommit {
    std::filesystem::path tree;      ///< for CloneRequest::lowers; never to be written
    std::string commit;              ///< its full name
    std::vector<std::string> notes;  ///< a submodule that is left empty, files that git LFS keeps elsewhere
    FileDescriptor use;              ///< while it is open, collectCommits() lets the tree be
};

/// Writes the tree of `commit` (a full or short name, a branch, a tag) of the project's repository below
/// `cacheDirectory`, once: the second call finds it there. If the project is a part of its repository, the same part of
/// the commit. Exactly the commit's bytes, modes and links: no filter, hook or attribute has a say. Safe to call at
/// once from several processes and to be killed at any time; a directory that is there is whole, also after a power
/// cut. As root the files belong to the project's owner.
/// Throws Error: no repository, one that belongs to somebody else, no such commit, a tree that no file system should
/// hold, a full disk.
MaterialisedCommit materialise(const std::filesystem::path& project, const std::string& commit,
                               const std::filesystem::path& cacheDirectory);

/// Moves every tree that was last asked for before `before` and that nobody holds into `trash`, on the same file
/// system, for somebody to delete. `isNeeded` is asked about a commit, by its full name, while nobody can begin to use
/// its tree. Gives the number of trees moved. Safe beside materialise(): whoever comes too late makes the tree anew.
std::uint64_t collectCommits(const std::filesystem::path& cacheDirectory, Time before,
                             const std::function<bool(const std::string&)>& isNeeded,
                             const std::filesystem::path& trash);

}  // namespace gradus
