#include "pipeline/cli/terminal_filter.h"

#include <algorithm>
#include <optional>

#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr char kEscape = '\x1b';
constexpr std::size_t kLongestColour = 64;

/// Something at the start of a text. Undecided: more bytes are needed to know.
enum class Start { kNo, kYes, kUndecided };

struct Match {
    Start start = Start::kNo;
    std::size_t length = 0;
};

/// ESC [ digits and semicolons m: a colour and nothing else.
Match colour(std::string_view text) {
    if (text[0] != kEscape) return {};
    if (text.size() == 1) return {Start::kUndecided};
    if (text[1] != '[') return {};
    const std::size_t end = text.find_first_not_of("0123456789;", 2);
    if (end == std::string_view::npos) return {text.size() > kLongestColour ? Start::kNo : Start::kUndecided};
    return text[end] == 'm' && end <= kLongestColour ? Match{Start::kYes, end + 1} : Match{};
}

/// A carriage return before a line feed belongs to it; alone it would let the next text cover what was written.
Match lineBreak(std::string_view text) {
    if (text[0] == '\n' || text[0] == '\t') return {Start::kYes, 1};
    if (text[0] != '\r') return {};
    if (text.size() == 1) return {Start::kUndecided};
    return text[1] == '\n' ? Match{Start::kYes, 2} : Match{};
}

/// The beginning of a character whose other bytes are still to come.
bool isCutCharacter(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
    if (lead > 0xf4 || text.size() >= wanted) return false;
    return std::all_of(text.begin() + 1, text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
}

Match harmless(std::string_view text, TerminalFilter::Colours colours) {
    if (const Match match = colours == TerminalFilter::Colours::kPassed ? colour(text) : Match{};
        match.start != Start::kNo)
        return match;
    if (const Match match = lineBreak(text); match.start != Start::kNo) return match;
    return isCutCharacter(text) ? Match{Start::kUndecided} : Match{};
}

}  // namespace

std::string TerminalFilter::take(bool atEnd) {
    std::string shown;
    std::string_view rest = held_;
    while (!rest.empty()) {
        Match match = harmless(rest, colours_);
        if (match.start == Start::kUndecided && !atEnd) break;
        if (match.start == Start::kYes) {
            shown += rest.substr(0, match.length);
        } else {
            const CodePoint point = firstCodePoint(rest);
            match.length = point.length;
            shown += isUnsafe(point) ? escaped(point) : std::string(rest.substr(0, point.length));
        }
        rest.remove_prefix(match.length);
    }
    held_ = std::string(rest);
    return shown;
}

std::string TerminalFilter::pass(std::string_view piece) {
    held_ += piece;
    return take(false);
}

std::string TerminalFilter::finish() { return take(true); }

}  // namespace gradus
