#pragma once

#include <vector>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

/// Brings the private loopback up; a new network namespace has nothing else, and gets nothing else.
Attempt raiseLoopback();

/// Gives the loopback the address of every route, and listens there: one socket per route, in their order. Called in
/// the sandbox's network namespace; whoever holds the sockets decides what a connection leads to.
Attempt openRoutes(const std::vector<JailRoute>& routes, std::vector<Descriptor>& listeners);

}  // namespace gradus
