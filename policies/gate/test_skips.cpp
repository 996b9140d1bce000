#include "policies/gate/test_skips.h"

#include <array>

namespace gradus {

namespace {

constexpr std::array<std::string_view, 20> kMarks{
    "mark.skip",  "mark.xfail", "pytest.skip", "unittest.skip", "expectedFailure", ".skip(",          ".todo(",
    "xit(",       "xtest(",     "xdescribe(",  ".only(",        "t.Skip",          "b.Skip",          "#[ignore",
    "GTEST_SKIP", "DISABLED_",  "@Disabled",   "@Ignore",       "Assert.Ignore",   "markTestSkipped",
};

std::int64_t occurrences(std::string_view text, std::string_view mark) {
    std::int64_t count = 0;
    for (std::size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + mark.size()))
        ++count;
    return count;
}

}  // namespace

std::int64_t countSkips(std::string_view text) {
    std::int64_t count = 0;
    for (const std::string_view mark : kMarks) count += occurrences(text, mark);
    return count;
}

}  // namespace gradus
