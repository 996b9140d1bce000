#include "store/model/clock.h"

#include <gtest/gtest.h>

#include <limits>

namespace gradus {
namespace {

TEST(ClockTest, FormatsMomentsWithMilliseconds) {
    EXPECT_EQ(formatTime(fromMillis(0)), "1970-01-01T00:00:00.000Z");
    EXPECT_EQ(formatTime(fromMillis(1)), "1970-01-01T00:00:00.001Z");
    EXPECT_EQ(formatTime(fromMillis(1'772'366'400'999)), "2026-03-01T12:00:00.999Z");
    EXPECT_EQ(formatTime(fromMillis(1'709'251'199'999)), "2024-02-29T23:59:59.999Z");
}

TEST(ClockTest, FormatsMomentsBefore1970) {
    EXPECT_EQ(formatTime(fromMillis(-1)), "1969-12-31T23:59:59.999Z");
    EXPECT_EQ(formatTime(fromMillis(-1000)), "1969-12-31T23:59:59.000Z");
    EXPECT_EQ(formatTime(fromMillis(-1001)), "1969-12-31T23:59:58.999Z");
    EXPECT_EQ(formatTime(fromMillis(-62'135'596'800'000)), "0001-01-01T00:00:00.000Z");
}

TEST(ClockTest, FormatsWhateverNumberADatabaseMayHold) {
    EXPECT_NE(formatTime(fromMillis(std::numeric_limits<std::int64_t>::min())), "");
    EXPECT_NE(formatTime(fromMillis(std::numeric_limits<std::int64_t>::max())), "");
}

TEST(ClockTest, IgnoresTheLocalTimeZone) {
    const char* before = getenv("TZ");
    const std::string kept = before == nullptr ? "" : before;
    setenv("TZ", "Asia/Kathmandu", 1);
    tzset();
    EXPECT_EQ(formatTime(fromMillis(0)), "1970-01-01T00:00:00.000Z");
    before == nullptr ? unsetenv("TZ") : setenv("TZ", kept.c_str(), 1);
    tzset();
}

TEST(RandomTest, GivesAsManyBytesAsAskedAndNeverTheSame) {
    SystemRandom random;
    EXPECT_EQ(random.bytes(0), "");
    EXPECT_EQ(random.bytes(1000).size(), 1000U);
    EXPECT_NE(random.bytes(32), random.bytes(32));
}

}  // namespace
}  // namespace gradus
