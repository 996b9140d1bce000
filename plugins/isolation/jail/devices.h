#pragma once

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/skeleton.h"

namespace gradus {

/// A fresh /dev: six harmless nodes, a private pseudo-terminal instance, shared memory in the scratch space.
Attempt placeDevices(Skeleton& skeleton, bool rootless);

}  // namespace gradus
