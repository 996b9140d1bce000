#include "policies/language/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace gradus {

namespace {

using Range = std::pair<char32_t, char32_t>;

// What a terminal obeys instead of showing: controls, and the marks that reorder or hide text.
constexpr std::array<Range, 8> kUnsafe{{{0x00, 0x1f},
                                        {0x7f, 0x9f},
                                        {0xad, 0xad},
                                        {0x200b, 0x200f},
                                        {0x2028, 0x202e},
                                        {0x2060, 0x206f},
                                        {0xfeff, 0xfeff},
                                        {0xfff9, 0xfffb}}};
constexpr std::array<Range, 4> kCombining{{{0x300, 0x36f}, {0x1ab0, 0x1aff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}}};
constexpr std::array<Range, 9> kWide{{{0x1100, 0x115f},
                                      {0x2e80, 0xa4cf},
                                      {0xac00, 0xd7a3},
                                      {0xf900, 0xfaff},
                                      {0xfe30, 0xfe6f},
                                      {0xff00, 0xff60},
                                      {0xffe0, 0xffe6},
                                      {0x1f300, 0x1faff},
                                      {0x20000, 0x3fffd}}};

template <std::size_t N>
bool isIn(const std::array<Range, N>& ranges, char32_t c) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [c](const Range& range) { return c >= range.first && c <= range.second; });
}

std::size_t lengthOf(unsigned char lead) {
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead <= 0xdf) return 2;
    if (lead >= 0xe0 && lead <= 0xef) return 3;
    if (lead >= 0xf0 && lead <= 0xf4) return 4;
    return 0;
}

bool isWellFormed(char32_t value, std::size_t length) {
    if (value >= 0xd800 && value <= 0xdfff) return false;
    if (length == 3) return value >= 0x800;
    if (length == 4) return value >= 0x10000 && value <= 0x10ffff;
    return true;
}

}  // namespace

Character characterAt(std::string_view text, std::size_t at) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const Character bad{lead, 1, true};
    const std::size_t length = lengthOf(lead);
    if (length == 0 || at + length > text.size()) return bad;
    if (length == 1) return {lead, 1, false};
    char32_t value = lead & (0x7fU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        const auto byte = static_cast<unsigned char>(text[at + i]);
        if ((byte & 0xc0U) != 0x80U) return bad;
        value = (value << 6U) | (byte & 0x3fU);
    }
    return isWellFormed(value, length) ? Character{value, length, false} : bad;
}

std::optional<std::size_t> firstInvalidUtf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const Character character = characterAt(text, at);
        if (character.bad) return at;
        at += character.bytes;
    }
    return std::nullopt;
}

std::string shown(const Character& character, std::string_view bytes) {
    if (character.bad) return fmt::format("\\x{:02x}", static_cast<unsigned>(character.value));
    if (character.value == '\t') return "    ";
    if (!isIn(kUnsafe, character.value)) return std::string(bytes);
    if (character.value < 0x80) return fmt::format("\\x{:02x}", static_cast<unsigned>(character.value));
    return fmt::format("\\u{{{:x}}}", static_cast<unsigned>(character.value));
}

std::string printable(std::string_view text) {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
        const Character character = characterAt(text, at);
        result += shown(character, text.substr(at, character.bytes));
        at += character.bytes;
    }
    return result;
}

std::size_t displayWidth(std::string_view shownText) {
    std::size_t width = 0;
    for (std::size_t at = 0; at < shownText.size();) {
        const Character character = characterAt(shownText, at);
        at += character.bytes;
        if (isIn(kCombining, character.value)) continue;
        width += isIn(kWide, character.value) ? 2 : 1;
    }
    return width;
}

}  // namespace gradus
