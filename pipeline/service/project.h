#pragma once

#include <filesystem>

#include "store/project_identity.h"
#include "store/state_directory.h"

namespace gradus {

/// The project a directory belongs to: the nearest ancestor with a gradus.toml, else the top of the git work tree,
/// else the directory itself. Throws Error for `/` and a home directory: too much to mean by accident.
std::filesystem::path findProjectRoot(const std::filesystem::path& directory, const Environment& environment);

}  // namespace gradus
