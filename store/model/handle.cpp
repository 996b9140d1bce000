#include "store/model/handle.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace gradus {

namespace {

struct Letter {
    char letter;
    HandleKind kind;
};
constexpr std::array kLetters{Letter{'c', HandleKind::kChange}, Letter{'s', HandleKind::kSandbox},
                              Letter{'p', HandleKind::kPromotion}, Letter{'e', HandleKind::kExecution},
                              Letter{'r', HandleKind::kRace}};
constexpr std::size_t kShortestPrefix = 6;

std::optional<std::int64_t> positiveNumber(std::string_view text) {
    if (text.empty() || text.front() < '1' || text.front() > '9') return std::nullopt;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

bool isHexadecimal(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::optional<Handle> parseNumbered(HandleKind kind, std::string_view rest) {
    Handle handle{.kind = kind, .number = 0, .revision = std::nullopt, .digestPrefix = {}};
    const std::size_t dot = rest.find('.');
    const auto number = positiveNumber(rest.substr(0, dot));
    if (!number) return std::nullopt;
    handle.number = *number;
    if (dot == std::string_view::npos) return handle;
    handle.revision = positiveNumber(rest.substr(dot + 1));
    if (kind != HandleKind::kChange || !handle.revision) return std::nullopt;
    return handle;
}

}  // namespace

std::string Handle::text() const {
    if (kind == HandleKind::kLatest) return "@";
    if (kind == HandleKind::kDigestPrefix) return digestPrefix;
    const auto* row = std::find_if(kLetters.begin(), kLetters.end(), [&](const Letter& l) { return l.kind == kind; });
    std::string out = row->letter + std::to_string(number);
    if (revision) out += "." + std::to_string(*revision);
    return out;
}

std::optional<Handle> parseHandle(std::string_view text) {
    if (text == "@") return Handle{};
    for (const Letter& row : kLetters)
        if (!text.empty() && text.front() == row.letter)
            if (auto handle = parseNumbered(row.kind, text.substr(1))) return handle;
    if (text.size() < kShortestPrefix || text.size() > 64 || !isHexadecimal(text)) return std::nullopt;
    return Handle{
        .kind = HandleKind::kDigestPrefix, .number = 0, .revision = std::nullopt, .digestPrefix = std::string(text)};
}

}  // namespace gradus
