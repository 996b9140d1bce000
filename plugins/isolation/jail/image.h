#pragma once

#include <string>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

/// A detached mount of the ext4 file system in a file. The loop device it needs is let go of by the kernel when the
/// mount goes, and the mount goes with its last descriptor or namespace: whoever is killed leaves nothing behind. Only
/// for root. What happened inside need not survive a power cut.
Attempt mountImage(const std::string& file, bool readOnly, Descriptor& mounted);

}  // namespace gradus
