#pragma once

#include <string>

#include "plugins/isolation/jail/attempt.h"

namespace gradus {

/// Mounts this pid namespace's /proc below `root`, its dangerous parts masked or read-only. Called before the pivot: in
/// a user namespace a new /proc needs the old one in view.
Attempt mountProc(const std::string& root);

/// A read-only /sys of this network namespace below `root`. It is a convenience: where the kernel does not let us (the
/// host's network seen from a user namespace) /sys stays empty.
Attempt mountSys(int root);

}  // namespace gradus
