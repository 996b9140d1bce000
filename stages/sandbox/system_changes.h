#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "plugins/api/isolation.h"
#include "stages/changes/harvest.h"

namespace gradus {

/// What a copy of the system wrote over one file system of the host's.
struct SystemSource {
    std::vector<int> layers;  ///< topmost first, borrowed
    std::filesystem::path base;
};

/// Everything outside of the project that is not as on the host. Never part of a change. Entries that only stand in
/// for the host's (`seeds`) and were left as they were do not count.
/// `between` is called between names, and may throw.
SystemChanges systemChanges(const std::vector<SystemSource>& sources, const std::vector<PrivateFile>& seeds,
                            const std::function<void()>& between = nullptr);

}  // namespace gradus
