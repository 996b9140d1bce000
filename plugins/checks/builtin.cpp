#include "plugins/checks/builtin.h"

namespace gradus {

void addBuiltinChecks(Registry& registry) {
    registry.addCheckKind(commandCheckWords());
    registry.addCheckKind(httpCheckWords());
}

}  // namespace gradus
