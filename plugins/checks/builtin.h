#pragma once

#include "plugins/api/registry.h"

namespace gradus {

CheckKindWords commandCheckWords();
CheckKindWords httpCheckWords();

/// The check kinds that come with the program, in the order of the reference page.
void addBuiltinChecks(Registry& registry);

}  // namespace gradus
