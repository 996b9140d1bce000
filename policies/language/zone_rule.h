#pragma once

#include <string_view>
#include <vector>

#include "policies/language/parsed.h"
#include "store/model/clock.h"

namespace gradus {

/// From this moment on clocks show UTC plus the offset.
struct OffsetChange {
    Time at;
    Milliseconds offset{};
};

/// When clocks change in each year, as POSIX writes it: "CET-1CEST,M3.5.0,M10.5.0/3". It has no first year and no last.
class ZoneRule {
  public:
    static Parsed<ZoneRule> parse(std::string_view text);

    Milliseconds standardOffset() const { return standard_; }
    /// The changes of that year, none for a zone that has no summer time.
    std::vector<OffsetChange> changesIn(int year) const;

  private:
    struct Day {
        enum class Kind { kMonthWeekday, kJulian, kZeroBased } kind = Kind::kMonthWeekday;
        int month = 1;
        int week = 1;  ///< 5 is the last
        int day = 0;   ///< of the week, Sunday is 0; or of the year
        Milliseconds time{};
    };
    static bool readDay(std::string_view& text, Day& day);
    static Time localMoment(const Day& day, int year);

    Milliseconds standard_{};
    Milliseconds summer_{};
    bool hasSummer_ = false;
    Day start_;
    Day end_;
};

}  // namespace gradus
