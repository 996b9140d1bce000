#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace gradus {

/// Why a directory cannot be shown copy-on-write, or cannot hold what changes: the name of its file system. Nothing if
/// it can, as far as can be told without trying.
std::optional<std::string> unfitAsLower(const std::filesystem::path& directory);
std::optional<std::string> unfitAsUpper(const std::filesystem::path& directory);

/// Whether files on that file system can carry user.* attributes, without which an ordinary user's overlay cannot mark
/// a replaced directory.
bool takesUserAttributes(const std::filesystem::path& directory);
/// Whether what a sandbox writes can be held in memory without an I/O error for whoever removes or replaces a
/// directory: for an ordinary user only since Linux 6.6, when tmpfs learned such attributes.
bool memoryHoldsLayers();

}  // namespace gradus
