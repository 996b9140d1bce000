#include "policies/language/time_zone.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "policies/language/pipeline.h"
#include "policies/language/zone_rule.h"

namespace gradus {
namespace {

const std::filesystem::path kZoneinfo = "/usr/share/zoneinfo";

std::string bytesOf(const std::string& zone) {
    std::ifstream file(kZoneinfo / zone, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// What the C library says; its own reading of the same files.
long offsetByLibrary(std::time_t at) {
    std::tm local{};
    ::localtime_r(&at, &local);
    return local.tm_gmtoff;
}

class InZone {
  public:
    explicit InZone(const std::string& zone) {
        ::setenv("TZ", (":" + (kZoneinfo / zone).string()).c_str(), 1);
        ::tzset();
    }
    ~InZone() {
        ::unsetenv("TZ");
        ::tzset();
    }
    InZone(const InZone&) = delete;
    InZone& operator=(const InZone&) = delete;
};

constexpr std::array kNames{"UTC",
                            "Europe/Berlin",
                            "Europe/Dublin",
                            "America/New_York",
                            "America/Sao_Paulo",
                            "Africa/Casablanca",
                            "Asia/Kolkata",
                            "Asia/Kathmandu",
                            "Australia/Lord_Howe",
                            "Pacific/Apia",
                            "America/Nuuk",
                            "Antarctica/Troll"};

TEST(TimeZone, AgreesWithTheLibraryAtAndAroundEveryChange) {
    if (!std::filesystem::exists(kZoneinfo / "Europe/Berlin")) GTEST_SKIP() << "no time zones on this machine";
    for (const std::string name : kNames) {
        const InZone inside(name);
        const TimeZone zone = *TimeZone::parse(bytesOf(name)).value;
        for (const auto& segment : zone.segments()) {
            if (segment.begin == TimeZone::kBeginning) continue;
            const std::time_t at = toMillis(segment.begin) / 1000;
            for (const std::time_t near : {at - 1, at, at + 1})
                EXPECT_EQ(zone.segmentAt(fromMillis(near * 1000)).offset.count() / 1000, offsetByLibrary(near))
                    << name << " at " << near;
        }
    }
}

TEST(TimeZone, AgreesWithTheLibraryFromNineteenHundredTo2199) {
    if (!std::filesystem::exists(kZoneinfo / "Europe/Berlin")) GTEST_SKIP() << "no time zones on this machine";
    for (const std::string name : kNames) {
        const InZone inside(name);
        const TimeZone zone = *TimeZone::parse(bytesOf(name)).value;
        for (std::time_t at = -2'208'988'800; at < 7'226'582'400; at += 86'400 * 5 + 3571)
            ASSERT_EQ(zone.segmentAt(fromMillis(at * 1000)).offset.count() / 1000, offsetByLibrary(at))
                << name << " at " << at;
    }
}

TEST(TimeZone, HasNoGapsAndNoEmptySegments) {
    for (const std::string name : kNames) {
        const auto segments = TimeZone::parse(bytesOf(name)).value.value_or(TimeZone()).segments();
        EXPECT_EQ(segments.front().begin, TimeZone::kBeginning);
        EXPECT_EQ(segments.back().end, TimeZone::kEnd);
        for (std::size_t i = 1; i < segments.size(); ++i) {
            EXPECT_EQ(segments[i - 1].end, segments[i].begin);
            EXPECT_LT(segments[i].begin, segments[i].end);
            EXPECT_NE(segments[i].offset, segments[i - 1].offset);
        }
    }
}

TEST(TimeZone, RefusesWhatIsNoZone) {
    EXPECT_FALSE(TimeZone::parse(""));
    EXPECT_FALSE(TimeZone::parse("TZif"));
    EXPECT_FALSE(TimeZone::parse(std::string(200, 'x')));
    const std::string whole = bytesOf("Europe/Berlin");
    for (std::size_t size = 0; size + 1 < whole.size(); size += 7)
        EXPECT_FALSE(TimeZone::parse(std::string_view(whole).substr(0, std::min(size, whole.size() - 30))));
}

RC_GTEST_PROP(TimeZone, SurvivesDamagedFiles, ()) {
    static const std::string whole = bytesOf("Europe/Berlin");
    std::string bytes = whole;
    const auto places = *rc::gen::container<std::vector<std::pair<std::size_t, char>>>(rc::gen::pair(
        rc::gen::inRange<std::size_t>(0, std::max<std::size_t>(bytes.size(), 1)), rc::gen::arbitrary<char>()));
    for (const auto& [at, byte] : places)
        if (at < bytes.size()) bytes[at] = byte;
    const auto zone = TimeZone::parse(bytes);
    if (zone) RC_ASSERT(zone.value->segments().back().end == TimeZone::kEnd);
}

TEST(TimeZone, ReadsWhatTheWindowsName) {
    Value when;
    when.fields["timezone"].text = "Europe/Berlin";
    Pipeline pipeline;
    pipeline.windows.emplace_back().settings.set("deny", when);
    EXPECT_TRUE(readZones(pipeline).contains("Europe/Berlin"));
    EXPECT_TRUE(readZones(pipeline, "/nowhere").empty());
}

TEST(ZoneRule, ReadsEveryWayToNameADay) {
    const auto year2024 = [](const char* rule) { return ZoneRule::parse(rule).value.value().changesIn(2024); };
    const auto at = [](const char* rule, std::size_t i) {
        return formatTime(ZoneRule::parse(rule).value.value().changesIn(2024)[i].at);
    };
    EXPECT_TRUE(year2024("UTC0").empty());
    EXPECT_EQ(at("CET-1CEST,M3.5.0,M10.5.0/3", 0), "2024-03-31T01:00:00.000Z");
    EXPECT_EQ(at("CET-1CEST,M3.5.0,M10.5.0/3", 1), "2024-10-27T01:00:00.000Z");
    EXPECT_EQ(at("EST5EDT,J60,J300/1:30", 0), "2024-03-01T07:00:00.000Z");
    EXPECT_EQ(at("EST5EDT,59,J300", 0), "2024-02-29T07:00:00.000Z");
    EXPECT_EQ(at("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 0), "2024-03-31T01:00:00.000Z");
}

TEST(ZoneRule, RefusesWhatIsNoRule) {
    for (const char* text : {"", "X", "CET", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.1.0,M10.5.0", "CET-200",
                             "CET-1CEST,M3.6.0,M10.5.0", "<+03", "CET-1CEST,M3.5.0,M10.5.0x", "CET-1:99"})
        EXPECT_FALSE(ZoneRule::parse(text)) << text;
}

}  // namespace
}  // namespace gradus
