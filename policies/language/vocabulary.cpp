#include "policies/language/vocabulary.h"

#include <algorithm>

namespace gradus {

namespace {

template <typename Words>
const Words* findByName(const std::vector<Words>& list, std::string_view name) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const Words& words) { return words.name == name; });
    return found == list.end() ? nullptr : &*found;
}

}  // namespace

const DriverWords* Vocabulary::findDriver(std::string_view name) const { return findByName(drivers, name); }

const CheckKindWords* Vocabulary::findCheckKind(std::string_view name) const { return findByName(checkKinds, name); }

const DriverWords* Vocabulary::driverForStage(std::string_view stageName) const {
    if (const DriverWords* named = findDriver(stageName)) return named;
    for (const DriverWords& driver : drivers)
        if (std::find(driver.stageNames.begin(), driver.stageNames.end(), stageName) != driver.stageNames.end())
            return &driver;
    return nullptr;
}

}  // namespace gradus
