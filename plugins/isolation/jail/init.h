#pragma once

#include <linux/filter.h>
#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plugins/isolation/jail/filter.h"
#include "plugins/isolation/jail/proc.h"
#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail/rlimits.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

/// What pid 1 of a sandbox needs to know before there is a command. Descriptors are the supervisor's, inherited by the
/// clone. The command comes over the channel as a frame: kRun with its three descriptors. Pid 1 answers kStarted (with
/// its /proc, its mount namespace and, where the filter is watched, what listens to it), kFailed or kEnded; kStop asks
/// the command to end. One that is `ahead` of its sandbox gets its own /proc ready and waits for kPlaces first.
struct InitPlan {
    const JailSetup& setup;
    const std::vector<std::string>& writable;
    const std::vector<sock_filter>& filter;
    const ProcMasks& masks;
    ProcessLimits limits;
    bool rootless = false;
    std::vector<int> taskFiles;  ///< control groups to join by writing 0
    int channel = -1;            ///< to the supervisor
    Watched watched{};           ///< what `filter` asks of a listener
    int held = -1;               ///< stays open as long as anything inside is left
    bool ahead = false;          ///< the supervisor's mount namespace is ours as well
};

/// Both sides are one program, so these travel as they lie in memory. Times are bootNanos(): the supervisor may be
/// scheduled much later than what it is told about.
struct InitStarted {
    std::uint64_t nanos = 0;
    std::array<std::uint64_t, kNamespaceNames.size()> namespaces{};
    std::uint64_t hasSharedMemory = 0;  ///< the table of it comes as the third descriptor
};
struct InitEnded {
    std::uint64_t nanos = 0;
    int status = 0;  ///< as from wait(2)
    std::uint32_t leftBehind = 0;
    std::array<char, 256> leftovers{};  ///< names of these, one after another, each with its NUL, as far as they fit
    rusage usage{};                     ///< of the command and all that was waited for
};

/// Runs as pid 1 in the new namespaces: finishes the sandbox, starts the command, reaps orphans, reports, and ends with
/// the command, at which the kernel ends everything else inside. Never returns.
[[noreturn]] void runInit(const InitPlan& plan);

}  // namespace gradus
