#include "policies/language/cron.h"

#include <gtest/gtest.h>

namespace gradus {
namespace {

TEST(Cron, ReadsNumbersNamesRangesListsAndSteps) {
    const auto cron = parseCron("*/15 9-17 1,15 JAN-MAR MON-FRI");
    ASSERT_TRUE(cron) << cron.problem;
    EXPECT_EQ(cron.value->minutes.count(), 4U);
    EXPECT_TRUE(cron.value->minutes[45]);
    EXPECT_EQ(cron.value->hours.count(), 9U);
    EXPECT_TRUE(cron.value->days[15]);
    EXPECT_EQ(cron.value->months.count(), 3U);
    EXPECT_EQ(cron.value->weekdays.count(), 5U);
    EXPECT_FALSE(cron.value->weekdays[0]);
}

TEST(Cron, KnowsSundayAsZeroAndSeven) {
    EXPECT_TRUE(parseCron("0 0 * * 7").value->weekdays[0]);
    EXPECT_TRUE(parseCron("0 0 * * 0").value->weekdays[0]);
    EXPECT_TRUE(parseCron("0 0 * * 5-7").value->weekdays[0]);
}

TEST(Cron, RemembersWhichDayFieldIsFree) {
    EXPECT_TRUE(parseCron("0 16 * * FRI").value->anyDay);
    EXPECT_FALSE(parseCron("0 16 * * FRI").value->anyWeekday);
}

TEST(Cron, SaysWhatIsWrong) {
    EXPECT_EQ(parseCron("0 16 * *").problem, "has 4 fields, not five");
    EXPECT_EQ(parseCron("60 16 * * *").problem, "has 60 for the minute, which goes from 0 to 59");
    EXPECT_EQ(parseCron("0 25 * * *").problem, "has 25 for the hour, which goes from 0 to 23");
    EXPECT_FALSE(parseCron("0 0 0 * *"));
    EXPECT_FALSE(parseCron("0 0 * * FUN"));
    EXPECT_FALSE(parseCron("0 0 * * 5-1"));
    EXPECT_FALSE(parseCron("*/0 0 * * *"));
    EXPECT_FALSE(parseCron("0 0 * * ,"));
    EXPECT_FALSE(parseCron("@daily"));
    EXPECT_FALSE(parseCron(""));
    EXPECT_FALSE(parseCron("99999999999999999999 0 * * *"));
}

}  // namespace
}  // namespace gradus
