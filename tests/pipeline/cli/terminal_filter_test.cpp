#include "pipeline/cli/terminal_filter.h"

#include <gtest/gtest.h>

namespace gradus {
namespace {

std::string filtered(std::string_view text) {
    TerminalFilter filter;
    return filter.pass(text) + filter.finish();
}

/// The same, a byte at a time.
std::string dripped(std::string_view text) {
    TerminalFilter filter;
    std::string shown;
    for (const char c : text) shown += filter.pass(std::string_view(&c, 1));
    return shown + filter.finish();
}

TEST(TerminalFilter, TextLinesTabsAndColoursPass) {
    for (const std::string_view text : {"plain\n", "a\tb\r\n", "\x1b[1;31mred\x1b[0m", "grün → 🎉", ""}) {
        EXPECT_EQ(filtered(text), text);
        EXPECT_EQ(dripped(text), text);
    }
}

// PR8
TEST(TerminalFilter, WhateverDrivesTheTerminalIsShownAsAnEscape) {
    for (const std::string_view text :
         {"\x1b]52;c;ZXZpbA==\x07", "\x1b[2J", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "\x1b[10A", "\xe2\x80\xae",
          "over\rwritten", "\x9b[2J", "\x1b[31;x", "\x08\x08"}) {
        const std::string shown = filtered(text);
        EXPECT_EQ(shown.find('\x1b'), std::string::npos) << shown;
        EXPECT_EQ(shown.find('\r'), std::string::npos) << shown;
        EXPECT_EQ(shown.find('\x07'), std::string::npos) << shown;
        EXPECT_EQ(shown.find("\xe2\x80\xae"), std::string::npos) << shown;
        EXPECT_EQ(dripped(text), shown) << "the same however it is cut";
    }
}

TEST(TerminalFilter, AnEndlessColourIsNotHeldForEver) {
    TerminalFilter filter;
    const std::string shown = filter.pass("\x1b[" + std::string(100, '1'));
    EXPECT_NE(shown, "");
}

TEST(TerminalFilter, ACutCharacterWaitsForItsRestAndIsShownAtTheEnd) {
    TerminalFilter filter;
    EXPECT_EQ(filter.pass("\xe2\x82"), "");
    EXPECT_EQ(filter.pass("\xac"), "€");
    EXPECT_EQ(filter.pass("\xe2"), "");
    EXPECT_NE(filter.finish(), "");
}

}  // namespace
}  // namespace gradus
