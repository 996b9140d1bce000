#pragma once

#include <cstdint>

#include "plugins/isolation/jail/attempt.h"

namespace gradus {

/// As an ordinary user: a user namespace in which we own the mounts we are about to make. As root: only a mount
/// namespace. Afterwards no mount made here reaches the host.
Attempt enterOuterNamespaces(bool rootless, std::uint32_t uid, std::uint32_t gid);

/// Becomes uid:gid inside a last, empty user namespace, so that the mount namespace belongs to one that nothing inside
/// can act in. After this call the process is an ordinary one with full capabilities over nothing.
Attempt becomeIdentity(bool rootless, std::uint32_t uid, std::uint32_t gid);

/// Gives up every capability, now and for whatever is executed later, and the right to gain any.
Attempt dropPrivileges();

}  // namespace gradus
