#pragma once

#include "plugins/api/registry.h"

namespace gradus {

/// The isolation backends that come with the program, cheapest first.
void addBuiltinBackends(Registry& registry);

}  // namespace gradus
