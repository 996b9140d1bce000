#pragma once

#include <cstdint>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/protocol.h"

namespace gradus {

/// The namespaces that all runs of a sandbox share: mounts, host name and, unless it is the host's, the network, which
/// is the dearest to make. As an ordinary user also a user namespace that owns them. Afterwards no mount made here
/// reaches the host.
Attempt enterOuterNamespaces(bool rootless, const JailSetup& setup);

/// Becomes uid:gid inside a last, empty user namespace, so that the mount namespace belongs to one that nothing inside
/// can act in. After this call the process is an ordinary one with full capabilities over nothing.
Attempt becomeIdentity(bool rootless, std::uint32_t uid, std::uint32_t gid);

/// The same for a copy of the system: root of a last user namespace that has every id of the outer one. Called by pid 1
/// of its pid namespace, with /proc in place.
Attempt becomeInnerRoot();

/// Becomes uid:gid, with no other groups, and keeps the capabilities. Only for root.
Attempt changeIds(std::uint32_t uid, std::uint32_t gid);

/// Gives up every capability, now and for whatever is executed later, and the right to gain any.
Attempt dropPrivileges();
/// The same, except for what a package manager needs in its own user namespace: own, open, change and enter files of
/// any owner, become any user, signal its processes.
Attempt keepPackageCapabilities();
/// As much of that as a process without privileges can do to itself: the bounding set stays, of which nothing can be
/// gained any more.
Attempt giveUpPrivileges();

}  // namespace gradus
