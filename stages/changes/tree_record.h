#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/changes/tree_writer_beneath.h"
#include "store/model/change_set.h"

namespace gradus {

/// One path of a tree on disk: what it is, whose, and by what to tell without reading that it still is.
struct RecordedPath {
    std::string path;
    Entry entry;
    uid_t user = 0;
    gid_t group = 0;
    std::uint64_t inode = 0;
    timespec modified{};
    timespec changed{};
};

/// A tree on disk as it was at one instant. Costs O(paths).
struct TreeRecord {
    std::vector<RecordedPath> paths;  ///< by path, so directories come before what is in them

    Manifest manifest() const;
    std::uint64_t bytes() const;
    const RecordedPath* find(std::string_view path) const;

    std::string encode() const;
    /// Throws Error(kDamaged).
    static TreeRecord decode(std::string_view bytes);
};

struct RecordRequest {
    /// Asked with a path; true: neither it nor anything below it belongs to the tree.
    std::function<bool(const std::string&)> isLeftOut;
    /// What is known of this tree from earlier: a file that was not touched since is not read again.
    const TreeRecord* known = nullptr;
    /// Told of what no manifest can hold (a socket, a set-user-ID file, another mount), with the reason. Without it,
    /// that is an Error(kNotAllowed).
    std::function<void(const std::string& path, const std::string& reason)> strange;
};

/// Reads a tree, through no link and into no other mount.
TreeRecord recordTree(const TreeRoot& root, const RecordRequest& request);

/// The record of `manifest`, whose contents are known to be what it says: looks at each path, reads none. Throws Error
/// when a path is missing or of another type, mode or size.
TreeRecord recordKnown(const TreeRoot& root, const Manifest& manifest);

enum class Scrutiny {
    kTouched,  ///< reads only files that somebody touched since
    kBytes,    ///< reads them all
};
struct Departure {
    std::string path;
    std::string reason;  ///< "it was changed", "it is gone", "it was added", or why it cannot be told
};
/// Where a tree is not what was recorded, by path. Somebody else's access rights, times and owners of unchanged bytes
/// are not looked at beyond the mode.
std::vector<Departure> compareTree(const TreeRoot& root, const TreeRecord& record, Scrutiny scrutiny,
                                   const std::function<bool(const std::string&)>& isLeftOut);

}  // namespace gradus
