#include "policies/gate/window_time.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tests/policies/gate/gate_fixture.h"

namespace gradus {
namespace {

using namespace std::chrono;

/// Whether the clock shows a minute that the expression names; written without any of the tricks of the real one.
bool shows(const Cron& cron, Time local) {
    const auto day = floor<days>(local);
    if (local != Time(floor<minutes>(local).time_since_epoch())) return false;
    const year_month_day date(day);
    const auto minute = static_cast<std::size_t>(duration_cast<minutes>(local - day).count());
    const bool byDate = cron.days[static_cast<unsigned>(date.day())];
    const bool byWeekday = cron.weekdays[weekday(day).c_encoding()];
    const bool onDay = cron.anyDay || cron.anyWeekday ? byDate && byWeekday : byDate || byWeekday;
    return onDay && cron.months[static_cast<unsigned>(date.month())] && cron.hours[minute / 60] &&
           cron.minutes[minute % 60];
}

bool startsAt(const Cron& cron, const TimeZone& zone, Time at) {
    const Milliseconds offset = zone.segmentAt(at).offset;
    const Milliseconds before = zone.segmentAt(at - Milliseconds(1)).offset;
    for (Time skipped = at + before; skipped < at + offset; skipped += minutes(1))
        if (shows(cron, skipped)) return true;
    return shows(cron, at + offset);
}

/// Minute by minute.
bool isOnSlowly(const Cron& cron, Milliseconds lasts, const TimeZone& zone, Time at) {
    for (Time start = Time(floor<minutes>(at).time_since_epoch()); start > at - lasts; start -= minutes(1))
        if (startsAt(cron, zone, start)) return true;
    return false;
}

/// A field of a cron expression: anything, one value, or a step.
std::string field(int least, int most) {
    const int kind = *rc::gen::inRange(0, 3);
    if (kind == 0) return "*";
    if (kind == 1) return std::to_string(*rc::gen::inRange(least, most + 1));
    return fmt::format("*/{}", *rc::gen::inRange(1, most));
}

struct Sample {
    Cron cron;
    Milliseconds lasts;
    TimeZone zone;
    Time at;
};

/// Half of them within two days of a change of clocks.
Sample sample() {
    const std::string text = field(0, 59) + " " + field(0, 23) + " " + field(1, 31) + " * " + field(0, 6);
    const auto name = *rc::gen::elementOf(std::vector<std::string>{"UTC", "Europe/Berlin", "America/New_York",
                                                                   "Australia/Lord_Howe", "Africa/Casablanca"});
    const TimeZone& zone = test::systemZones().at(name);
    const auto lasts = minutes(*rc::gen::elementOf(std::vector<int>{1, 7, 30, 60, 90, 600, 1440, 3000}));
    Time at = test::kNoon + minutes(*rc::gen::inRange(-200'000, 200'000)) + Milliseconds(*rc::gen::inRange(0, 2) * 17);
    if (*rc::gen::arbitrary<bool>() && zone.segmentAt(at).end != TimeZone::kEnd)
        at = zone.segmentAt(at).end + minutes(*rc::gen::inRange(-2000, 2000));
    RC_LOG(fmt::format("{} for {} in {} at {}", text, formatDuration(lasts), name, formatTime(at)));
    return {parseCron(text).value.value(), lasts, zone, at};
}

RC_GTEST_PROP(WindowTime, IsOnWhenCountingMinutesSaysSo, ()) {
    const Sample s = sample();
    RC_ASSERT(WindowTime(s.cron, s.lasts, s.zone).isOn(s.at) == isOnSlowly(s.cron, s.lasts, s.zone, s.at));
}

RC_GTEST_PROP(WindowTime, ChangesNextWhenCountingMinutesSaysSo, ()) {
    const Sample s = sample();
    const WindowTime window(s.cron, s.lasts, s.zone);
    const auto next = window.nextChange(s.at);
    const bool isOn = window.isOn(s.at);
    Time slow = Time(floor<minutes>(s.at).time_since_epoch()) + minutes(1);
    const Time end = slow + hours(30);
    while (slow < end && window.isOn(slow) == isOn) slow += minutes(1);
    if (slow < end)
        RC_ASSERT(next == slow);
    else
        RC_ASSERT(next.value_or(end) >= end);
}

RC_GTEST_PROP(WindowTime, HasBeenAsItIsSinceItSays, ()) {
    const Sample s = sample();
    const WindowTime window(s.cron, s.lasts, s.zone);
    const auto since = window.since(s.at);
    if (!since) return;
    RC_ASSERT(*since <= s.at);
    RC_ASSERT(window.isOn(*since) == window.isOn(s.at));
    RC_ASSERT(window.isOn(*since - Milliseconds(1)) != window.isOn(s.at));
    const auto next = window.nextChange(*since);
    RC_ASSERT(next.value_or(Time::max()) > s.at);
}

}  // namespace
}  // namespace gradus
