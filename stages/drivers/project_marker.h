#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "stages/changes/git_work_tree.h"

namespace gradus {

/// Whoever owns git's directory decides what it leads to. Throws Error(kNotAllowed) for one that is neither ours nor
/// the project's owner's, or that does not know of this work tree: it may have been put there to be followed.
void requireTrustworthy(const GitWorkTree& git);

/// Where the marker of a target lies that is known by its project: in git's own directory, or, without git, where every
/// user sees it and a reboot leaves it. `what` tells apart the targets of one project; "" is the project itself.
std::filesystem::path projectMarker(const std::filesystem::path& project, const std::optional<GitWorkTree>& git,
                                    const std::string& what);

}  // namespace gradus
