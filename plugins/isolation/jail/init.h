#pragma once

#include <linux/filter.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail/rlimits.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

/// What pid 1 of a sandbox needs to know. Descriptors are the supervisor's, inherited by the clone.
struct InitPlan {
    const JailSetup& setup;
    const JailRun& run;
    const std::vector<std::string>& writable;
    const std::vector<sock_filter>& filter;
    ProcessLimits limits;
    bool rootless = false;
    std::vector<int> taskFiles;  ///< control groups to join by writing 0
    int channel = -1;            ///< to the supervisor
    std::array<int, 3> stdio{};
};

/// Words on the channel between supervisor and pid 1, each the first byte of a packet.
enum class InitWord : char { kFailed = 'F', kStarted = 'S', kEnded = 'E', kTerminate = 'T' };

/// Both sides are one program, so these travel as they lie in memory. Times are bootNanos(): the supervisor may be
/// scheduled much later than what it is told about.
struct InitStarted {
    std::uint64_t nanos = 0;
    std::array<std::uint64_t, kNamespaceNames.size()> namespaces{};
};
struct InitEnded {
    std::uint64_t nanos = 0;
    int status = 0;  ///< as from wait(2)
    std::uint32_t leftBehind = 0;
};

/// Runs as pid 1 in the new namespaces: finishes the sandbox, starts the command, reaps orphans, reports, and ends with
/// the command, at which the kernel ends everything else inside. Never returns.
[[noreturn]] void runInit(const InitPlan& plan);

}  // namespace gradus
