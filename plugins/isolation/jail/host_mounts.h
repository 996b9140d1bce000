#pragma once

#include <string>
#include <vector>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/mount_calls.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

struct HostView;

/// A detached mount, and where one sandbox shows it.
struct ShownMount {
    std::string path;
    Descriptor mounted;
};

/// What a sandbox shows of the host, made anew for each: an overlay of each directory. In an overlay a name that the
/// host gives to another file keeps its cover, and a socket is another inode than the one that the host listens on.
/// A living overlay goes stale, so none is used twice. Called in the staging namespace; parents come first.
/// What no overlay can show is bound where no socket can be bound in it, and else not shown.
Attempt makeHostMounts(const HostView& view, bool rootless, std::vector<ShownMount>& mounts);

/// Puts them over the stem's, below `root`.
Attempt placeHostMounts(int root, const std::vector<ShownMount>& mounts);

/// A user namespace in which no file of the host's has an owner: a bind that is mapped through it grants what is
/// granted to all others, whoever asks. Nothing is forked twice: hold on to it.
Attempt makeOwnerless(Descriptor& userNamespace);
/// Maps a detached mount through it; false where its file system, or an overlay of it, cannot be mapped.
bool takeOwners(int mounted, const Descriptor& userNamespace);

}  // namespace gradus
