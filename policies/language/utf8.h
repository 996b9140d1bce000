#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gradus {

/// One character of a text, and how many bytes it takes. Bytes that are not UTF-8 come out one at a time, as `bad`.
struct Character {
    char32_t value = 0;
    std::size_t bytes = 1;
    bool bad = false;
};

/// The character at byte `at`, which must be inside `text`. Overlong forms, surrogates and stray bytes are bad.
Character characterAt(std::string_view text, std::size_t at);

/// The offset of the first byte that is not UTF-8, or nothing.
std::optional<std::size_t> firstInvalidUtf8(std::string_view text);

/// A character as it may be shown on a terminal: itself, or an escape such as \x1b or \u{202e} for what would move the
/// cursor, reorder the line or hide. A tab becomes four spaces.
std::string shown(const Character& character, std::string_view bytes);

/// The whole text, each character as shown.
std::string printable(std::string_view text);

/// Columns that `shown` text takes on a terminal: 2 for wide East Asian characters, 0 for combining marks.
std::size_t displayWidth(std::string_view shownText);

}  // namespace gradus
