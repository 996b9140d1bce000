#pragma once

#include "plugins/isolation/jail/attempt.h"

namespace gradus {

/// Brings the private loopback up; a new network namespace has nothing else, and gets nothing else.
Attempt raiseLoopback();

}  // namespace gradus
