#include "store/model/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace gradus {

namespace {

struct Range {
    char32_t first;
    char32_t last;
};

// The blocks that matter in names and messages; not the whole of Unicode's tables, which would need a library.
constexpr std::array<Range, 12> kZeroWidth = {{{0x300, 0x36f},
                                               {0x483, 0x489},
                                               {0x591, 0x5bd},
                                               {0x610, 0x61a},
                                               {0x64b, 0x65f},
                                               {0x200b, 0x200f},
                                               {0x1ab0, 0x1aff},
                                               {0x1dc0, 0x1dff},
                                               {0x20d0, 0x20ff},
                                               {0xfe00, 0xfe0f},
                                               {0xfe20, 0xfe2f},
                                               {0xe0100, 0xe01ef}}};
constexpr std::array<Range, 12> kDoubleWidth = {{{0x1100, 0x115f},
                                                 {0x2e80, 0x303e},
                                                 {0x3041, 0x33ff},
                                                 {0x3400, 0x4dbf},
                                                 {0x4e00, 0x9fff},
                                                 {0xa000, 0xa4cf},
                                                 {0xac00, 0xd7a3},
                                                 {0xf900, 0xfaff},
                                                 {0xfe30, 0xfe6f},
                                                 {0xff00, 0xff60},
                                                 {0x1f300, 0x1faff},
                                                 {0x20000, 0x3fffd}}};

// What a terminal obeys instead of showing, and what reorders or hides text.
constexpr std::array<Range, 10> kHidden = {{
    {0x00, 0x1f},
    {0x7f, 0x9f},       // DEL and C1: U+009B is an escape sequence's start in some terminals
    {0x61c, 0x61c},     // Arabic letter mark
    {0xad, 0xad},       // soft hyphen
    {0x200b, 0x200f},   // zero-width space and joiners, left-to-right and right-to-left marks
    {0x2028, 0x202e},   // line and paragraph separators, bidirectional embeddings and overrides
    {0x2060, 0x206f},   // invisible operators, bidirectional isolates
    {0xfeff, 0xfeff},   // byte order mark
    {0xfff9, 0xfffb},   // interlinear annotation
    {0xe0000, 0xe007f}  // tags: ASCII that nobody sees
}};

bool isIn(std::span<const Range> ranges, char32_t value) {
    return std::ranges::any_of(ranges, [&](const Range& r) { return value >= r.first && value <= r.last; });
}

std::size_t columns(const CodePoint& point) {
    if (!point.valid || point.value < 0x300) return 1;
    if (isIn(kZeroWidth, point.value)) return 0;
    return isIn(kDoubleWidth, point.value) ? 2 : 1;
}

struct Lead {
    std::size_t length;
    char32_t bits;
    char32_t smallest;  // A smaller value in this length would be an overlong form.
};

Lead readLead(unsigned char byte) {
    if (byte < 0x80) return {1, byte, 0};
    if ((byte & 0xe0) == 0xc0) return {2, byte & 0x1fU, 0x80};
    if ((byte & 0xf0) == 0xe0) return {3, byte & 0x0fU, 0x800};
    if ((byte & 0xf8) == 0xf0) return {4, byte & 0x07U, 0x10000};
    return {0, 0, 0};
}

}  // namespace

CodePoint firstCodePoint(std::string_view text) {
    const auto byteAt = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const CodePoint invalid{byteAt(0), 1, false};
    const Lead lead = readLead(byteAt(0));
    if (lead.length == 0 || lead.length > text.size()) return invalid;
    char32_t value = lead.bits;
    for (std::size_t i = 1; i < lead.length; ++i) {
        if ((byteAt(i) & 0xc0) != 0x80) return invalid;
        value = (value << 6) | (byteAt(i) & 0x3fU);
    }
    const bool isSurrogate = value >= 0xd800 && value <= 0xdfff;
    if (value < lead.smallest || value > 0x10ffff || isSurrogate) return invalid;
    return {value, lead.length, true};
}

std::optional<std::size_t> firstInvalidUtf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        if (static_cast<unsigned char>(text[at]) < 0x80) {  // nearly every byte of nearly every text
            ++at;
            continue;
        }
        const CodePoint point = firstCodePoint(text.substr(at));
        if (!point.valid) return at;
        at += point.length;
    }
    return std::nullopt;
}

bool isUnsafe(const CodePoint& point) { return !point.valid || isIn(kHidden, point.value); }

std::string escaped(const CodePoint& point) {
    if (point.value == '\n') return "\\n";
    if (point.value == '\t') return "\\t";
    if (point.value == '\r') return "\\r";
    if (!point.valid || point.value < 0x80) return fmt::format("\\x{:02x}", static_cast<unsigned>(point.value));
    return fmt::format("\\u{{{:x}}}", static_cast<unsigned>(point.value));
}

std::string printable(std::string_view untrusted) {
    std::string out;
    out.reserve(untrusted.size());
    while (!untrusted.empty()) {
        const CodePoint point = firstCodePoint(untrusted);
        if (isUnsafe(point)) {
            out += escaped(point);
        } else {
            out += untrusted.substr(0, point.length);
        }
        untrusted.remove_prefix(point.length);
    }
    return out;
}

std::size_t displayWidth(std::string_view text) {
    std::size_t width = 0;
    while (!text.empty()) {
        const CodePoint point = firstCodePoint(text);
        width += columns(point);
        text.remove_prefix(point.length);
    }
    return width;
}

std::string_view cutToWidth(std::string_view text, std::size_t width) {
    std::size_t taken = 0;
    std::size_t used = 0;
    while (taken < text.size()) {
        const CodePoint point = firstCodePoint(text.substr(taken));
        used += columns(point);
        if (used > width) break;
        taken += point.length;
    }
    return text.substr(0, taken);
}

}  // namespace gradus
