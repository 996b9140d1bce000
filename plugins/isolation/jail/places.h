#pragma once

#include <sys/mount.h>

#include <string>
#include <vector>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/system.h"

/// Where mounts go below a new root: found without ever following a link out of it.
namespace gradus {

inline constexpr unsigned kReadOnlyMount = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
inline constexpr unsigned kWritableMount = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
inline constexpr unsigned kPlainProc = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

/// Where the staging namespace has the jail's own tmpfs: a directory in which no source of a plan can lie.
inline constexpr const char* kWorkshop = "/proc/fs";

/// Symbolic links are followed, but only inside `root`: what a command would reach.
Descriptor lookInside(int root, const std::string& path);

/// Finds `path` below `root`, making missing directories (or, at the end, a file). What was made is added to `made`.
Attempt makeMountPoint(int root, const std::string& path, bool isDirectory, std::vector<std::string>& made,
                       Descriptor& point);

}  // namespace gradus
