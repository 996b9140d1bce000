#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/cgroup.h"
#include "plugins/isolation/jail/user_manager.h"

namespace gradus {

/// Where an ordinary user may make groups: a scope that the user's manager hands out.
struct Delegation {
    CgroupFiles& files;
    UserManager& manager;
    std::string root;  ///< where hierarchies are mounted
    /// How long it may take from the manager's word until we are there.
    std::uint64_t patienceMillis = 2000;
};

/// Puts this process into a scope of its own and, inside it, aside, so that the scope can hand controllers on. `own` is
/// then the text of /proc/self/cgroup that Cgroups is to be made with. The scope ends with its last process.
Attempt enterDelegatedScope(const Delegation& delegation, pid_t pid, std::uint64_t start, std::string& own);

}  // namespace gradus
