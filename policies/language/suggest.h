#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {

/// The candidate that was probably meant: the nearest by insertions, deletions, replacements and swapped neighbours,
/// if it is near enough to be worth saying. Ties go to the earlier candidate.
std::optional<std::string> suggest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace gradus
