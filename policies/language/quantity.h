#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gradus {

/// Takes the decimal digits at the front of `text` off it. Nothing if there are none or the number does not fit.
std::optional<std::int64_t> takeNumber(std::string_view& text);

/// Takes the ASCII letters at the front of `text` off it.
std::string_view takeLetters(std::string_view& text);

/// a * b, or nothing where it does not fit.
std::optional<std::int64_t> multiply(std::int64_t a, std::int64_t b);
/// a + b, or nothing where it does not fit.
std::optional<std::int64_t> add(std::int64_t a, std::int64_t b);

}  // namespace gradus
