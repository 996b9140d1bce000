#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

#include "plugins/isolation/jail/attempt.h"

namespace gradus {

/// The system call filter: an allow-list. A call that is known and not on it fails with EPERM, a number nobody knew
/// when this was written with ENOSYS, so that programs fall back; nothing is killed. Some calls are looked at more
/// closely: see examinedCalls in the source.
/// `system`: as a copy of the system needs it, where chroot is allowed as well.
std::vector<sock_filter> buildFilter(const std::vector<std::uint32_t>& denied = {}, bool system = false);

/// Installs it for this process and all that comes of it. Needs no_new_privs.
Attempt installFilter(const std::vector<sock_filter>& program);

}  // namespace gradus
