#include "plugins/isolation/builtin.h"

#include "plugins/isolation/namespaces.h"
#include "plugins/isolation/process.h"

namespace gradus {

void addBuiltinBackends(Registry& registry) {
    registry.addBackend({"namespaces", [](const Clock& clock) -> std::unique_ptr<IsolationBackend> {
                             return std::make_unique<NamespacesBackend>(
                                 NamespacesConfig{.jail = findJail(), .userManager = findUserManager()}, clock);
                         }});
    // Last, though it costs least: it proves less than the floor, so it is taken only where that was given up.
    registry.addBackend({"process", [](const Clock& clock) -> std::unique_ptr<IsolationBackend> {
                             return std::make_unique<ProcessBackend>(findJail(), clock);
                         }});
}

}  // namespace gradus
