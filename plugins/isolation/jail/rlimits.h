#pragma once

#include <cstdint>
#include <optional>

#include "plugins/isolation/jail/attempt.h"
#include "store/model/limits.h"

namespace gradus {

/// Limits that each process carries itself. `memory` and `tasks` stand in where no control group holds them.
struct ProcessLimits {
    std::optional<std::uint64_t> openFiles;
    std::optional<std::uint64_t> fileBytes;
    std::optional<std::uint64_t> tasks;
    std::optional<std::uint64_t> memoryBytes;
    std::optional<std::uint64_t> cpuMillis;
};

Attempt applyProcessLimits(const ProcessLimits& limits);

}  // namespace gradus
