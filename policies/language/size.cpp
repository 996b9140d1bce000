#include "policies/language/size.h"

#include <fmt/format.h>

#include <array>

#include "policies/language/quantity.h"

namespace gradus {

namespace {

struct Unit {
    std::string_view name;
    std::string_view longName;
    std::int64_t bytes;
};

constexpr std::array<Unit, 5> kUnits{{{"T", "TiB", std::int64_t{1} << 40},
                                      {"G", "GiB", std::int64_t{1} << 30},
                                      {"M", "MiB", std::int64_t{1} << 20},
                                      {"K", "KiB", std::int64_t{1} << 10},
                                      {"B", "B", 1}}};

const Unit* findUnit(std::string_view name) {
    for (const Unit& unit : kUnits)
        if (unit.name == name || unit.longName == name) return &unit;
    return nullptr;
}

std::string unitProblem(std::string_view name) {
    constexpr std::string_view kKnown = "(B, K, M, G or T)";
    if (name.empty()) return fmt::format("has no unit {}", kKnown);
    return fmt::format("has the unknown unit '{}' {}", name, kKnown);
}

std::string numberProblem(std::string_view rest) {
    if (rest.empty()) return "is empty";
    if (rest.front() == '-') return "is negative";
    if (rest.front() >= '0' && rest.front() <= '9') return "is too large";
    return "does not start with a whole number";
}

}  // namespace

Parsed<std::int64_t> parseSize(std::string_view text) {
    using Result = Parsed<std::int64_t>;
    std::string_view rest = text;
    const auto number = takeNumber(rest);
    if (!number) return Result::bad(numberProblem(rest));
    const Unit* unit = findUnit(rest);
    if (unit == nullptr) return Result::bad(unitProblem(rest));
    const auto bytes = multiply(*number, unit->bytes);
    if (!bytes) return Result::bad("is too large");
    return {*bytes, {}};
}

std::string formatSize(std::int64_t bytes) {
    for (const Unit& unit : kUnits)
        if (bytes >= unit.bytes && bytes % unit.bytes == 0) return fmt::format("{}{}", bytes / unit.bytes, unit.name);
    return "0B";
}

}  // namespace gradus
