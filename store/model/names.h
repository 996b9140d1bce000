#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace gradus {

/// One enumerator and the word it has in SQL, TOML, JSON and on the screen. An enumeration has one such table, and
/// everything that reads or writes it goes through nameOf and fromName.
template <typename Enum>
struct Name {
    Enum value;
    std::string_view word;
};

template <typename Enum, std::size_t kCount>
constexpr std::string_view nameOf(const std::array<Name<Enum>, kCount>& table, Enum value) {
    for (const auto& row : table)
        if (row.value == value) return row.word;
    return "unknown";
}

template <typename Enum, std::size_t kCount>
constexpr std::optional<Enum> fromName(const std::array<Name<Enum>, kCount>& table, std::string_view word) {
    for (const auto& row : table)
        if (row.word == word) return row.value;
    return std::nullopt;
}

}  // namespace gradus
