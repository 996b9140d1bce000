#pragma once

#include <optional>
#include <string>
#include <utility>

namespace gradus {

/// What reading a small text gave: a value, or the problem as half a sentence ("has no unit") that follows the
/// quoted text in a message.
template <typename T>
struct Parsed {
    std::optional<T> value;
    std::string problem;

    explicit operator bool() const { return value.has_value(); }
    static Parsed bad(std::string why) { return {std::nullopt, std::move(why)}; }
};

}  // namespace gradus
