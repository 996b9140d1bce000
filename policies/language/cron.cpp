#include "policies/language/cron.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policies/language/quantity.h"

namespace gradus {

namespace {

constexpr std::array<std::string_view, 12> kMonths{"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                                   "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
constexpr std::array<std::string_view, 7> kWeekdays{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

struct Field {
    std::string_view name;
    std::int64_t least;
    std::int64_t most;
    std::span<const std::string_view> names;  // names[0] stands for `least`
};

const std::array<Field, 5> kFields{{{"minute", 0, 59, {}},
                                    {"hour", 0, 23, {}},
                                    {"day of month", 1, 31, {}},
                                    {"month", 1, 12, kMonths},
                                    {"day of week", 0, 7, kWeekdays}}};

using Marks = std::bitset<60>;

std::optional<std::int64_t> takeValue(std::string_view& text, const Field& field) {
    for (std::size_t i = 0; i < field.names.size(); ++i) {
        if (!text.starts_with(field.names[i])) continue;
        text.remove_prefix(field.names[i].size());
        return field.least + static_cast<std::int64_t>(i);
    }
    return takeNumber(text);
}

std::string outside(const Field& field, std::int64_t value) {
    return fmt::format("has {} for the {}, which goes from {} to {}", value, field.name, field.least, field.most);
}

/// One element of a list: `*`, `5`, `1-5`, each with `/step`. Gives the problem, or nothing.
std::string markElement(std::string_view text, const Field& field, Marks& marks) {
    const std::string whole(text);
    std::int64_t first = field.least;
    std::int64_t last = field.most;
    if (text.starts_with('*')) {
        text.remove_prefix(1);
    } else {
        const auto low = takeValue(text, field);
        if (!low) return fmt::format("has '{}' for the {}", whole, field.name);
        first = *low;
        last = *low;
        if (text.starts_with('-')) {
            text.remove_prefix(1);
            const auto high = takeValue(text, field);
            if (!high) return fmt::format("has '{}' for the {}", whole, field.name);
            last = *high;
        } else if (text.starts_with('/')) {
            last = field.most;
        }
    }
    std::int64_t step = 1;
    if (text.starts_with('/')) {
        text.remove_prefix(1);
        const auto number = takeNumber(text);
        if (!number || *number < 1 || *number > field.most) return fmt::format("has a bad step in '{}'", whole);
        step = *number;
    }
    if (!text.empty()) return fmt::format("has '{}' for the {}", whole, field.name);
    if (first < field.least || first > field.most) return outside(field, first);
    if (last < field.least || last > field.most) return outside(field, last);
    if (last < first) return fmt::format("has the range '{}', which ends before it starts", whole);
    for (std::int64_t i = first; i <= last; i += step) marks.set(static_cast<std::size_t>(i));
    return {};
}

std::string markField(std::string_view text, const Field& field, Marks& marks) {
    while (true) {
        const std::size_t comma = text.find(',');
        if (std::string problem = markElement(text.substr(0, comma), field, marks); !problem.empty()) return problem;
        if (comma == std::string_view::npos) return {};
        text.remove_prefix(comma + 1);
    }
}

std::vector<std::string_view> splitFields(std::string_view text) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::size_t start = text.find_first_not_of(' ');
        if (start == std::string_view::npos) return parts;
        text.remove_prefix(start);
        const std::size_t end = std::min(text.find(' '), text.size());
        parts.push_back(text.substr(0, end));
        text.remove_prefix(end);
    }
}

template <std::size_t N>
std::bitset<N> narrowed(const Marks& marks) {
    std::bitset<N> result;
    for (std::size_t i = 0; i < N; ++i) result[i] = marks[i];
    return result;
}

}  // namespace

Parsed<Cron> parseCron(std::string_view text) {
    using Result = Parsed<Cron>;
    const std::vector<std::string_view> parts = splitFields(text);
    if (parts.size() != kFields.size()) return Result::bad(fmt::format("has {} fields, not five", parts.size()));
    std::array<Marks, 5> marks;
    for (std::size_t i = 0; i < kFields.size(); ++i)
        if (std::string problem = markField(parts[i], kFields[i], marks[i]); !problem.empty())
            return Result::bad(std::move(problem));
    if (marks[4][7]) marks[4].set(0);  // Both 0 and 7 are Sunday.
    Cron cron;
    cron.minutes = marks[0];
    cron.hours = narrowed<24>(marks[1]);
    cron.days = narrowed<32>(marks[2]);
    cron.months = narrowed<13>(marks[3]);
    cron.weekdays = narrowed<7>(marks[4]);
    cron.anyDay = parts[2] == "*";
    cron.anyWeekday = parts[4] == "*";
    return {cron, {}};
}

}  // namespace gradus
