#pragma once

#include "plugins/isolation/jail/attempt.h"

namespace gradus {

/// Mounts this pid namespace's /proc, its dangerous parts masked or read-only, and a read-only /sys where the kernel
/// lets us, below `root`. Called before the pivot: in a user namespace a new /proc needs the old one in view.
Attempt mountProc(const char* root);

}  // namespace gradus
