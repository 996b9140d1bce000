#include "store/model/execution.h"

#include <algorithm>
#include <charconv>

#include "store/model/error.h"

namespace gradus {

namespace {

std::vector<std::string_view> split(std::string_view text, std::string_view between) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::size_t end = text.find(between);
        parts.push_back(text.substr(0, end));
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + between.size());
    }
    return parts;
}

[[noreturn]] void damaged(std::string_view what, std::string_view text) {
    throw Error(ErrorCode::kDamaged, "'{}' is no {} as they are recorded", text, what);
}

std::uint64_t numberOf(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) damaged("number", text);
    return value;
}

template <typename Enum, std::size_t kCount>
Enum named(const std::array<std::string_view, kCount>& names, std::string_view word, std::string_view what) {
    const auto* found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) damaged(what, word);
    return static_cast<Enum>(found - names.begin());
}

LimitReport parseLimit(std::string_view text) {
    const std::vector<std::string_view> words = split(text, " ");
    if (words.size() != 5) damaged("limit", text);
    LimitReport report;
    report.name = named<LimitName>(kLimitNames, words[0], "limit");
    report.value = numberOf(words[1]);
    report.enforcedBy = named<Enforcer>(kEnforcerNames, words[2], "enforcer");
    if (words[3] != "-") report.peak = numberOf(words[3]);
    report.tripped = numberOf(words[4]) != 0;
    return report;
}

}  // namespace

std::string formatGuarantees(const std::vector<Guarantee>& guarantees) {
    std::string text;
    for (const Guarantee guarantee : guarantees) text.append(text.empty() ? "" : " ").append(guaranteeName(guarantee));
    return text;
}

std::vector<Guarantee> parseGuarantees(std::string_view text) {
    std::vector<Guarantee> all;
    for (const std::string_view word : split(text, " ")) {
        const auto guarantee = guaranteeNamed(word);
        if (!guarantee) damaged("guarantee", word);
        all.push_back(*guarantee);
    }
    return all;
}

std::string formatLimits(const std::vector<LimitReport>& limits) {
    std::string text;
    for (const LimitReport& limit : limits)
        text += fmt::format("{}{} {} {} {} {}", text.empty() ? "" : "; ", limitName(limit.name), limit.value,
                            enforcerName(limit.enforcedBy), limit.peak ? std::to_string(*limit.peak) : "-",
                            limit.tripped ? 1 : 0);
    return text;
}

std::string formatEffectCounts(const SideEffects& effects) {
    std::uint64_t allowed = 0;
    std::uint64_t denied = effects.moreDenied;
    std::uint64_t calls = 0;
    for (const AllowedConnection& one : effects.networkAllowed) allowed += one.connections;
    for (const RefusedConnection& one : effects.networkDenied) denied += one.attempts;
    for (const RefusedCall& one : effects.syscallsDenied) calls += one.times;
    const auto seen = [](bool looked, std::uint64_t count) { return looked ? std::to_string(count) : "-"; };
    return fmt::format("{} {} {} {} {}", effects.outsideWrites.size() + effects.moreOutsideWrites,
                       effects.leftoverCount, seen(effects.connectionsSeen, allowed),
                       seen(effects.connectionsSeen, denied), seen(effects.callsSeen, calls));
}

SideEffects parseEffectCounts(std::string_view text) {
    const std::vector<std::string_view> words = split(text, " ");
    if (words.size() != 5) damaged("side effects", text);
    const auto countIn = [&](std::size_t at) { return words[at] == "-" ? 0 : numberOf(words[at]); };
    SideEffects effects;
    effects.moreOutsideWrites = countIn(0);
    effects.leftoverCount = countIn(1);
    effects.connectionsSeen = words[2] != "-";
    if (countIn(2) > 0) effects.networkAllowed.push_back({"", 0, "", countIn(2), 0});
    effects.moreDenied = countIn(3);
    effects.callsSeen = words[4] != "-";
    if (countIn(4) > 0) effects.syscallsDenied.push_back({"", countIn(4), true});
    return effects;
}

std::vector<LimitReport> parseLimits(std::string_view text) {
    std::vector<LimitReport> all;
    for (const std::string_view part : split(text, "; ")) all.push_back(parseLimit(part));
    return all;
}

}  // namespace gradus
