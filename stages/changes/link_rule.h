#pragma once

#include <filesystem>
#include <string_view>

namespace gradus {

/// Whether a link at `path` of a tree, with this text, leads to no place outside of the tree, whatever other links are
/// there, if all of them keep to this rule. False for some that would stay inside as well. An empty path is the tree's
/// own top.
bool staysInside(std::string_view path, const std::filesystem::path& text);

}  // namespace gradus
