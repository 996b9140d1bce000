#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace gradus {

/// A JSON object without a name that stands twice in it and nested no deeper than `depth`: two readers cannot see
/// different things in it. Nothing if `text` is none.
std::optional<nlohmann::ordered_json> parseStrictly(std::string_view text, int depth);

}  // namespace gradus
