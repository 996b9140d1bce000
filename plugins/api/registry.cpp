#include "plugins/api/registry.h"

#include "store/model/error.h"

namespace gradus {

namespace {

void refuseSharedKeys(const std::vector<KeyRow>& keys, const std::string& sectionId, const std::string& who) {
    for (const KeyRow& row : keys)
        if (findRow(section(sectionId).rows, row.name) != nullptr)
            throw Error(ErrorCode::kUsage, "{} redefines '{}', a key of every {}; give it another name", who, row.name,
                        sectionId);
}

}  // namespace

void Registry::addDriver(DriverWords driver) {
    if (vocabulary_.findDriver(driver.name) != nullptr)
        throw Error(ErrorCode::kUsage, "driver '{}' is registered twice", driver.name);
    refuseSharedKeys(driver.keys, "stage", "driver '" + driver.name + "'");
    vocabulary_.drivers.push_back(std::move(driver));
}

void Registry::addCheckKind(CheckKindWords words, std::unique_ptr<CheckKind> kind) {
    if (vocabulary_.findCheckKind(words.name) != nullptr)
        throw Error(ErrorCode::kUsage, "check kind '{}' is registered twice", words.name);
    if (words.keys.empty())
        throw Error(ErrorCode::kUsage, "check kind '{}' has no key; its first one tells it from others", words.name);
    for (const CheckKindWords& other : vocabulary_.checkKinds)
        if (findRow(other.keys, words.keys.front().name) != nullptr)
            throw Error(ErrorCode::kUsage, "check kinds '{}' and '{}' share the key '{}', which must tell them apart",
                        other.name, words.name, words.keys.front().name);
    refuseSharedKeys(words.keys, "check", "check kind '" + words.name + "'");
    if (kind) checkKinds_.emplace(words.name, std::move(kind));
    vocabulary_.checkKinds.push_back(std::move(words));
}

void Registry::addBackend(BackendMaker backend) {
    for (const BackendMaker& other : backends_)
        if (other.name == backend.name)
            throw Error(ErrorCode::kUsage, "isolation backend '{}' is registered twice", backend.name);
    backends_.push_back(std::move(backend));
}

}  // namespace gradus
