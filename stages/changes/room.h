#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace gradus {

/// What a file system has left for us.
struct Room {
    std::uint64_t device = 0;
    std::uint64_t bytes = 0;
    std::uint64_t inodes = UINT64_MAX;  ///< as many as there is if the file system does not count them
};

/// Nothing where that cannot be told.
std::optional<Room> roomAt(const std::filesystem::path& path);

/// Whether names in a directory (also one opened with O_PATH) may change: 0, or what the kernel would say.
int accessOf(int directory);

}  // namespace gradus
