#pragma once

#include <filesystem>
#include <string_view>

namespace gradus {

/// True for `above` itself and everything below it. By their names: links are not followed, and both are normal. Where
/// they are relative to the same place, that place is the empty one.
constexpr bool isAtOrBelow(std::string_view path, std::string_view above) {
    if (above.empty() || above == "/") return true;
    return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
}

inline bool isWithin(const std::filesystem::path& path, const std::filesystem::path& directory) {
    return isAtOrBelow(path.native(), directory.native());
}

}  // namespace gradus
