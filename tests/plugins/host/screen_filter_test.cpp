#include "plugins/host/screen_filter.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

namespace gradus {
namespace {

std::string passed(std::string_view bytes) { return ScreenFilter().pass(bytes); }

TEST(ScreenFilter, LetsAProgramDrawItsScreen) {
    for (const std::string_view text :
         {"plain\r\n\ttext\b", "\x1b[2J\x1b[1;1H", "\x1b[31;1mred\x1b[m", "\x1b[?1049h", "\x1b[?25l\x1b[?25h",
          "\x1b(B\x1b)0\x0e\x0f", "\x1b[1;24r", "\x1b[4 q", "\x1b[!p", "\x1b[6n", "\x1b[c", "\x1b[>c", "\x1b[?12$p",
          "\x1b"
          "7\x1b"
          "8\x1bM",
          "\x1b[?2004h", "\x1b[4h", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x90\x9a", "\x1b[>4;2m"})
        EXPECT_EQ(passed(text), text) << text.substr(1);
}

TEST(ScreenFilter, LeavesOutWhatReachesBeyondTheScreen) {
    for (const std::string_view text : {"\x1b]0;title\x07", "\x1b]52;c;ZXZpbA==\x1b\\", "\x1b]8;;http://evil\x1b\\",
                                        "\x1bP$q\"p\x1b\\", "\x1b_x\x1b\\", "\x1b^x\x1b\\", "\x1bXx\x1b\\", "\x1b[21t",
                                        "\x1b[5i", "\x1b[2h", "\x1b[?1;9999h", "\x1b[>1u", "\x1b%@", "\x1bZ", "\x05",
                                        "\x9b"
                                        "21t",
                                        "\xc2\x9b"
                                        "21t"})
        EXPECT_TRUE(passed(text).find('\x1b') == std::string::npos && passed(text).find('\x05') == std::string::npos &&
                    passed(text).find('\x9b') == std::string::npos)
            << testing::PrintToString(std::string(text)) << " gave " << testing::PrintToString(passed(text));
    EXPECT_EQ(passed("a\x1b]0;title\x07z"), "az");
    EXPECT_EQ(passed("a\x1b]0;title\x1b[31mz"), "a\x1b[31mz") << "a string that nobody ended";
}

TEST(ScreenFilter, PutsBackWhatTheProgramLeft) {
    ScreenFilter filter;
    filter.pass("\x1b[?1049h\x1b[?25l\x1b[?1000;1006h\x1b=\x1b[2;5r\x1b[?2004h\x1b[?2004l");
    const std::string left = filter.leave();
    for (const std::string_view piece : {"\x1b[?1049l", "\x1b[?25h", "\x1b[?1000l", "\x1b[?1006l", "\x1b>", "\x1b[r"})
        EXPECT_NE(left.find(piece), std::string::npos) << piece.substr(1);
    EXPECT_EQ(left.find("2004"), std::string::npos) << "it was put back already";
    EXPECT_EQ(filter.leave(), "");
    EXPECT_EQ(passed("plain text\n").size(), 11U);
}

TEST(ScreenFilter, KnowsThatItWasAsked) {
    ScreenFilter filter;
    filter.pass("\x1b[31m");
    EXPECT_FALSE(filter.hasAsked());
    filter.pass("\x1b[6n");
    EXPECT_TRUE(filter.hasAsked());
}

RC_GTEST_PROP(ScreenFilter, DoesNotMindWhereThePiecesBreak, (std::vector<std::uint8_t> bytes)) {
    const auto cut = *rc::gen::inRange<std::size_t>(0, bytes.size() + 1);
    const std::string sample = "\x1b]0;t\x07\x1b[31m\xe2\x82\xac";
    std::string text(bytes.begin(), bytes.end());
    text.insert(cut, sample);
    ScreenFilter one;
    std::string piecewise;
    for (const char byte : text) piecewise += one.pass({&byte, 1});
    RC_ASSERT(piecewise == passed(text));
}

}  // namespace
}  // namespace gradus
