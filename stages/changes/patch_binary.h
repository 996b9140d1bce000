#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gradus {

/// The form in which git writes bytes into a patch: deflated, in lines of base 85 that begin with their length.

/// Appends what one line stands for; false if it cannot be one.
bool decodeBase85Line(std::string_view line, std::string& bytes);
/// All of it, in lines, each with its end.
std::string encodeBase85(std::string_view bytes);

/// Nothing unless it unpacks to exactly `size` bytes.
std::optional<std::string> inflated(std::string_view packed, std::size_t size);
std::string deflated(std::string_view bytes);

/// What a delta of git's makes of `old`; nothing if it does not fit it.
std::optional<std::string> appliedDelta(std::string_view old, std::string_view delta);

}  // namespace gradus
