#include "policies/language/duration.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace gradus {
namespace {

using namespace std::chrono_literals;

TEST(Duration, ReadsEveryUnitAndSums) {
    EXPECT_EQ(parseDuration("250ms").value, Milliseconds(250));
    EXPECT_EQ(parseDuration("90s").value, Milliseconds(90s));
    EXPECT_EQ(parseDuration("30m").value, Milliseconds(30min));
    EXPECT_EQ(parseDuration("12h").value, Milliseconds(12h));
    EXPECT_EQ(parseDuration("2d").value, Milliseconds(48h));
    EXPECT_EQ(parseDuration("1w").value, Milliseconds(168h));
    EXPECT_EQ(parseDuration("1h30m").value, Milliseconds(90min));
    EXPECT_EQ(parseDuration("0s").value, Milliseconds(0));
}

TEST(Duration, SaysWhatIsWrong) {
    EXPECT_EQ(parseDuration("").problem, "is empty");
    EXPECT_EQ(parseDuration("90").problem, "has no unit (ms, s, m, h, d or w)");
    EXPECT_EQ(parseDuration("-1s").problem, "is negative");
    EXPECT_EQ(parseDuration("5 m").problem, "has no unit (ms, s, m, h, d or w)");
    EXPECT_EQ(parseDuration("5min").problem, "has the unknown unit 'min' (ms, s, m, h, d or w)");
    EXPECT_EQ(parseDuration("5M").problem, "has the unknown unit 'M' (ms, s, m, h, d or w)");
    EXPECT_EQ(parseDuration("30m1h").problem, "has its units out of order");
    EXPECT_EQ(parseDuration("1h1h").problem, "has its units out of order");
    EXPECT_EQ(parseDuration("99999999999999999999s").problem, "is too long");
    EXPECT_EQ(parseDuration("9223372036854775807w").problem, "is too long");
    EXPECT_FALSE(parseDuration("1.5h"));
    EXPECT_FALSE(parseDuration("+5s"));
    EXPECT_FALSE(parseDuration("5s "));
}

RC_GTEST_PROP(Duration, ReadsBackWhatItPrints, ()) {
    const auto milliseconds = *rc::gen::inRange<std::int64_t>(0, 400'000'000'000);
    RC_ASSERT(parseDuration(formatDuration(Milliseconds(milliseconds))).value == Milliseconds(milliseconds));
}

}  // namespace
}  // namespace gradus
