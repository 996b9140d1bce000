#pragma once

#include <filesystem>

namespace gradus {

/// True for the directory itself and everything below it. By their names: links are not followed, and both are normal.
inline bool isWithin(const std::filesystem::path& path, const std::filesystem::path& directory) {
    const std::string& inner = path.native();
    const std::string& outer = directory.native();
    if (outer == "/") return true;
    return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

}  // namespace gradus
