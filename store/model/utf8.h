#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gradus {

/// The first code point of a text and how many bytes it takes.
struct CodePoint {
    char32_t value = 0;
    std::size_t length = 1;
    bool valid = false;  ///< false: `value` is one byte that is not part of well-formed UTF-8
};

/// Strict: overlong forms, surrogates and values beyond U+10FFFF are invalid. `text` is not empty.
CodePoint firstCodePoint(std::string_view text);

/// The offset of the first byte that is not UTF-8, or nothing.
std::optional<std::size_t> firstInvalidUtf8(std::string_view text);

/// Columns on a terminal, whatever the locale: wide East Asian characters take two, combining ones none.
std::size_t displayWidth(std::string_view text);

/// The longest beginning that takes at most `width` columns.
std::string_view cutToWidth(std::string_view text, std::size_t width);

/// Whether a terminal would obey it, reorder or hide text by it, or cannot show it: controls, marks, invalid bytes.
bool isUnsafe(const CodePoint& point);

/// A code point made visible: `\x1b`, `\u{202e}`, `\n`.
std::string escaped(const CodePoint& point);

/// Text from outside (file names, titles, output, messages) made safe to show: what is unsafe is escaped, so that what
/// is left can neither drive a terminal nor look like something else. One line: a newline is shown as `\n`.
std::string printable(std::string_view untrusted);

}  // namespace gradus
