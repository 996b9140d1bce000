#include "policies/gate/window_time.h"

#include <algorithm>

namespace gradus {

namespace {

using namespace std::chrono;

// February 29 is eight years from the next around 2100.
constexpr Milliseconds kHorizon = days(9 * 366);
// Starts a minute apart that last a minute are one long time; past this many it is called for ever.
constexpr int kMostJoined = 100'000;

Time dayOf(Time local) { return Time(floor<days>(local).time_since_epoch()); }
Time minuteOf(Time local) { return Time(floor<minutes>(local).time_since_epoch()); }

}  // namespace

bool WindowTime::namesDay(Time local) const {
    const sys_days day = floor<days>(local);
    const year_month_day date(day);
    if (!cron_.months[static_cast<unsigned>(date.month())]) return false;
    const bool byDate = cron_.days[static_cast<unsigned>(date.day())];
    const bool byWeekday = cron_.weekdays[weekday(day).c_encoding()];
    // As cron has it: where both are given, either is enough.
    if (cron_.anyDay || cron_.anyWeekday) return byDate && byWeekday;
    return byDate || byWeekday;
}

std::optional<Time> WindowTime::namedAtOrAfter(Time local, Time limit) const {
    Time at = minuteOf(local + minutes(1) - Milliseconds(1));
    while (at < limit) {
        const Time day = dayOf(at);
        const auto minuteOfDay = static_cast<std::size_t>(duration_cast<minutes>(at - day).count());
        if (!namesDay(at)) {
            at = day + days(1);
        } else if (!cron_.hours[minuteOfDay / 60]) {
            at = day + hours(minuteOfDay / 60 + 1);
        } else if (!cron_.minutes[minuteOfDay % 60]) {
            at += minutes(1);
        } else {
            return at;
        }
    }
    return std::nullopt;
}

std::optional<Time> WindowTime::namedAtOrBefore(Time local, Time limit) const {
    Time at = minuteOf(local);
    while (at >= limit) {
        const Time day = dayOf(at);
        const auto minuteOfDay = static_cast<std::size_t>(duration_cast<minutes>(at - day).count());
        if (!namesDay(at)) {
            at = day - minutes(1);
        } else if (!cron_.hours[minuteOfDay / 60]) {
            at = day + hours(minuteOfDay / 60) - minutes(1);
        } else if (!cron_.minutes[minuteOfDay % 60]) {
            at -= minutes(1);
        } else {
            return at;
        }
    }
    return std::nullopt;
}

bool WindowTime::startsInJumpTo(const TimeZone::Segment& segment) const {
    if (segment.begin == TimeZone::kBeginning) return false;
    const Time shown = segment.begin + zone_.segmentAt(segment.begin - Milliseconds(1)).offset;
    return namedAtOrAfter(shown, segment.begin + segment.offset).has_value();
}

std::optional<Time> WindowTime::startAtOrAfter(Time time) const {
    const Time horizon = time + kHorizon;
    while (time < horizon) {
        const TimeZone::Segment& segment = zone_.segmentAt(time);
        if (time == segment.begin && startsInJumpTo(segment)) return time;
        const Time limit = std::min(segment.end, horizon);
        if (const auto found = namedAtOrAfter(time + segment.offset, limit + segment.offset))
            return *found - segment.offset;
        time = limit;
    }
    return std::nullopt;
}

std::optional<Time> WindowTime::startAtOrBefore(Time time) const {
    const Time horizon = time - kHorizon;
    while (time > horizon) {
        const TimeZone::Segment& segment = zone_.segmentAt(time);
        const Time limit = std::max(segment.begin, horizon);
        if (const auto found = namedAtOrBefore(time + segment.offset, limit + segment.offset))
            return *found - segment.offset;
        if (limit == segment.begin && startsInJumpTo(segment)) return limit;
        time = limit - Milliseconds(1);
    }
    return std::nullopt;
}

bool WindowTime::isOn(Time time) const {
    // All last equally long, so the latest start has the latest end.
    const auto start = startAtOrBefore(time);
    return start && time < *start + lasts_;
}

std::optional<Time> WindowTime::nextChange(Time time) const {
    const auto start = startAtOrBefore(time);
    if (!start || time >= *start + lasts_) return startAtOrAfter(time + Milliseconds(1));
    Time end = *start + lasts_;
    for (int joined = 0; joined < kMostJoined; ++joined) {
        const auto later = startAtOrBefore(end);
        if (!later || *later + lasts_ <= end) return end;
        end = *later + lasts_;
    }
    return std::nullopt;
}

std::optional<Time> WindowTime::since(Time time) const {
    auto start = startAtOrBefore(time);
    if (!start) return std::nullopt;
    if (time >= *start + lasts_) return *start + lasts_;
    for (int joined = 0; joined < kMostJoined; ++joined) {
        const auto earlier = startAtOrBefore(*start - Milliseconds(1));
        if (!earlier || *earlier + lasts_ < *start) return start;
        start = earlier;
    }
    return std::nullopt;
}

}  // namespace gradus
