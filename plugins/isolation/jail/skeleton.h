#pragma once

#include <string>
#include <vector>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/mount_calls.h"
#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

/// The sandbox's file tree, assembled once in the jail's own mount namespace and inherited by every run: a read-only
/// view of the host, its hidden places, the overlays, /dev, /tmp and /run. A run adds /proc and /sys and pivots.
///
/// Two tmpfs carry it: `base` holds mount points and device nodes and ends read-only; `scratch`, sized by the disk
/// limit, holds everything a command can write that has no directory of its own on the host.
struct Skeleton {
    Descriptor base;
    Descriptor scratch;
    Descriptor root;                     ///< the new root, attached
    std::vector<Descriptor> uppers;      ///< one per overlay, in the plan's order
    std::vector<std::string> writable;   ///< what a command may write below, for the second line of defence
    std::vector<Descriptor> hiddenDirs;  ///< mounts that become read-only when everything is placed
};

/// `rootless`: we are inside a user namespace of our own.
Attempt buildSkeleton(const JailSetup& setup, bool rootless, Skeleton& skeleton);

/// Finds `path` below the new root, making missing directories (or, at the end, a file) where the place is ours.
Attempt makeMountPoint(const Skeleton& skeleton, const std::string& path, bool isDirectory, Descriptor& point);

/// Where the skeleton's root is found in the mount namespaces that inherit it.
inline constexpr const char* kSkeletonRoot = "/tmp/root";

/// An empty directory beside it, to cover others with; out of view after the pivot.
inline constexpr const char* kEmptyDirectory = "/tmp/empty";

/// Makes the skeleton this process's root and lets go of the host's tree.
Attempt pivotIntoSkeleton();

}  // namespace gradus
