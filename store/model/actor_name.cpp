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

/// Runs of letters that stand for those of the alphabet, from A or a on, and for the digits.
struct StyledRun {
    char32_t first;
    std::size_t length;
    char begins;
};
constexpr std::array kStyled{StyledRun{0xff21, 26, 'a'},  StyledRun{0xff41, 26, 'a'},  StyledRun{0xff10, 10, '0'},
                             StyledRun{0x24b6, 26, 'a'},  StyledRun{0x24d0, 26, 'a'},  StyledRun{0x249c, 26, 'a'},
                             StyledRun{0x1f110, 26, 'a'}, StyledRun{0x1f130, 26, 'a'}, StyledRun{0x1f150, 26, 'a'},
                             StyledRun{0x1f170, 26, 'a'}};
constexpr Range kMathLetters{0x1d400, 0x1d6a3};
constexpr Range kMathDigits{0x1d7ce, 0x1d7ff};

struct OddLetter {
    char32_t letter;
    std::string_view plain;
};
constexpr std::array kOddLetters{
    OddLetter{0xaa, "a"},     OddLetter{0xba, "o"},        OddLetter{0xdf, "ss"},      OddLetter{0x1e9e, "ss"},
    OddLetter{0x130, "i"},    OddLetter{0x131, "i"},       OddLetter{0x17f, "s"},      OddLetter{0x178, "\u00ff"},
    OddLetter{0x212a, "k"},   OddLetter{0x212b, "\u00e5"}, OddLetter{0x3c2, "\u03c3"}, OddLetter{0x2070, "0"},
    OddLetter{0x2071, "i"},   OddLetter{0x207f, "n"},      OddLetter{0xb9, "1"},       OddLetter{0xb2, "2"},
    OddLetter{0xb3, "3"},     OddLetter{0xfb00, "ff"},     OddLetter{0xfb01, "fi"},    OddLetter{0xfb02, "fl"},
    OddLetter{0xfb03, "ffi"}, OddLetter{0xfb04, "ffl"},    OddLetter{0xfb05, "st"},    OddLetter{0xfb06, "st"},
    OddLetter{0x2113, "l"},   OddLetter{0x2102, "c"},      OddLetter{0x210a, "g"},     OddLetter{0x210b, "h"},
    OddLetter{0x210c, "h"},   OddLetter{0x210d, "h"},      OddLetter{0x210e, "h"},     OddLetter{0x2110, "i"},
    OddLetter{0x2111, "i"},   OddLetter{0x2112, "l"},      OddLetter{0x2115, "n"},     OddLetter{0x2119, "p"},
    OddLetter{0x211a, "q"},   OddLetter{0x211b, "r"},      OddLetter{0x211c, "r"},     OddLetter{0x211d, "r"},
    OddLetter{0x2124, "z"},   OddLetter{0x2128, "z"},      OddLetter{0x212c, "b"},     OddLetter{0x212d, "c"},
    OddLetter{0x212f, "e"},   OddLetter{0x2130, "e"},      OddLetter{0x2131, "f"},     OddLetter{0x2133, "m"},
    OddLetter{0x2134, "o"},   OddLetter{0x2139, "i"},      OddLetter{0x2145, "d"},     OddLetter{0x2146, "d"},
    OddLetter{0x2147, "e"},   OddLetter{0x2148, "i"},      OddLetter{0x2149, "j"}};

/// Of pairs that lie side by side, the large one even or odd.
struct CasePairs {
    Range range;
    char32_t largeIs;  ///< the remainder by two
};
constexpr std::array kCasePairs{
    CasePairs{{0x100, 0x12f}, 0},   CasePairs{{0x132, 0x137}, 0},  CasePairs{{0x139, 0x148}, 1},
    CasePairs{{0x14a, 0x177}, 0},   CasePairs{{0x179, 0x17e}, 1},  CasePairs{{0x1cd, 0x1dc}, 1},
    CasePairs{{0x1de, 0x1ef}, 0},   CasePairs{{0x1f8, 0x21f}, 0},  CasePairs{{0x222, 0x233}, 0},
    CasePairs{{0x370, 0x373}, 0},   CasePairs{{0x3d8, 0x3ef}, 0},  CasePairs{{0x460, 0x481}, 0},
    CasePairs{{0x48a, 0x4bf}, 0},   CasePairs{{0x4c1, 0x4ce}, 1},  CasePairs{{0x4d0, 0x52f}, 0},
    CasePairs{{0x1e00, 0x1e95}, 0}, CasePairs{{0x1ea0, 0x1eff}, 0}};
struct CaseShift {
    Range range;
    char32_t by;
};
constexpr std::array kCaseShifts{
    CaseShift{{'A', 'Z'}, 0x20},     CaseShift{{0xc0, 0xd6}, 0x20},   CaseShift{{0xd8, 0xde}, 0x20},
    CaseShift{{0x386, 0x386}, 0x26}, CaseShift{{0x388, 0x38a}, 0x25}, CaseShift{{0x38c, 0x38c}, 0x40},
    CaseShift{{0x38e, 0x38f}, 0x3f}, CaseShift{{0x391, 0x3ab}, 0x20}, CaseShift{{0x400, 0x40f}, 0x50},
    CaseShift{{0x410, 0x42f}, 0x20}, CaseShift{{0x531, 0x556}, 0x30}};

char32_t smallOf(char32_t value) {
    for (const CaseShift& shift : kCaseShifts)
        if (isIn(shift.range, value)) return value + shift.by;
    for (const CasePairs& pairs : kCasePairs)
        if (isIn(pairs.range, value)) return value % 2 == pairs.largeIs ? value + 1 : value;
    return value;
}

void append(std::string& text, char32_t value) {
    const auto byte = [&](char32_t bits) { text += static_cast<char>(static_cast<unsigned char>(bits)); };
    if (value < 0x80) return byte(value);
    if (value < 0x800) return byte(0xc0 | value >> 6), byte(0x80 | (value & 0x3f));
    if (value < 0x10000) return byte(0xe0 | value >> 12), byte(0x80 | (value >> 6 & 0x3f)), byte(0x80 | (value & 0x3f));
    byte(0xf0 | value >> 18), byte(0x80 | (value >> 12 & 0x3f));
    byte(0x80 | (value >> 6 & 0x3f)), byte(0x80 | (value & 0x3f));
}

void appendKey(std::string& key, char32_t value) {
    for (const StyledRun& run : kStyled)
        if (value >= run.first && value < run.first + run.length)
            return append(key, static_cast<char32_t>(run.begins) + (value - run.first));
    if (isIn(kMathLetters, value)) return append(key, U'a' + (value - kMathLetters.first) % 26);
    if (isIn(kMathDigits, value)) return append(key, U'0' + (value - kMathDigits.first) % 10);
    for (const OddLetter& odd : kOddLetters)
        if (odd.letter == value) return void(key += odd.plain);
    append(key, smallOf(value));
}

// What is no letter and no digit, as far as a name may have it.
constexpr std::array<Range, 11> kPunctuation = {{{0x20, 0x2f},
                                                 {0x3a, 0x40},
                                                 {0x5b, 0x60},
                                                 {0x7b, 0x7e},
                                                 {0xa1, 0xa9},
                                                 {0xab, 0xb1},
                                                 {0xb4, 0xb8},
                                                 {0xbb, 0xbf},
                                                 {0x2010, 0x206f},
                                                 {0x3001, 0x303f},
                                                 {0xff00, 0xff0f}}};

bool isPunctuation(char32_t value) {
    return std::any_of(kPunctuation.begin(), kPunctuation.end(),
                       [&](const Range& range) { return isIn(range, value); });
}

}  // namespace

std::string actorKey(std::string_view name) {
    std::string key;
    std::size_t lastLetter = 0;
    for (std::string_view rest = name; !rest.empty();) {
        const CodePoint point = firstCodePoint(rest);
        rest.remove_prefix(std::max<std::size_t>(point.length, 1));
        const bool isMark = isPunctuation(point.value);
        if (isMark && key.empty()) continue;
        appendKey(key, point.value);
        if (!isMark) lastLetter = key.size();
    }
    key.resize(lastLetter);
    return key.empty() ? std::string(name) : key;
}

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
