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

/// What lies in files that no directory names: each counted once, whoever has it open.
struct NamelessUse {
    std::uint64_t memoryBytes = 0;  ///< of memfd_create
    std::uint64_t diskBytes = 0;    ///< of deleted files that are still open
};
/// A walk over every open descriptor. `notDisk`: the file system whose deleted files are counted elsewhere.
NamelessUse measureNameless(int proc, std::uint64_t notDisk, pid_t ancestor = 0);

/// Bytes of System V shared memory, attached or not; `table` is a /proc/sysvipc/shm opened in the sandbox.
std::uint64_t measureSystemV(int table);

/// `shared`: bytes of shared objects that were counted by size. Pages of these may be mapped as well: what is shared
/// counts as the greater of the two.
/// `memoryLimit`: shared pages are divided among their users only when the cheap sum exceeds it, because that takes a
/// walk over every page table. `ancestor`: only what comes of it is counted; 0: all that /proc shows.
Usage measure(int proc, std::uint64_t memoryLimit, std::uint64_t shared, pid_t ancestor = 0);

}  // namespace gradus
