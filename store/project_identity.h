#pragma once

#include <cstdint>
#include <filesystem>

namespace gradus {

/// What makes a directory this project and no other.
struct ProjectIdentity {
    std::filesystem::path path;  ///< real: absolute, no links
    std::int64_t device = 0;
    std::int64_t inode = 0;
    bool operator==(const ProjectIdentity&) const = default;
};

/// Of a directory that is there; throws Error otherwise.
ProjectIdentity identify(const std::filesystem::path& project);

}  // namespace gradus
