#include "plugins/isolation/jail/delegation.h"

#include <time.h>

namespace gradus {

namespace {

constexpr const char* kStep = "user scope";
constexpr const char* kOwnCgroups = "/proc/self/cgroup";

// Our place in the unified hierarchy, if it is the scope's: "0::/a/b/NAME".
std::string placeIn(const std::string& own, const std::string& scope) {
    for (const std::string& line : splitWords(own, "\n"))
        if (line.starts_with("0::") && line.ends_with("/" + scope)) return line.substr(3);
    return {};
}

std::string awaitPlace(const Delegation& delegation, const std::string& scope, std::string& own) {
    const timespec pause{0, 1'000'000};
    for (std::uint64_t waited = 0; waited <= delegation.patienceMillis; ++waited) {
        if (delegation.files.read(kOwnCgroups, own) == 0)
            if (std::string place = placeIn(own, scope); !place.empty()) return place;
        ::nanosleep(&pause, nullptr);
    }
    return {};
}

}  // namespace

Attempt enterDelegatedScope(const Delegation& delegation, pid_t pid, std::uint64_t start, std::string& own) {
    CgroupFiles& files = delegation.files;
    const std::string top =
        files.exists(delegation.root + "/cgroup.controllers") ? delegation.root : delegation.root + "/unified";
    if (!files.exists(top + "/cgroup.controllers")) return failure(kStep, "no unified hierarchy is mounted", ENOENT);
    const std::string scope = cgroupName(pid, start, 0) + ".scope";
    if (auto failed = delegation.manager.startScope(scope, pid)) return failed;
    const std::string place = awaitPlace(delegation, scope, own);
    if (place.empty()) return failure(kStep, "the manager said yes and did not put us into " + scope, ETIMEDOUT);
    const std::string aside = top + place + "/" + cgroupName(pid, start, 1);
    if (const int error = files.makeDirectory(aside)) return failure(kStep, aside, error);
    if (const int error = files.write(aside + "/cgroup.procs", "0")) return failure(kStep, aside, error);
    return std::nullopt;
}

}  // namespace gradus
