#pragma once

#include <filesystem>
#include <string>

#include "stages/drivers/git_plumbing.h"

namespace gradus {

/// Where a remote of the repository is pushed to. Throws Error, with the cure, for one that is unknown or not a path on
/// this machine.
std::filesystem::path remotePath(const GitWorkTree& git, const GitPlumbing& plumbing, const std::string& remote);

}  // namespace gradus
