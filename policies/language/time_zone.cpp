#include "policies/language/time_zone.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>

#include "policies/language/pipeline.h"
#include "policies/language/zone_rule.h"

namespace gradus {

namespace {

constexpr int kLastYear = 2200;
constexpr std::size_t kHeaderSize = 44;

std::int64_t bigEndian(std::string_view bytes) {
    // Sign-extends from whatever width it has.
    std::uint64_t number = (static_cast<unsigned char>(bytes[0]) & 0x80U) != 0 ? ~0ULL : 0;
    for (const char c : bytes) number = number << 8U | static_cast<unsigned char>(c);
    return static_cast<std::int64_t>(number);
}

Time fromSeconds(std::int64_t seconds) {
    const std::int64_t far = toMillis(TimeZone::kEnd) / 1000;
    return fromMillis(std::clamp(seconds, -far, far) * 1000);
}

/// One header with its data; the file has one of 4-byte times and, from version 2 on, one of 8-byte times.
struct Block {
    std::size_t timeSize = 4;
    std::size_t isUtc = 0;
    std::size_t isStandard = 0;
    std::size_t leaps = 0;
    std::size_t times = 0;
    std::size_t types = 0;
    std::size_t characters = 0;

    std::size_t size() const {
        return times * (timeSize + 1) + types * 6 + characters + leaps * (timeSize + 4) + isStandard + isUtc;
    }
};

std::optional<Block> readHeader(std::string_view bytes, std::size_t timeSize) {
    if (bytes.size() < kHeaderSize || !bytes.starts_with("TZif")) return std::nullopt;
    const auto count = [&](std::size_t index) {
        return static_cast<std::size_t>(bigEndian(bytes.substr(20 + index * 4, 4)) & 0xffff'ffff);
    };
    const Block block{timeSize, count(0), count(1), count(2), count(3), count(4), count(5)};
    // A count that large cannot be true, and would only make size() wrap around.
    if (std::max({block.isUtc, block.isStandard, block.leaps, block.times, block.types, block.characters}) > 1U << 20U)
        return std::nullopt;
    if (block.types == 0 || bytes.size() - kHeaderSize < block.size()) return std::nullopt;
    return block;
}

/// The changes that the block lists; the first entry says what holds before them.
std::optional<std::vector<OffsetChange>> readChanges(const Block& block, std::string_view data) {
    const std::string_view indices = data.substr(block.times * block.timeSize, block.times);
    const std::string_view types = data.substr(block.times * (block.timeSize + 1), block.types * 6);
    const auto offset = [&](std::size_t type) { return Milliseconds(bigEndian(types.substr(type * 6, 4)) * 1000); };
    std::vector<OffsetChange> changes{{TimeZone::kBeginning, offset(0)}};
    for (std::size_t i = 0; i < block.times; ++i) {
        const std::size_t type = static_cast<unsigned char>(indices[i]);
        if (type >= block.types) return std::nullopt;
        const Time at = fromSeconds(bigEndian(data.substr(i * block.timeSize, block.timeSize)));
        if (at < changes.back().at) return std::nullopt;
        changes.push_back({at, offset(type)});
    }
    return changes;
}

/// What the rule at the end of the file says about the time after the last listed change.
bool addRule(std::string_view footer, std::vector<OffsetChange>& changes) {
    if (!footer.starts_with('\n')) return false;
    footer.remove_prefix(1);
    const std::string_view text = footer.substr(0, footer.find('\n'));
    if (text.empty()) return true;
    const Parsed<ZoneRule> rule = ZoneRule::parse(text);
    if (!rule) return false;
    const Time listed = changes.back().at;
    if (changes.size() == 1) changes.push_back({TimeZone::kBeginning, rule.value->standardOffset()});
    std::vector<OffsetChange> ruled;
    for (int year = 1900; year <= kLastYear; ++year)
        for (const OffsetChange& change : rule.value->changesIn(year))
            if (change.at > listed) ruled.push_back(change);
    std::stable_sort(ruled.begin(), ruled.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
    changes.insert(changes.end(), ruled.begin(), ruled.end());
    return true;
}

std::vector<TimeZone::Segment> segmentsOf(const std::vector<OffsetChange>& changes) {
    std::vector<TimeZone::Segment> segments;
    for (const OffsetChange& change : changes) {
        if (!segments.empty()) segments.back().end = change.at;
        if (!segments.empty() && segments.back().begin == change.at) segments.pop_back();
        if (!segments.empty() && segments.back().offset == change.offset)
            segments.back().end = TimeZone::kEnd;
        else
            segments.push_back({change.at, TimeZone::kEnd, change.offset});
    }
    return segments;
}

std::optional<std::vector<OffsetChange>> readFile(std::string_view bytes) {
    const auto first = readHeader(bytes, 4);
    if (!first) return std::nullopt;
    if (bytes[4] == '\0') return readChanges(*first, bytes.substr(kHeaderSize));
    bytes.remove_prefix(kHeaderSize + first->size());
    const auto second = readHeader(bytes, 8);
    if (!second) return std::nullopt;
    auto changes = readChanges(*second, bytes.substr(kHeaderSize));
    if (!changes || !addRule(bytes.substr(kHeaderSize + second->size()), *changes)) return std::nullopt;
    return changes;
}

void addZone(const Settings& window, const char* when, const std::filesystem::path& zoneinfo, Zones& zones) {
    const Value* time = window.find(when);
    if (time == nullptr) return;
    const std::string& name = time->fields.at("timezone").text;
    std::ifstream file(zoneinfo / name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const Parsed<TimeZone> zone = TimeZone::parse(bytes);
    if (zone) zones.emplace(name, *zone.value);
}

}  // namespace

Parsed<TimeZone> TimeZone::parse(std::string_view bytes) {
    const auto changes = readFile(bytes);
    if (!changes) return Parsed<TimeZone>::bad("is not a compiled time zone");
    TimeZone zone;
    zone.segments_ = segmentsOf(*changes);
    return {zone, {}};
}

const TimeZone::Segment& TimeZone::segmentAt(Time time) const {
    const auto after = std::upper_bound(segments_.begin(), segments_.end(), time,
                                        [](Time t, const Segment& segment) { return t < segment.begin; });
    return after == segments_.begin() ? segments_.front() : *std::prev(after);
}

Zones readZones(const Pipeline& pipeline, const std::filesystem::path& zoneinfo) {
    Zones zones;
    for (const Window& window : pipeline.windows)
        for (const char* when : {"allow", "deny"}) addZone(window.settings, when, zoneinfo, zones);
    return zones;
}

}  // namespace gradus
