#include "plugins/isolation/jail/rlimits.h"

#include <sys/resource.h>

#include <algorithm>

namespace gradus {

namespace {

// Never above what we were given ourselves: raising a hard limit needs a capability.
Attempt lower(__rlimit_resource resource, std::uint64_t value, const char* name) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) return failure("rlimit", name);
    limit.rlim_max = std::min<rlim_t>(limit.rlim_max, value);
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(resource, &limit) != 0) return failure("rlimit", name);
    return std::nullopt;
}

}  // namespace

Attempt applyProcessLimits(const ProcessLimits& limits) {
    // One byte, not none: a core handler that is a pipe ignores a limit of 0 and is skipped at 1.
    if (auto failed = lower(RLIMIT_CORE, 1, "core")) return failed;
    if (auto failed = lower(RLIMIT_RTPRIO, 0, "rtprio")) return failed;
    if (limits.openFiles)
        if (auto failed = lower(RLIMIT_NOFILE, *limits.openFiles, "nofile")) return failed;
    if (limits.fileBytes)
        if (auto failed = lower(RLIMIT_FSIZE, *limits.fileBytes, "fsize")) return failed;
    if (limits.tasks)
        if (auto failed = lower(RLIMIT_NPROC, *limits.tasks, "nproc")) return failed;
    // Not RLIMIT_AS: programs that reserve address space they never use would die of it.
    if (limits.memoryBytes)
        if (auto failed = lower(RLIMIT_DATA, *limits.memoryBytes, "data")) return failed;
    if (limits.cpuMillis)
        if (auto failed = lower(RLIMIT_CPU, (*limits.cpuMillis + 999) / 1000 + 1, "cpu")) return failed;
    return std::nullopt;
}

}  // namespace gradus
