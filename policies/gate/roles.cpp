#include <algorithm>

#include "policies/gate/gate.h"

namespace gradus {

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::vector<std::string> rolesHeld(const Pipeline& pipeline, const std::string& person,
                                   const std::vector<std::string>& systemGroups) {
    std::vector<std::string> roles;
    for (const auto& [name, settings] : pipeline.roles) {
        const auto groups = settings.list("groups");
        const bool byGroup = std::any_of(groups.begin(), groups.end(),
                                         [&](const std::string& group) { return contains(systemGroups, group); });
        if (byGroup || contains(settings.list("members"), person)) roles.push_back(name);
    }
    for (const std::string& group : systemGroups)
        if (!pipeline.roles.contains(group)) roles.push_back(group);
    std::sort(roles.begin(), roles.end());
    roles.erase(std::unique(roles.begin(), roles.end()), roles.end());
    return roles;
}

}  // namespace gradus
