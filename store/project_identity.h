#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace gradus {

/// What makes a directory this project and no other.
struct ProjectIdentity {
    std::filesystem::path path;  ///< real: absolute, no links. A hint where there is a key: projects are moved
    std::int64_t device = 0;     ///< a hint: another number after a reboot or a remount
    std::int64_t inode = 0;
    /// Of the directory, whatever it is called and wherever it is mounted; a copy has another one. Empty where the file
    /// system keeps nothing that lasts: there inode and path make the project.
    std::string key = {};
    bool operator==(const ProjectIdentity&) const = default;
};

/// Of a directory that is there; throws Error otherwise.
ProjectIdentity identify(const std::filesystem::path& project);

/// The key of a directory that is there. Throws Error otherwise.
std::string directoryKey(const std::filesystem::path& directory);

}  // namespace gradus
