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

struct ScriptRange {
    std::string_view script;
    Range range;
};

// Scripts that have letters which look like another's of these: a Cyrillic a makes another person of `alice`.
constexpr std::array kScripts{ScriptRange{"Latin", {'A', 'Z'}},          ScriptRange{"Latin", {'a', 'z'}},
                              ScriptRange{"Latin", {0xaa, 0xaa}},        ScriptRange{"Latin", {0xba, 0xba}},
                              ScriptRange{"Latin", {0xc0, 0xd6}},        ScriptRange{"Latin", {0xd8, 0xf6}},
                              ScriptRange{"Latin", {0xf8, 0x2af}},       ScriptRange{"Latin", {0x1d00, 0x1d25}},
                              ScriptRange{"Latin", {0x1e00, 0x1eff}},    ScriptRange{"Latin", {0x2c60, 0x2c7f}},
                              ScriptRange{"Latin", {0xa720, 0xa7ff}},    ScriptRange{"Latin", {0xff21, 0xff3a}},
                              ScriptRange{"Latin", {0xff41, 0xff5a}},    ScriptRange{"Greek", {0x370, 0x37d}},
                              ScriptRange{"Greek", {0x37f, 0x386}},      ScriptRange{"Greek", {0x388, 0x3ff}},
                              ScriptRange{"Greek", {0x1d26, 0x1d2a}},    ScriptRange{"Greek", {0x1f00, 0x1fff}},
                              ScriptRange{"Cyrillic", {0x400, 0x52f}},   ScriptRange{"Cyrillic", {0x1c80, 0x1c8f}},
                              ScriptRange{"Cyrillic", {0x1d2b, 0x1d2b}}, ScriptRange{"Cyrillic", {0x2de0, 0x2dff}},
                              ScriptRange{"Cyrillic", {0xa640, 0xa69f}}};

/// Empty for what every script shares, and for scripts that nobody mistakes for one of these.
std::string_view scriptOf(char32_t value) {
    const auto found =
        std::find_if(kScripts.begin(), kScripts.end(), [&](const ScriptRange& row) { return isIn(row.range, value); });
    return found == kScripts.end() ? std::string_view() : found->script;
}

std::string mixProblem(std::string_view name) {
    std::string_view first;
    for (std::string_view rest = name; !rest.empty();) {
        const CodePoint point = firstCodePoint(rest);
        const std::string_view script = scriptOf(point.value);
        if (!first.empty() && !script.empty() && script != first)
            return fmt::format("mixes {} letters with {} ones ('{}' is U+{:04X})", first, script,
                               rest.substr(0, point.length), static_cast<std::uint32_t>(point.value));
        if (first.empty()) first = script;
        rest.remove_prefix(point.length);
    }
    return {};
}

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
    return mixProblem(name);
}

void requireActorName(std::string_view where, std::string_view name) {
    const std::string problem = actorNameProblem(name);
    if (problem.empty()) return;
    throw Error(ErrorCode::kUsage, "the name '{}' in {} {}", printable(name), where, problem)
        .hint("names that look the same must be the same: write it without");
}

}  // namespace gradus
