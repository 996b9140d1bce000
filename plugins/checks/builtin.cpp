#include "plugins/checks/builtin.h"

namespace gradus {

void addBuiltinChecks(Registry& registry) {
    registry.addCheckKind(commandCheckWords(), commandCheck());
    registry.addCheckKind(httpCheckWords(), httpCheck());
}

}  // namespace gradus
