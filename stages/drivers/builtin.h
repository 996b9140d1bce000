#pragma once

#include "plugins/api/registry.h"

namespace gradus {

DriverWords sandboxDriverWords();
DriverWords worktreeDriverWords();
DriverWords releaseDirectoryDriverWords();
DriverWords branchDriverWords();
DriverWords commandDriverWords();

/// The stage drivers that come with the program, in the order of the reference page.
void addBuiltinDrivers(Registry& registry);

}  // namespace gradus
