#pragma once

#include <cstddef>
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

/// Columns on a terminal, whatever the locale: wide East Asian characters take two, combining ones none.
std::size_t displayWidth(std::string_view text);

/// The longest beginning that takes at most `width` columns.
std::string_view cutToWidth(std::string_view text, std::size_t width);

}  // namespace gradus
