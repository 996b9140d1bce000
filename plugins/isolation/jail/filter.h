#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

/// The system call filter: an allow-list. A call that is known and not on it fails with EPERM, a number nobody knew
/// when this was written with ENOSYS, so that programs fall back; nothing is killed. Some calls are looked at more
/// closely: see examinedCalls in the source.
///
/// `watched`: what would be refused is asked of a listener instead, which refuses and counts it; so is every connect
/// and every datagram with an address, where `connections` says so. What programs try as a matter of course (clone3,
/// io_uring) is never asked. `system`: as a copy of the system needs it, where chroot is allowed as well.
struct Watched {
    bool calls = false;
    bool connections = false;
};
std::vector<sock_filter> buildFilter(const std::vector<std::uint32_t>& denied = {}, Watched watched = {},
                                     bool system = false);

/// Installs it for this process and all that comes of it. Needs no_new_privs.
Attempt installFilter(const std::vector<sock_filter>& program);

/// The same for a watched one; `listener` is where its questions come. `patient`: a question that was taken is not
/// asked again because a signal came (Linux 5.19): where that is demanded and cannot be had, nothing is installed.
/// Fails with EBUSY inside of another filter that is watched.
Attempt installWatchedFilter(const std::vector<sock_filter>& program, bool patient, Descriptor& listener);

}  // namespace gradus
