#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/isolation/jail/attempt.h"

namespace gradus {

/// Which parts of /proc a run has to close; the same for all runs, so looked up once.
struct ProcMasks {
    std::vector<std::string> files;
    std::vector<std::string> directories;
    std::vector<std::string> readOnly;
};
/// What this kernel has of them. Uid 0 needs more: it owns what nobody else could open.
ProcMasks findProcMasks(std::uint32_t uid);

/// Mounts this pid namespace's /proc over the one that is there, its dangerous parts masked or read-only.
Attempt mountProc(const ProcMasks& masks);

/// A read-only /sys of this network namespace below `root`. It is a convenience: where the kernel does not let us (the
/// host's network seen from a user namespace) /sys stays empty.
Attempt mountSys(int root);

}  // namespace gradus
