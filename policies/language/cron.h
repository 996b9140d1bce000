#pragma once

#include <bitset>
#include <string_view>

#include "policies/language/parsed.h"

namespace gradus {

/// A cron expression of five fields (minute, hour, day of month, month, day of week): `*`, numbers, names (JAN, FRI),
/// ranges, lists and steps. Sunday is 0 and 7. It says which minutes match; which moment that is depends on a time
/// zone.
struct Cron {
    std::bitset<60> minutes;
    std::bitset<24> hours;
    std::bitset<32> days;     ///< 1 to 31
    std::bitset<13> months;   ///< 1 to 12
    std::bitset<7> weekdays;  ///< 0 is Sunday
    bool anyDay = false;      ///< the day of month is `*`: then only the day of week counts, and the other way round
    bool anyWeekday = false;
};

Parsed<Cron> parseCron(std::string_view text);

}  // namespace gradus
