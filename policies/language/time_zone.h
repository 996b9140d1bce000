#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policies/language/parsed.h"
#include "store/model/clock.h"

namespace gradus {

/// What clocks on the wall show in one place: a value, so that whoever computes with it reads no disk. Exact up to the
/// year 2200; the last offset holds from there on.
class TimeZone {
  public:
    /// A time during which the offset from UTC is the same: from `begin` up to, but not at, `end`.
    struct Segment {
        Time begin;
        Time end;
        Milliseconds offset{};
    };

    /// Before and after everything, with room to add to.
    static constexpr Time kBeginning{Milliseconds(-(1LL << 60))};
    static constexpr Time kEnd{Milliseconds(1LL << 60)};

    /// UTC.
    TimeZone() : segments_{{kBeginning, kEnd, Milliseconds(0)}} {}
    /// Reads the compiled form that systems keep (RFC 8536).
    static Parsed<TimeZone> parse(std::string_view bytes);

    const Segment& segmentAt(Time time) const;
    const std::vector<Segment>& segments() const { return segments_; }

  private:
    std::vector<Segment> segments_;  ///< without gaps, from kBeginning to kEnd; neighbours differ in their offset
};

/// By name.
using Zones = std::map<std::string, TimeZone>;

struct Pipeline;

/// Every zone that the windows of `pipeline` name. One that cannot be read is left out.
Zones readZones(const Pipeline& pipeline, const std::filesystem::path& zoneinfo = "/usr/share/zoneinfo");

}  // namespace gradus
