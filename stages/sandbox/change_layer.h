#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

/// A tree that does not exist yet, as an overlay's layer over one that does.
struct ChangeLayer {
    std::filesystem::path below;  ///< the directory it will lie on; only read
    const ChangeSet& changes;     ///< every `before` holds there
    /// Relative paths below it that are not to be seen; what the change puts there is.
    const std::vector<std::string>& leftOut;
    /// Whose the new entries are, for root. What replaces a file belongs to that one's owner.
    uid_t uid;
    gid_t gid;
};

/// Writes the layer into the empty directory `target`: contents from `objects`, marks for what goes, the directories on
/// the way as they look below. Costs as much as the change is long, however large the tree. Not synced.
/// Throws Error(kNotAllowed) for a change that leads through something that is no directory, Error for contents that
/// are not stored.
void writeChangeLayer(const ChangeLayer& layer, const Objects& objects, int target);

}  // namespace gradus
