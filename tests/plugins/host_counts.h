#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "store/model/limits.h"

namespace gradus {

/// What must be the same before and after: nothing of a sandbox may stay on the host. Only what comes of this process
/// is counted, so that programs running beside it do not matter.
struct HostCounts {
    std::size_t processes = 0;    ///< that come of this one, dead ones that nobody waited for included
    std::size_t mounts = 0;       ///< that came since the tests began, as root in a namespace of our own
    std::size_t cgroups = 0;      ///< below the groups this process lives in, which as root are its own
    std::size_t namespaces = 0;   ///< that this process, or one that comes of it, is in or holds open
    std::size_t directories = 0;  ///< in the places for temporary files, with this process's id in the name
    std::size_t descriptors = 0;

    bool operator==(const HostCounts&) const = default;
};
HostCounts countHost();
/// Fails the test if anything is there now that was not before, or the other way round.
void expectNothingLeft(const HostCounts& before);

/// By what limits are held that take control groups. None: an ordinary user to whom no part of a hierarchy was handed.
/// Found by looking at the machine, not by asking what is to be tested.
Enforcer groupEnforcer();

/// Below which group a jail that this process starts makes its own.
std::filesystem::path groupsPlace(const std::string& controller);

}  // namespace gradus
