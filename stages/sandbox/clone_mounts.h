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

}  // namespace gradus
