#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "stages/changes/tree_record.h"
#include "stages/drivers/driver.h"
#include "stages/drivers/release_layout.h"
#include "stages/drivers/release_shelf.h"

namespace gradus {

/// What a release begins as.
struct ReleaseBase {
    std::filesystem::path directory;  ///< empty: nothing at all
    TreeRecord record;
    bool isSeed = false;  ///< not a release of this stage
};

/// The first release of an empty stage begins as the seed, without what is left out of it, git's own directories, what
/// is shared, and the contents of repositories that lie in it.
ReleaseBase seedBase(const ReleaseLayout& layout, const StageChange& change);

/// Whether a conflict that was found in the seed itself is about the copy as well.
bool isAboutTheTree(const Conflict& conflict);

/// A release of the stage, as it was recorded. Throws Error(kNotAllowed) if somebody changed or removed something of it
/// since; what was added to it is no part of the tree and stays behind, as does what was built.
ReleaseBase recordedBase(const ReleaseLayout& layout, const ReleaseShelf& shelf, const ReleaseHead& head,
                         const std::string& stage);

/// The tree that a change is about.
TreeRecord withoutOutputs(TreeRecord record, const std::vector<std::string>& outputs);

/// Where a release is not what was recorded. What is shared does not count.
struct Departures {
    std::vector<Departure> changed;  ///< and what is gone
    std::vector<Departure> added;
};
Departures departuresOf(const ReleaseLayout& layout, const TreeRecord& record, const std::filesystem::path& release,
                        Scrutiny scrutiny);

/// What lies at `path` in `root` and below it, and nothing else.
TreeRecord recordBelow(const TreeRoot& root, const std::string& path);

/// What such a record holds, wherever it lies.
Digest digestBelow(const TreeRecord& record, const std::string& path);

}  // namespace gradus
