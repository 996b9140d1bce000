#include "pipeline/cli/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "pipeline/cli/style.h"
#include "pipeline/cli/utf8.h"

namespace gradus {

namespace {

struct Range {
    char32_t first;
    char32_t last;
};

constexpr std::array<Range, 10> kHidden = {{
    {0x00, 0x1f},
    {0x7f, 0x9f},       // DEL and C1: U+009B is an escape sequence's start in some terminals
    {0x61c, 0x61c},     // Arabic letter mark
    {0x200b, 0x200b},   // zero-width space
    {0x200e, 0x200f},   // left-to-right and right-to-left marks
    {0x2028, 0x202e},   // line and paragraph separators, bidirectional embeddings and overrides
    {0x2060, 0x206f},   // invisible operators, bidirectional isolates
    {0xfeff, 0xfeff},   // byte order mark
    {0xfff9, 0xfffb},   // interlinear annotation
    {0xe0000, 0xe007f}  // tags: ASCII that nobody sees
}};

bool isHidden(char32_t value) {
    return std::ranges::any_of(kHidden, [&](const Range& r) { return value >= r.first && value <= r.last; });
}

void appendEscaped(std::string& out, const CodePoint& point) {
    if (point.value == '\n') {
        out += "\\n";
    } else if (point.value == '\t') {
        out += "\\t";
    } else if (point.value == '\r') {
        out += "\\r";
    } else if (!point.valid || point.value < 0x80) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned>(point.value));
    } else {
        fmt::format_to(std::back_inserter(out), "\\u{{{:x}}}", static_cast<unsigned>(point.value));
    }
}

// `keptPrefix` says how many bytes at the start of the rest may pass as they are; 0 for none.
template <typename KeptPrefix>
std::string escape(std::string_view text, KeptPrefix keptPrefix) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        std::size_t length = keptPrefix(text);
        if (length == 0) {
            const CodePoint point = firstCodePoint(text);
            length = point.length;
            if (!point.valid || isHidden(point.value)) {
                appendEscaped(out, point);
                text.remove_prefix(length);
                continue;
            }
        }
        out += text.substr(0, length);
        text.remove_prefix(length);
    }
    return out;
}

std::size_t lineBreakOrTab(std::string_view text) { return text.front() == '\n' || text.front() == '\t' ? 1 : 0; }

}  // namespace

std::string printable(std::string_view untrusted) {
    return escape(untrusted, [](std::string_view) { return std::size_t{0}; });
}

std::string printableLines(std::string_view untrusted) { return escape(untrusted, lineBreakOrTab); }

std::string printableStyled(std::string_view text) {
    return escape(text, [](std::string_view rest) {
        const std::size_t sequence = styleSequenceLength(rest);
        return sequence != 0 ? sequence : lineBreakOrTab(rest);
    });
}

}  // namespace gradus
