#include "pipeline/cli/printable.h"

#include "pipeline/cli/style.h"

namespace gradus {

namespace {

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
            if (isUnsafe(point)) {
                out += escaped(point);
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

std::string printableLines(std::string_view untrusted) { return escape(untrusted, lineBreakOrTab); }

std::string printableStyled(std::string_view text) {
    return escape(text, [](std::string_view rest) {
        const std::size_t sequence = styleSequenceLength(rest);
        return sequence != 0 ? sequence : lineBreakOrTab(rest);
    });
}

}  // namespace gradus
