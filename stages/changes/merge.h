#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stages/changes/tree_reader.h"
#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

enum class MergeConflictKind {
    kContent,        ///< both sides changed the same lines
    kBinary,         ///< both sides changed it, and it has no lines
    kBothAdded,      ///< both sides added it, differently
    kDeletedHere,    ///< the change edits what is gone there
    kEditedHere,     ///< the change deletes what was edited there
    kType,           ///< a file on one side, a link or a directory on the other
    kMode,           ///< both sides changed the mode, differently
    kUnknownBefore,  ///< what the change was made on is not known
    kNoAncestor,     ///< its bytes are not stored any more
};

struct MergeConflict {
    MergeConflictKind kind = MergeConflictKind::kContent;
    std::string path;
    std::string detail;  ///< a line for a person

    bool operator==(const MergeConflict&) const = default;
};

struct MergeResult {
    /// The change as it applies to the tree that was asked: every `before` is what is there now, what is there already
    /// is left out. Meaningless while there are conflicts.
    ChangeSet merged;
    /// The same for whoever comes after this tree: what is there already was left out for this tree alone, so it is as
    /// the change has it.
    ChangeSet whole;
    std::vector<MergeConflict> conflicts;  ///< by path
    /// Some `before` was not what is there now, so `merged` differs from the change.
    bool moved = false;
    std::vector<std::string> mergedPaths;  ///< whose content was made from both sides
};

/// By path: what else its author had there and went on from. Nothing: it was not there.
using EarlierStates = std::map<std::string, std::vector<std::optional<Entry>>>;

/// Puts `change` onto the tree `now`, path by path, three ways where both sides changed a file. New contents go to
/// `objects`. No markers, ever: what cannot be merged is a conflict.
MergeResult mergeOnto(const ChangeSet& change, const TreeReader& now, Objects& objects,
                      const EarlierStates& earlier = {});

}  // namespace gradus
