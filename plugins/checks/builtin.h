#pragma once

#include "plugins/api/registry.h"

namespace gradus {

// One file per kind gives both: how a pipeline file speaks of it, and what it does.
CheckKindWords commandCheckWords();
std::unique_ptr<CheckKind> commandCheck();
CheckKindWords httpCheckWords();
std::unique_ptr<CheckKind> httpCheck();

/// The check kinds that come with the program, in the order of the reference page.
void addBuiltinChecks(Registry& registry);

}  // namespace gradus
