#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/isolation/jail/attempt.h"

namespace gradus {

/// The Landlock version of this kernel; 0 without Landlock.
std::uint32_t landlockAbi();

/// A second line behind the mounts: reading and executing anywhere, writing only below `writable`; no signal and no
/// abstract socket leaves. Does nothing on a kernel whose Landlock would forbid renaming across directories.
Attempt restrictByLandlock(const std::vector<std::string>& writable);

}  // namespace gradus
