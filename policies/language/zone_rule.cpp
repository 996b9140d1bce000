#include "policies/language/zone_rule.h"

#include <optional>

namespace gradus {

namespace {

using namespace std::chrono;

bool take(std::string_view& text, char c) {
    if (!text.starts_with(c)) return false;
    text.remove_prefix(1);
    return true;
}

std::optional<int> takeInteger(std::string_view& text, int most) {
    int number = 0;
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && number <= most)
        number = number * 10 + (text[digits++] - '0');
    if (digits == 0 || number > most) return std::nullopt;
    text.remove_prefix(digits);
    return number;
}

/// hh[:mm[:ss]] with a sign; hours beyond a day are allowed for the times of changes.
std::optional<Milliseconds> takeTime(std::string_view& text) {
    const bool isNegative = take(text, '-');
    if (!isNegative) take(text, '+');
    const auto hour = takeInteger(text, 167);
    if (!hour) return std::nullopt;
    int minute = 0;
    int second = 0;
    if (take(text, ':')) {
        const auto read = takeInteger(text, 59);
        if (!read) return std::nullopt;
        minute = *read;
        if (take(text, ':')) {
            const auto seconds = takeInteger(text, 59);
            if (!seconds) return std::nullopt;
            second = *seconds;
        }
    }
    const Milliseconds time = hours(*hour) + minutes(minute) + seconds(second);
    return isNegative ? -time : time;
}

/// "CEST" or "<+03>".
bool takeName(std::string_view& text) {
    const bool isQuoted = take(text, '<');
    const std::size_t length = isQuoted ? text.find('>') : text.find_first_of("+-,0123456789");
    const std::size_t name = std::min(length, text.size());
    if (name < 3 || (isQuoted && length == std::string_view::npos)) return false;
    text.remove_prefix(name + (isQuoted ? 1 : 0));
    return true;
}

}  // namespace

bool ZoneRule::readDay(std::string_view& text, Day& day) {
    if (!take(text, ',')) return false;
    std::optional<int> number;
    if (take(text, 'M')) {
        const auto month = takeInteger(text, 12);
        if (!month || *month < 1 || !take(text, '.')) return false;
        const auto week = takeInteger(text, 5);
        if (!week || *week < 1 || !take(text, '.')) return false;
        day.month = *month;
        day.week = *week;
        number = takeInteger(text, 6);
    } else {
        day.kind = take(text, 'J') ? Day::Kind::kJulian : Day::Kind::kZeroBased;
        number = takeInteger(text, 365);
    }
    if (!number) return false;
    day.day = *number;
    day.time = hours(2);
    if (!take(text, '/')) return true;
    const auto time = takeTime(text);
    if (time) day.time = *time;
    return time.has_value();
}

Parsed<ZoneRule> ZoneRule::parse(std::string_view text) {
    const auto bad = [] { return Parsed<ZoneRule>::bad("is not a rule for clocks"); };
    ZoneRule rule;
    if (!takeName(text)) return bad();
    const auto standard = takeTime(text);
    if (!standard) return bad();
    rule.standard_ = -*standard;  // POSIX counts westwards.
    if (text.empty()) return {rule, {}};
    if (!takeName(text)) return bad();
    rule.hasSummer_ = true;
    rule.summer_ = rule.standard_ + hours(1);
    if (!text.starts_with(',')) {
        const auto summer = takeTime(text);
        if (!summer) return bad();
        rule.summer_ = -*summer;
    }
    if (!readDay(text, rule.start_) || !readDay(text, rule.end_) || !text.empty()) return bad();
    return {rule, {}};
}

Time ZoneRule::localMoment(const Day& day, int inYear) {
    const year y(inYear);
    sys_days date;
    if (day.kind == Day::Kind::kMonthWeekday) {
        const auto m = month(static_cast<unsigned>(day.month));
        const weekday w(static_cast<unsigned>(day.day));
        date = day.week == 5 ? sys_days(y / m / w[last]) : sys_days(y / m / w[static_cast<unsigned>(day.week)]);
    } else {
        // A Julian day never counts February 29.
        const bool skipsLeapDay = day.kind == Day::Kind::kJulian && y.is_leap() && day.day >= 60;
        const int index = day.kind == Day::Kind::kJulian ? day.day - (skipsLeapDay ? 0 : 1) : day.day;
        date = sys_days(y / January / 1) + days(index);
    }
    return Time(duration_cast<Milliseconds>(date.time_since_epoch()) + day.time);
}

std::vector<OffsetChange> ZoneRule::changesIn(int year) const {
    if (!hasSummer_) return {};
    // Each is written as the clock shows it just before the change.
    return {{localMoment(start_, year) - standard_, summer_}, {localMoment(end_, year) - summer_, standard_}};
}

}  // namespace gradus
