#pragma once

#include <string>
#include <vector>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/fuse_overlay.h"
#include "plugins/isolation/jail/mount_calls.h"
#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

/// What every sandbox of this jail has in common, built once: a read-only view of the host, its credential stores
/// hidden, /dev and /sys. Two mount namespaces hold it, by descriptor:
///
///   staging   the host's own tree, in which paths of a plan mean what they mean to the caller; the workshop lies in it
///   stem      the new root and nothing else; every sandbox is a copy of it with its own places added
///
/// The stem's /proc is the host's: in a user namespace the kernel mounts a new /proc only beside one in full view.
/// Every run covers it with its own before anything else happens.
struct HostView {
    Descriptor base;     ///< a tmpfs: mount points, device nodes, the new root
    Descriptor staging;  ///< namespace
    Descriptor stem;     ///< namespace
    std::vector<MountPoint> mounts;
    std::vector<std::string> hidden;   ///< what is already hidden in the stem
    std::vector<std::string> absent;   ///< what was to be hidden there and does not exist
    std::vector<std::string> covered;  ///< where the covers of these lie: no link leads there
    std::vector<std::string> shown;    ///< mounts of the host's in the stem, parents first; every sandbox has its own
};

/// One sandbox's tree: the stem and its own places. The scratch tmpfs, sized by the disk limit, holds everything a
/// command can write that has no directory of its own on the host.
struct Skeleton {
    FuseOverlay fuse;                 ///< shows the copy of the system to an ordinary user
    std::vector<std::string> images;  ///< where images were mounted in the staging namespace
    Descriptor scratch;
    std::vector<Descriptor> uppers;     ///< one per overlay, in the plan's order
    std::vector<std::string> writable;  ///< what a command may write below, for the second line of defence
    std::vector<std::string> made;      ///< mount points made in the new root, outermost first
};

/// Called once, in a mount namespace of our own. `rootless`: we are inside a user namespace of our own.
Attempt buildHostView(const std::vector<std::string>& hidden, bool rootless, HostView& view);

/// A copy of the stem for the next sandbox, in which this process lives afterwards. Its descriptor is `room`. Called in
/// the staging namespace.
Attempt enterRoom(const HostView& view, bool rootless, Descriptor& room);
/// Back to the staging namespace.
Attempt leaveRoom(const HostView& view);

/// Adds what `setup` names, in `room` if there is one. Called in the staging namespace, where buildHostView and
/// dropSkeleton end (`memoryIsWatched`: no control group holds the memory limit); afterwards this process lives in the
/// sandbox's mount namespace.
Attempt buildSkeleton(const JailSetup& setup, bool rootless, bool memoryIsWatched, const HostView& view,
                      Descriptor room, Skeleton& skeleton);

/// Back to the staging namespace; what buildSkeleton made is gone.
Attempt dropSkeleton(const HostView& view, Skeleton& skeleton);

}  // namespace gradus
