#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "stages/changes/overlay_marks.h"
#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

/// A repository's own directory that lies outside of the base: of a linked work tree, or above the project.
struct RepositorySource {
    std::vector<int> layers;  ///< as in HarvestSource
    std::filesystem::path base;
};

/// What one sandbox wrote over its base.
struct HarvestSource {
    /// Directories that hold the changes, topmost first, borrowed: an overlay's upper and the layers of its snapshots.
    std::vector<int> layers;
    /// The directory they lie over, as the host sees it now.
    std::filesystem::path base;
    /// The file system's own clock just before `base` was first shown inside (fileSystemNow). An inode changed since
    /// then may not be what the sandbox saw.
    timespec since{};
    /// The base is a copy nobody else writes: what is there is what was there.
    bool pinned = false;
    /// Relative paths that the host put below the overlay (mount points, hidden places): never a change, nor is
    /// anything beneath them.
    std::vector<std::string> notOurs;
    /// Whose marks the mount obeyed. By default as the jail mounts: the user's own unless the caller is root.
    std::optional<MarkSpace> marks;
    /// The directory by whose repository files are ignored, when the base has none of its own (a pinned commit's
    /// files); empty: the base.
    std::filesystem::path repository;
    /// The user's own ignore rules (git's core.excludesFile), if the caller knows them.
    std::filesystem::path excludesFile;
    std::vector<RepositorySource> repositories;
};

struct HarvestOptions {
    bool withIgnored = false;
    /// Of paths looked at, ignored ones too.
    std::uint64_t maxEntries = 1'000'000;
    /// Of content read for digests, holes not counted.
    std::uint64_t maxBytes = std::uint64_t{64} << 30;
    /// Of holes, which cost nothing on disk and still have to be hashed. A file beyond it is refused, before it is
    /// read.
    std::uint64_t maxHoles = std::uint64_t{4} << 30;
    /// Of the paths looked at, all together: a path of 4,000 bytes costs as much memory as 40 ordinary ones.
    std::uint64_t maxPathBytes = std::uint64_t{256} << 20;
    /// Of pieces between holes that are looked for. A file beyond it is refused.
    std::uint64_t maxExtents = 1'000'000;
    /// Without it only files are read that have the size of the base's file, to tell whether they changed; of all
    /// others size and mode are told, and the digest is zero.
    bool readsContents = true;
    /// Asked between names and between pieces of a file. Stopped, or later than `until`: throws Error.
    std::stop_token cancel;
    std::optional<std::chrono::steady_clock::time_point> until;
    /// Where the new contents go. Without it they are hashed and not kept.
    Objects* keep = nullptr;
};

/// Something in a layer that cannot be part of a change: a socket, a fifo, a device, a set-user-ID bit, a name that no
/// change may have, a file that the caller may not read. The path is then not in `changes`, nor what a refused new
/// directory holds. A forged overlay attribute is told here too, but only the attribute is left out.
struct Unharvested {
    std::string path;  ///< safe to show: what is not plain text in it is escaped
    std::string reason;
};

/// Something outside of the project that a copy of the system has otherwise than the host.
struct SystemChange {
    std::string path;  ///< absolute
    ChangeKind kind = ChangeKind::kAdded;
};

/// What a copy of the system changed outside of the project: counted and listed, and part of no change.
struct SystemChanges {
    std::uint64_t entries = 0;                   ///< a million at most are counted
    std::map<std::string, std::uint64_t> below;  ///< by top-level directory
    std::vector<SystemChange> listed;            ///< the first thousand, by path
};

struct Harvest {
    ChangeSet changes;
    std::optional<SystemChanges> system;  ///< of a copy of the system
    /// Paths that git ignores, each file counted once; not part of `changes` unless asked for.
    /// The rules are the base's; what the change adds to them hides nothing of it.
    std::uint64_t ignored = 0;
    /// Of these, below new directories that ignore themselves, as a test runner's cache does.
    std::uint64_t ignoredBySelf = 0;
    /// Files of repositories themselves that are not as in the base: below the project's `.git`, below that of a
    /// repository made inside, below `repositories`. Never part of `changes`. What git only refreshes (`index`) does
    /// not count, nor does a repository in an ignored directory. Beyond a hundred thousand nobody counts on.
    std::uint64_t inRepository = 0;
    /// Changed here, and by somebody else outside since the start: their `before` is unknown.
    std::vector<std::string> baseMoved;
    std::vector<Unharvested> refused;
};

/// What the layers say, compared with the base. Costs as much as there are changes, whatever the size of the base.
/// Never follows a link, never opens anything but regular files and directories, never runs a program. No command may
/// be running in the sandbox; the base may be written by others meanwhile. Throws Error beyond the options' bounds, and
/// when a layer cannot be read.
Harvest harvest(const HarvestSource& source, const HarvestOptions& options);

/// Throws Error where the options say that the walk is to end.
void goOnHarvesting(const HarvestOptions& options);

/// The clock that stamps inodes: coarser than the wall clock, and never ahead of it.
timespec fileSystemNow();

}  // namespace gradus
