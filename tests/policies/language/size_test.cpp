#include "policies/language/size.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gradus {
namespace {

TEST(Size, ReadsPowersOf1024) {
    EXPECT_EQ(parseSize("1000B").value, 1000);
    EXPECT_EQ(parseSize("64K").value, 65'536);
    EXPECT_EQ(parseSize("512M").value, 536'870'912);
    EXPECT_EQ(parseSize("4G").value, std::int64_t{4} << 30);
    EXPECT_EQ(parseSize("4GiB").value, std::int64_t{4} << 30);
    EXPECT_EQ(parseSize("2T").value, std::int64_t{2} << 40);
}

TEST(Size, SaysWhatIsWrong) {
    EXPECT_EQ(parseSize("").problem, "is empty");
    EXPECT_EQ(parseSize("4096").problem, "has no unit (B, K, M, G or T)");
    EXPECT_EQ(parseSize("-1G").problem, "is negative");
    EXPECT_EQ(parseSize("4GB").problem, "has the unknown unit 'GB' (B, K, M, G or T)");
    EXPECT_EQ(parseSize("4g").problem, "has the unknown unit 'g' (B, K, M, G or T)");
    EXPECT_EQ(parseSize("9999999999T").problem, "is too large");
    EXPECT_FALSE(parseSize("1.5G"));
    EXPECT_FALSE(parseSize("4 G"));
}

RC_GTEST_PROP(Size, ReadsBackWhatItPrints, ()) {
    const auto bytes = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 50);
    RC_ASSERT(parseSize(formatSize(bytes)).value == bytes);
}

}  // namespace
}  // namespace gradus
