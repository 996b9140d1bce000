#include "pipeline/cli/ci_filter.h"

#include <algorithm>

namespace gradus {

namespace {

// A line without an end is not held for ever: it is broken, and each part is looked at.
constexpr std::size_t kLongestLine = 65536;

/// Where the runner begins to read: it leaves out white space of every kind, and compares by rules of a language, to
/// which some other characters are nothing. Colours are nothing to a reader.
std::size_t firstThatCounts(std::string_view line) {
    std::size_t at = 0;
    while (at < line.size()) {
        const auto byte = static_cast<unsigned char>(line[at]);
        if (byte == 0x1b) {
            at = std::min(line.find('m', at), line.size() - 1) + 1;
        } else if (byte <= ' ' || byte >= 0x7f) {
            ++at;
        } else {
            break;
        }
    }
    return at;
}

std::string harmlessLine(std::string_view line) {
    std::string shown(line);
    for (std::size_t at = shown.find("##["); at != std::string::npos; at = shown.find("##[", at))
        shown.insert(at + 2, "\\");
    const std::size_t first = firstThatCounts(shown);
    if (shown.compare(first, 2, "::") == 0) shown.insert(first, "\\");
    return shown;
}

}  // namespace

std::string CiFilter::pass(std::string_view piece) {
    held_ += piece;
    std::string shown;
    std::size_t begin = 0;
    for (std::size_t end = held_.find('\n'); end != std::string::npos; end = held_.find('\n', begin)) {
        shown += harmlessLine(std::string_view(held_).substr(begin, end + 1 - begin));
        begin = end + 1;
    }
    held_.erase(0, begin);
    if (held_.size() > kLongestLine) shown += finish() + "\n";
    return shown;
}

std::string CiFilter::finish() {
    std::string shown = harmlessLine(held_);
    held_.clear();
    return shown;
}

}  // namespace gradus
