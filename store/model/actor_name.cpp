#include "store/model/actor_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kLongest = 255;

struct Range {
    char32_t first;
    char32_t last;
};

// Besides what no text from outside may hold (isUnsafe): spaces of other widths, and characters without ink.
constexpr std::array<Range, 14> kUnseen = {{{0xa0, 0xa0},
                                            {0x34f, 0x34f},
                                            {0x115f, 0x1160},
                                            {0x1680, 0x1680},
                                            {0x17b4, 0x17b5},
                                            {0x180b, 0x180f},
                                            {0x2000, 0x200a},
                                            {0x202f, 0x202f},
                                            {0x205f, 0x205f},
                                            {0x2800, 0x2800},
                                            {0x3000, 0x3000},
                                            {0x3164, 0x3164},
                                            {0xfe00, 0xfe0f},
                                            {0xe0100, 0xe01ef}}};
constexpr Range kCombining{0x300, 0x36f};

bool isIn(const Range& range, char32_t value) { return value >= range.first && value <= range.last; }

std::string pointProblem(const CodePoint& point) {
    const bool unseen =
        std::any_of(kUnseen.begin(), kUnseen.end(), [&](const Range& r) { return isIn(r, point.value); });
    if (isUnsafe(point) || unseen) return fmt::format("holds {}, which nobody sees", escaped(point));
    if (isIn(kCombining, point.value))
        return fmt::format("holds the mark {}: write the letter that it belongs to as one character", escaped(point));
    return {};
}

}  // namespace

std::string actorNameProblem(std::string_view name) {
    if (name.empty()) return "is empty";
    if (name.size() > kLongest) return fmt::format("is longer than {} bytes", kLongest);
    if (firstInvalidUtf8(name)) return "is not UTF-8";
    if (name.front() == ' ' || name.back() == ' ') return "begins or ends with a space";
    if (name.find("  ") != std::string_view::npos) return "has two spaces in a row";
    for (std::string_view rest = name; !rest.empty();) {
        const CodePoint point = firstCodePoint(rest);
        if (std::string problem = pointProblem(point); !problem.empty()) return problem;
        rest.remove_prefix(point.length);
    }
    return {};
}

void requireActorName(std::string_view where, std::string_view name) {
    const std::string problem = actorNameProblem(name);
    if (problem.empty()) return;
    throw Error(ErrorCode::kUsage, "the name '{}' in {} {}", printable(name), where, problem)
        .hint("names that look the same must be the same: write it without");
}

}  // namespace gradus
