#pragma once

#include <cstdint>
#include <filesystem>

#include "store/file.h"

/// File systems in files: what bounds the layers of a sandbox on disk. Only root can mount them.
namespace gradus {

/// Less than that is no file system worth having.
inline constexpr std::uint64_t kLeastImageBytes = std::uint64_t{1} << 20;

/// An empty ext4 in a file of `bytes`, rounded down to whole blocks; a twentieth or so of it is the file system's own.
/// Nothing is allocated but that. One of the same size in `templates` is copied; without, it is made there first.
/// Throws Error with the cure where that cannot be.
void makeLoopImage(const std::filesystem::path& file, std::uint64_t bytes, const std::filesystem::path& templates);

/// The top of the file system in the file. It is mounted nowhere: it lives as long as descriptors on it do, and the
/// kernel lets go of its loop device by itself. Writable, it is nobody else's meanwhile; waits a moment for one who is
/// on the way out. Throws Error with the cure.
FileDescriptor openLoopImage(const std::filesystem::path& file, bool readOnly);

}  // namespace gradus
