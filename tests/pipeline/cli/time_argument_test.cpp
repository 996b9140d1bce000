#include "pipeline/cli/time_argument.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "store/model/error.h"

namespace gradus {

namespace {

const Time kNoon = fromMillis(1'772'366'400'000);  // 2026-03-01T12:00:00Z

std::string parsed(std::string_view text) { return formatTime(parseTimeArgument(text, kNoon)); }

TEST(TimeArgument, CountsAnAgeBackFromNow) {
    EXPECT_EQ(parsed("90s"), "2026-03-01T11:58:30.000Z");
    EXPECT_EQ(parsed("2d"), "2026-02-27T12:00:00.000Z");
    EXPECT_EQ(parsed("1h30m"), "2026-03-01T10:30:00.000Z");
    EXPECT_EQ(parsed("1w"), "2026-02-22T12:00:00.000Z");
    EXPECT_EQ(parsed("250ms"), "2026-03-01T11:59:59.750Z");
    EXPECT_EQ(parsed("0s"), "2026-03-01T12:00:00.000Z");
}

TEST(TimeArgument, ReadsATimeWithItsZone) {
    EXPECT_EQ(parsed("2026-03-01T12:00:00Z"), "2026-03-01T12:00:00.000Z");
    EXPECT_EQ(parsed("2026-03-01 12:00:00z"), "2026-03-01T12:00:00.000Z");
    EXPECT_EQ(parsed("2026-03-01T12:00:00.1239+01:00"), "2026-03-01T11:00:00.123Z");
    EXPECT_EQ(parsed("2026-03-01T23:30:00-02:30"), "2026-03-02T02:00:00.000Z");
    EXPECT_EQ(parsed("2024-02-29T00:00:00Z"), "2024-02-29T00:00:00.000Z");
    EXPECT_EQ(parsed("2016-12-31T23:59:60Z"), "2017-01-01T00:00:00.000Z");
}

TEST(TimeArgument, RefusesWhatIsNeitherWithAnExample) {
    for (const std::string_view text : {"",
                                        "2",
                                        "d",
                                        "2 d",
                                        "-2d",
                                        "2y",
                                        "2d3",
                                        "99999999999999999999s",
                                        "9223372036854775807w",
                                        "36501d",
                                        "yesterday",
                                        "2026-03-01",
                                        "2026-03-01T12:00:00",
                                        "2026-13-01T00:00:00Z",
                                        "2026-02-30T00:00:00Z",
                                        "2026-03-01T24:00:00Z",
                                        "2026-03-01T12:60:00Z",
                                        "2026-03-01T12:00:61Z",
                                        "2026-03-01T12:00:00.Z",
                                        "2026-03-01T12:00:00+24:00",
                                        "2026-03-01T12:00:00Z ",
                                        "2026-3-1T12:00:00Z",
                                        "\xff\xfe"}) {
        try {
            parseTimeArgument(text, kNoon);
            ADD_FAILURE() << "accepted '" << text << "'";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kUsage);
            EXPECT_NE(error.hint().find("2026-03-01T12:00:00Z"), std::string::npos);
        }
    }
}

RC_GTEST_PROP(TimeArgument, ReadsBackEveryTimeThatWeWrite, ()) {
    const auto millis = *rc::gen::inRange<std::int64_t>(-62'135'596'800'000, 253'402'300'799'999);  // years 1 to 9999
    RC_ASSERT(parseTimeArgument(formatTime(fromMillis(millis)), kNoon) == fromMillis(millis));
}

}  // namespace

}  // namespace gradus
