#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

/// A project's files as a value.
struct WorkTree {
    BaseFingerprint fingerprint;
    /// From the commit to the files, tracked and untracked, not ignored. Of a directory without git: nothing, its
    /// fingerprint is the digest of its manifest.
    ChangeSet differences;
    Manifest manifest;               ///< of a directory without git; empty otherwise
    std::vector<std::string> notes;  ///< a submodule or a file of git LFS that is left alone
};

struct WorkTreeRequest {
    std::filesystem::path project;  ///< real path
    /// A file of ours that remembers digests by inode, size and times, so that an unchanged file is not read again.
    /// Empty: nothing is remembered.
    std::filesystem::path cache;
    /// A person's own ignore rules (git's core.excludesFile), if the caller knows them.
    std::filesystem::path excludesFile;
    /// Where the contents of differences go, both sides; without it they are hashed and not kept.
    Objects* keep = nullptr;
};

/// Reads the tree, as bytes: what git would convert on the way (line endings, filters) differs from the commit. Modes
/// are 644 and 755, as git knows them, but for a directory without git. A repository without a commit counts as such a
/// directory, without its ignored files. git itself only reads objects, never the work tree. Files that change while
/// they are read are read again; one that never stands still is an Error.
WorkTree readWorkTree(const WorkTreeRequest& request);

/// The files themselves, tracked and untracked, not ignored, whatever any commit says.
Manifest workTreeFiles(const WorkTreeRequest& request);

}  // namespace gradus
