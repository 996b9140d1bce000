#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/model/digest.h"
#include "store/model/names.h"

namespace gradus {

enum class EntryType { kFile, kSymlink, kDirectory };

inline constexpr std::array kEntryTypes{
    Name<EntryType>{EntryType::kFile, "file"},
    Name<EntryType>{EntryType::kSymlink, "symlink"},
    Name<EntryType>{EntryType::kDirectory, "directory"},
};

/// What is at a path: a file's or link's bytes by digest, a directory's presence.
struct Entry {
    EntryType type = EntryType::kFile;
    std::uint32_t mode = 0644;  ///< the 0777 bits; setuid, setgid and sticky are refused
    Digest digest;              ///< of the content, or of the link's text; all zero for a directory
    std::uint64_t size = 0;

    auto operator<=>(const Entry&) const = default;
};

/// One path's transition. `before` is only meaningful when known: a base that moved under a sandbox leaves it unknown,
/// and then the path is never written without a merge.
struct PathChange {
    std::string path;
    std::optional<Entry> before;
    std::optional<Entry> after;
    bool beforeKnown = true;

    bool operator==(const PathChange&) const = default;
};

enum class ChangeKind { kAdded, kModified, kDeleted, kModeChanged, kTypeChanged };

inline constexpr std::array kChangeKinds{
    Name<ChangeKind>{ChangeKind::kAdded, "added"},
    Name<ChangeKind>{ChangeKind::kModified, "modified"},
    Name<ChangeKind>{ChangeKind::kDeleted, "deleted"},
    Name<ChangeKind>{ChangeKind::kModeChanged, "mode-changed"},
    Name<ChangeKind>{ChangeKind::kTypeChanged, "type-changed"},
};

/// What people call the transition. One whose `before` is unknown is a deletion or, for want of better knowledge, a
/// modification.
ChangeKind kindOf(const PathChange& change);

/// A sorted list of path transitions; its digest is its identity.
class ChangeSet {
  public:
    ChangeSet() = default;
    /// Sorts by path. Throws Error for a path that is not plain and relative, that is given twice, that leads into a
    /// `.git`, or for a mode outside 0777.
    explicit ChangeSet(std::vector<PathChange> changes);

    const std::vector<PathChange>& changes() const { return changes_; }
    bool empty() const { return changes_.empty(); }
    bool operator==(const ChangeSet&) const = default;

    /// The canonical form: what is hashed, and what is kept as an object.
    std::string encode() const;
    /// Throws Error(kDamaged) unless `bytes` are exactly what encode() gives for some change set.
    static ChangeSet decode(std::string_view bytes);
    Digest digest() const;

  private:
    std::vector<PathChange> changes_;
};

/// Why `path` may not be in a change set or a manifest, or nothing if it may.
std::optional<std::string> pathFault(std::string_view path);

/// A tree: what a stage holds.
class Manifest {
  public:
    struct Item {
        std::string path;
        Entry entry;
        bool operator==(const Item&) const = default;
    };
    Manifest() = default;
    /// Sorts by path; the same refusals as ChangeSet.
    explicit Manifest(std::vector<Item> items);
    const std::vector<Item>& items() const { return items_; }
    bool operator==(const Manifest&) const = default;
    Digest digest() const;

  private:
    std::vector<Item> items_;
};

/// What a change was made on: for git the commit plus the work tree's own differences from it, for a plain directory
/// its manifest.
struct BaseFingerprint {
    std::string commit;  ///< hexadecimal object id; empty for a plain directory
    Digest tree;         ///< the differences' change set, or the manifest
    bool operator==(const BaseFingerprint&) const = default;
    /// What is hashed, and what is kept as an object.
    std::string encode() const;
    /// Throws Error(kDamaged) unless `bytes` are exactly what encode() gives.
    static BaseFingerprint decode(std::string_view bytes);
    Digest digest() const;
};

}  // namespace gradus
