#pragma once

#include <sys/stat.h>

#include <filesystem>

namespace gradus::test {

/// Whether every user may run `program`: it and each directory above it let others in. A clone in root's home does not.
inline bool canOthersRun(const std::filesystem::path& program) {
    for (std::filesystem::path at = program; at != at.parent_path(); at = at.parent_path()) {
        struct stat info {};
        if (::stat(at.c_str(), &info) != 0 || (info.st_mode & S_IXOTH) == 0) return false;
    }
    return true;
}

}  // namespace gradus::test
