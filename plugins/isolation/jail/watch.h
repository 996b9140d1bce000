#pragma once

#include <cstdint>

#include "plugins/isolation/jail/system.h"

namespace gradus {

/// What the processes of a sandbox use, read from its own /proc: for machines without control groups. It sees what is
/// there at the moment of looking.
struct Usage {
    std::uint64_t memoryBytes = 0;
    std::uint64_t cpuNanos = 0;
    std::uint64_t tasks = 0;
};

/// `memoryLimit`: shared pages are divided among their users only when the cheap sum exceeds it, because that takes a
/// walk over every page table. `ancestor`: only what comes of it is counted; 0: all that /proc shows.
Usage measure(int proc, std::uint64_t memoryLimit, pid_t ancestor = 0);

}  // namespace gradus
