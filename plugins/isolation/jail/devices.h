#pragma once

#include "plugins/isolation/jail/attempt.h"

namespace gradus {

/// A fresh /dev below `root`, kept in `base`: six harmless nodes, a private pseudo-terminal instance, and a place for
/// shared memory.
Attempt placeDevices(int base, int root, bool rootless);

}  // namespace gradus
