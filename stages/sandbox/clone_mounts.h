#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {

struct HostMount {
    std::filesystem::path path;
    std::string type;
};

/// The mount points of a mountinfo file (proc(5)), each path once; where several lie over each other, the topmost.
std::vector<HostMount> parseMounts(std::string_view mountInfo);
/// Those of this process now.
std::vector<HostMount> hostMounts();

/// The mounts strictly below `directory`, broadest first.
std::vector<HostMount> mountsBelow(const std::vector<HostMount>& mounts, const std::filesystem::path& directory);

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
