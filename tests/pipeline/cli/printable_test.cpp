#include "pipeline/cli/printable.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <random>

#include "store/model/utf8.h"

namespace gradus {

namespace {

bool isSafe(std::string_view text, std::string_view allowed) {
    while (!text.empty()) {
        const CodePoint point = firstCodePoint(text);
        const bool isControl = point.value < 0x20 || (point.value >= 0x7f && point.value <= 0x9f);
        const bool reorders =
            (point.value >= 0x202a && point.value <= 0x202e) || (point.value >= 0x2066 && point.value <= 0x2069);
        const bool isAllowed = point.length == 1 && allowed.find(text.front()) != std::string_view::npos;
        if (!point.valid || ((isControl || reorders) && !isAllowed)) return false;
        text.remove_prefix(point.length);
    }
    return true;
}

TEST(Printable, ShowsWhatWouldDriveATerminal) {
    EXPECT_EQ(printable("\x1b]52;c;aGk=\a"), "\\x1b]52;c;aGk=\\x07");
    EXPECT_EQ(printable("\x1b[2J"), "\\x1b[2J");
    EXPECT_EQ(printable("\x1b]8;;http://x\x1b\\y"), "\\x1b]8;;http://x\\x1b\\y");
    EXPECT_EQ(printable("safe\u202eevil"), "safe\\u{202e}evil");
    EXPECT_EQ(printable("a\u2066b\u2069"), "a\\u{2066}b\\u{2069}");
    EXPECT_EQ(printable("\u009b2J"), "\\u{9b}2J");
    EXPECT_EQ(printable("a\r\n\tb\x7f"), "a\\r\\n\\tb\\x7f");
    EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(Printable, ShowsBytesThatAreNotUtf8) {
    EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
    EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
    EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
    EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
}

TEST(Printable, LeavesOrdinaryTextOfAnyScriptAlone) {
    for (const std::string text : {"plain", "Grüße", "日本語", "emoji 🚀", "שלום", "a\\b"})
        EXPECT_EQ(printable(text), text);
}

TEST(Printable, KeepsNewlinesAndTabsOfSeveralLines) {
    EXPECT_EQ(printableLines("a\n\tb\x1b[0m\r\n"), "a\n\tb\\x1b[0m\\r\n");
}

TEST(Printable, KeepsOnlyTheSequencesThatPaintWrites) {
    EXPECT_EQ(printableStyled("\x1b[31mred\x1b[0m"), "\x1b[31mred\x1b[0m");
    EXPECT_EQ(printableStyled("\x1b[8mhidden"), "\\x1b[8mhidden");
    EXPECT_EQ(printableStyled("\x1b[31;5m"), "\\x1b[31;5m");
}

RC_GTEST_PROP(Printable, NeverLetsAControlCharacterThrough, (const std::string& bytes)) {
    RC_ASSERT(isSafe(printable(bytes), ""));
    RC_ASSERT(isSafe(printableLines(bytes), "\n\t"));
}

TEST(Printable, HoldsForAMillionRandomBytes) {
    std::mt19937 random(20260301);  // NOLINT: the same bytes on every run
    std::uniform_int_distribution<int> byte(0, 255);
    for (int round = 0; round < 1000; ++round) {
        std::string text(1000, '\0');
        for (char& c : text) c = static_cast<char>(byte(random));
        ASSERT_TRUE(isSafe(printable(text), "")) << "round " << round;
    }
}

TEST(DisplayWidth, CountsColumnsInsteadOfBytes) {
    EXPECT_EQ(displayWidth("plain"), 5U);
    EXPECT_EQ(displayWidth("Grüße"), 5U);
    EXPECT_EQ(displayWidth("日本"), 4U);
    EXPECT_EQ(displayWidth("e\u0301"), 1U);
    EXPECT_EQ(displayWidth("🚀"), 2U);
}

TEST(DisplayWidth, CutsBetweenCharacters) {
    EXPECT_EQ(cutToWidth("日本語", 5), "日本");
    EXPECT_EQ(cutToWidth("Grüße", 3), "Grü");
    EXPECT_EQ(cutToWidth("ab", 9), "ab");
}

}  // namespace

}  // namespace gradus
