#include "pipeline/cli/time_argument.h"

#include <array>
#include <charconv>
#include <chrono>
#include <optional>

#include "store/model/error.h"

namespace gradus {

namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Milliseconds kLongestAge = days(36500);
constexpr std::size_t kLongestText = 64;

struct Unit {
    std::string_view name;
    Milliseconds length;
};
// "ms" stands before "m": the longer name is tried first.
constexpr std::array<Unit, 6> kUnits = {
    {{"ms", Milliseconds(1)}, {"s", seconds(1)}, {"m", minutes(1)}, {"h", hours(1)}, {"d", days(1)}, {"w", days(7)}}};

// Reads a value from the front of a text, piece by piece; every piece says whether it was there.
class Scanner {
  public:
    explicit Scanner(std::string_view text) : rest_(text) {}

    bool atEnd() const { return rest_.empty(); }

    bool skip(std::string_view anyOf) {
        if (rest_.empty() || anyOf.find(rest_.front()) == std::string_view::npos) return false;
        rest_.remove_prefix(1);
        return true;
    }

    std::optional<int> digits(std::size_t count) {
        if (rest_.size() < count) return std::nullopt;
        int value = 0;
        for (const char c : rest_.substr(0, count)) {
            if (c < '0' || c > '9') return std::nullopt;
            value = value * 10 + (c - '0');
        }
        rest_.remove_prefix(count);
        return value;
    }

    std::optional<std::int64_t> number() {
        std::int64_t value = 0;
        if (rest_.empty() || rest_.front() == '-') return std::nullopt;
        const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
        if (error != std::errc()) return std::nullopt;
        rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
        return value;
    }

    std::optional<Milliseconds> unit() {
        for (const Unit& unit : kUnits) {
            if (!rest_.starts_with(unit.name)) continue;
            rest_.remove_prefix(unit.name.size());
            return unit.length;
        }
        return std::nullopt;
    }

  private:
    std::string_view rest_;
};

std::optional<Milliseconds> parseAge(std::string_view text) {
    Scanner scanner(text);
    Milliseconds total{0};
    do {
        const auto count = scanner.number();
        const auto unit = count ? scanner.unit() : std::nullopt;
        if (!unit || *count > kLongestAge / *unit) return std::nullopt;
        total += *count * *unit;
    } while (!scanner.atEnd());
    if (total > kLongestAge) return std::nullopt;
    return total;
}

std::optional<std::chrono::sys_days> parseDate(Scanner& scanner) {
    const auto year = scanner.digits(4);
    if (!year || !scanner.skip("-")) return std::nullopt;
    const auto month = scanner.digits(2);
    if (!month || !scanner.skip("-")) return std::nullopt;
    const auto day = scanner.digits(2);
    if (!day) return std::nullopt;
    const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                           std::chrono::day(static_cast<unsigned>(*day))};
    if (!date.ok()) return std::nullopt;
    return std::chrono::sys_days(date);
}

// "hh:mm" of a day or of a zone's distance from UTC.
std::optional<minutes> parseHoursAndMinutes(Scanner& scanner) {
    const auto hour = scanner.digits(2);
    if (!hour || *hour > 23 || !scanner.skip(":")) return std::nullopt;
    const auto minute = scanner.digits(2);
    if (!minute || *minute > 59) return std::nullopt;
    return hours(*hour) + minutes(*minute);
}

std::optional<Milliseconds> parseSeconds(Scanner& scanner) {
    const auto second = scanner.digits(2);
    if (!second || *second > 60) return std::nullopt;  // 60: a leap second, the first moment of the next minute
    Milliseconds total = seconds(*second);
    if (!scanner.skip(".")) return total;
    int weight = 100;
    int count = 0;
    while (const auto digit = scanner.digits(1)) {
        total += Milliseconds(*digit * weight);  // Digits beyond the millisecond weigh nothing.
        weight /= 10;
        ++count;
    }
    if (count == 0) return std::nullopt;
    return total;
}

std::optional<Milliseconds> parseZone(Scanner& scanner) {
    if (scanner.skip("Zz")) return Milliseconds(0);
    const bool east = scanner.skip("+");
    if (!east && !scanner.skip("-")) return std::nullopt;
    const auto distance = parseHoursAndMinutes(scanner);
    if (!distance) return std::nullopt;
    return east ? *distance : -*distance;
}

std::optional<Time> parseRfc3339(std::string_view text) {
    Scanner scanner(text);
    const auto date = parseDate(scanner);
    if (!date || !scanner.skip("Tt ")) return std::nullopt;
    const auto hourAndMinute = parseHoursAndMinutes(scanner);
    if (!hourAndMinute || !scanner.skip(":")) return std::nullopt;
    const auto second = parseSeconds(scanner);
    const auto zone = second ? parseZone(scanner) : std::nullopt;
    if (!zone || !scanner.atEnd()) return std::nullopt;
    return Time(*date) + *hourAndMinute + *second - *zone;
}

}  // namespace

Time parseTimeArgument(std::string_view text, Time now) {
    if (text.size() <= kLongestText) {
        if (const auto age = parseAge(text)) return now - *age;
        if (const auto time = parseRfc3339(text)) return *time;
    }
    throw Error(ErrorCode::kUsage, "'{}' is neither an age nor a time", text.substr(0, kLongestText))
        .hint("write an age such as 90s, 30m, 12h or 2d, or a time with its zone such as 2026-03-01T12:00:00Z");
}

}  // namespace gradus
