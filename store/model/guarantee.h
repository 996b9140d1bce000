#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace gradus {

/// What an isolation backend can promise about a command that runs inside. A backend has a guarantee only once its
/// probe has seen it hold on this machine.
enum class Guarantee {
    kNoNetwork,         ///< nothing outside is reachable through a socket
    kReadOnlyHost,      ///< nothing outside the workspace can be written
    kPrivateProcesses,  ///< processes outside can be neither seen nor signalled, and none inside outlives its run
    kKernelFilter,      ///< system calls pass an allow-list, without capabilities or new privileges
    kMemoryLimit,       ///< the memory of all processes together is bounded
    kTaskLimit,         ///< the number of tasks is bounded
    kCpuLimit,          ///< CPU time of all processes together, and the share of the machine, are bounded
    kDiskLimit,         ///< bytes written to the workspace are bounded
    kSeparateKernel,    ///< the command does not speak to the host's kernel
};

inline constexpr std::array<std::string_view, 9> kGuaranteeNames = {
    "no-network", "read-only-host", "private-processes", "kernel-filter",  "memory-limit",
    "task-limit", "cpu-limit",      "disk-limit",        "separate-kernel"};

/// What every check and every `try` has unless it is given up by name.
inline constexpr std::array kFloor = {Guarantee::kNoNetwork, Guarantee::kReadOnlyHost, Guarantee::kPrivateProcesses,
                                      Guarantee::kKernelFilter};

constexpr std::string_view guaranteeName(Guarantee guarantee) {
    return kGuaranteeNames[static_cast<std::size_t>(guarantee)];
}

constexpr std::optional<Guarantee> guaranteeNamed(std::string_view name) {
    for (std::size_t i = 0; i < kGuaranteeNames.size(); ++i)
        if (kGuaranteeNames[i] == name) return static_cast<Guarantee>(i);
    return std::nullopt;
}

}  // namespace gradus
