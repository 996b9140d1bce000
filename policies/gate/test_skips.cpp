#include "policies/gate/test_skips.h"

#include <array>

namespace gradus {

namespace {

constexpr std::array<std::string_view, 16> kMarks{
    ".skip", ".xfail",   "expectedFailure", ".todo(",    "xit(",      "xtest(",  "xdescribe(",    ".only(",
    ".Skip", "#[ignore", "GTEST_SKIP",      "DISABLED_", "@Disabled", "@Ignore", "Assert.Ignore", "markTestSkipped",
};

bool isWordCharacter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// A mark that starts with a letter starts a word: `exit(` is not `xit(`.
std::int64_t occurrences(std::string_view text, std::string_view mark) {
    std::int64_t count = 0;
    for (std::size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + mark.size()))
        if (at == 0 || !isWordCharacter(mark[0]) || !isWordCharacter(text[at - 1])) ++count;
    return count;
}

}  // namespace

std::int64_t countSkips(std::string_view text) {
    std::int64_t count = 0;
    for (const std::string_view mark : kMarks) count += occurrences(text, mark);
    return count;
}

}  // namespace gradus
