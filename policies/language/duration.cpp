#include "policies/language/duration.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "policies/language/quantity.h"

namespace gradus {

namespace {

struct Unit {
    std::string_view name;
    std::int64_t milliseconds;
};

// Largest first: sums are written, and printed, in this order.
constexpr std::array<Unit, 6> kUnits{
    {{"w", 604'800'000}, {"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

std::size_t unitIndex(std::string_view name) {
    std::size_t index = 0;
    while (index < kUnits.size() && kUnits[index].name != name) ++index;
    return index;
}

std::string unitProblem(std::string_view name) {
    constexpr std::string_view kKnown = "(ms, s, m, h, d or w)";
    if (name.empty()) return fmt::format("has no unit {}", kKnown);
    return fmt::format("has the unknown unit '{}' {}", name, kKnown);
}

std::string numberProblem(std::string_view rest) {
    if (rest.empty()) return "is empty";
    if (rest.front() == '-') return "is negative";
    if (rest.front() >= '0' && rest.front() <= '9') return "is too long";
    return "does not start with a whole number";
}

}  // namespace

Parsed<Milliseconds> parseDuration(std::string_view text) {
    using Result = Parsed<Milliseconds>;
    std::string_view rest = text;
    std::int64_t total = 0;
    std::size_t next = 0;  // The first unit that may still come.
    do {
        const auto number = takeNumber(rest);
        if (!number) return Result::bad(numberProblem(rest));
        const std::string_view name = takeLetters(rest);
        const std::size_t unit = unitIndex(name);
        if (unit == kUnits.size()) return Result::bad(unitProblem(name));
        if (unit < next) return Result::bad("has its units out of order");
        next = unit + 1;
        const auto part = multiply(*number, kUnits[unit].milliseconds);
        const auto sum = part ? add(total, *part) : std::nullopt;
        if (!sum) return Result::bad("is too long");
        total = *sum;
    } while (!rest.empty());
    return {Milliseconds(total), {}};
}

std::string formatDuration(Milliseconds duration) {
    std::int64_t left = duration.count();
    if (left <= 0) return "0s";
    std::string text;
    for (const Unit& unit : kUnits) {
        if (unit.name == "w") continue;  // "10d" reads better than "1w3d".
        if (left >= unit.milliseconds) text += fmt::format("{}{}", left / unit.milliseconds, unit.name);
        left %= unit.milliseconds;
    }
    return text;
}

}  // namespace gradus
