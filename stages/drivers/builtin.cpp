#include "stages/drivers/builtin.h"

namespace gradus {

void addBuiltinDrivers(Registry& registry) {
    registry.addDriver(sandboxDriverWords());
    registry.addDriver(worktreeDriverWords());
    registry.addDriver(releaseDirectoryDriverWords());
    registry.addDriver(branchDriverWords());
    registry.addDriver(commandDriverWords());
}

}  // namespace gradus
