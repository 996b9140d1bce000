#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/system.h"

/// The new mount interface (5.2; mount_setattr 5.12), by descriptor: nothing here looks a path up twice.
namespace gradus {

struct MountOption {
    std::string key;
    std::string value;  ///< empty: a flag
};

/// A detached mount of a new file system, or a failure that quotes the kernel's own message.
Attempt makeFileSystem(const std::string& type, const std::vector<MountOption>& options, unsigned attributes,
                       Descriptor& mounted);

/// A detached copy of what lies at `path` below `directory`, with `attributes` set on all of it.
Attempt cloneTree(int directory, const std::string& path, bool withSubmounts, unsigned attributes, Descriptor& mounted);

/// Puts a detached mount over what `target` is open on.
Attempt attachMount(int mounted, int target, const std::string& name);

Attempt setMountAttributes(int mounted, unsigned attributes, bool withSubmounts, const std::string& name);

struct MountPoint {
    std::string path;
};
/// Every mount point of this mount namespace.
std::vector<MountPoint> readMountPoints(std::string_view mountInfo);

bool liesBeneath(std::string_view path, std::string_view directory);

}  // namespace gradus
