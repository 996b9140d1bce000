#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gradus {

/// More than this is not looked at line by line.
inline constexpr std::size_t kMostMerged = std::size_t{64} * 1024 * 1024;

/// As git tells it: a NUL among the first 8000 bytes.
bool isBinary(std::string_view bytes);

/// Three texts made one, line by line, every byte as it stands in one of them; nothing when both sides changed the same
/// lines. The work is done by libgit2, in a module of ours that is loaded when this is first called: linking it would
/// cost every start of the program some milliseconds. Throws Error(kInfrastructure) when the module is not there.
std::optional<std::string> mergeText(std::string_view ancestor, std::string_view ours, std::string_view theirs);

/// The hunks of a unified diff, with three lines of context; empty for equal texts. In the same module.
std::string diffText(std::string_view before, std::string_view after);

}  // namespace gradus
