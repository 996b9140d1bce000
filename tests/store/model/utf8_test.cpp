#include "store/model/utf8.h"

#include <gtest/gtest.h>

namespace gradus {
namespace {

TEST(Utf8, FindsTheFirstByteThatIsNoCharacter) {
    EXPECT_EQ(firstInvalidUtf8("grün €𝄞"), std::nullopt);
    EXPECT_EQ(firstInvalidUtf8("a\xff"), 1U);
    EXPECT_EQ(firstInvalidUtf8("\xc0\xaf"), 0U);          // overlong
    EXPECT_EQ(firstInvalidUtf8("\xed\xa0\x80"), 0U);      // a surrogate
    EXPECT_EQ(firstInvalidUtf8("ab\xe2\x82"), 2U);        // cut off
    EXPECT_EQ(firstInvalidUtf8("\xf4\x90\x80\x80"), 0U);  // beyond the last code point
}

TEST(Utf8, ShowsNothingThatATerminalWouldObey) {
    EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
    EXPECT_EQ(printable("a\u202eb"), "a\\u{202e}b");
    EXPECT_EQ(printable("a\xff"), "a\\xff");
    EXPECT_EQ(printable("\tä"), "\\tä");
}

TEST(Utf8, MeasuresColumnsAndNotBytes) {
    EXPECT_EQ(displayWidth("aä"), 2U);
    EXPECT_EQ(displayWidth("日本"), 4U);
    EXPECT_EQ(displayWidth("e\u0301"), 1U);
}

}  // namespace
}  // namespace gradus
