#include "plugins/isolation/builtin.h"

#include "plugins/isolation/namespaces.h"

namespace gradus {

void addBuiltinBackends(Registry& registry) {
    registry.addBackend({"namespaces", [](const Clock& clock) -> std::unique_ptr<IsolationBackend> {
                             return std::make_unique<NamespacesBackend>(NamespacesConfig{.jail = findJail()}, clock);
                         }});
}

}  // namespace gradus
