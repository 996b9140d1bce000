#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace gradus {

/// Milliseconds since 1970, UTC: what is stored and shown.
using Time = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;
using Milliseconds = std::chrono::milliseconds;

inline std::int64_t toMillis(Time time) { return time.time_since_epoch().count(); }
inline Time fromMillis(std::int64_t millis) { return Time(Milliseconds(millis)); }

/// A point in time that also says how long the machine was up: between two of one boot, a clock that somebody set does
/// not matter.
struct Moment {
    Time at{};
    std::string boot = {};  ///< which boot; empty: not known
    Milliseconds uptime{0};

    bool operator==(const Moment&) const = default;
};

/// Never negative. Of one boot it is what the machine counted, asleep or not; over a reboot the clock is believed, and
/// it is at least what was counted since.
Milliseconds elapsed(const Moment& from, const Moment& to);

/// Where time comes from; injected, so that tests can hold it still.
class Clock {
  public:
    virtual ~Clock() = default;
    virtual Time now() const = 0;
    virtual Moment moment() const { return {now()}; }
};

class SystemClock final : public Clock {
  public:
    /// Without the boot's id, a moment is no more than what the clock shows.
    explicit SystemClock(std::string boot = {}) : boot_(std::move(boot)) {}
    Time now() const override;
    Moment moment() const override;

  private:
    std::string boot_;
};

/// Where unguessable bytes come from; injected for the same reason.
class Random {
  public:
    virtual ~Random() = default;
    virtual std::string bytes(std::size_t count) = 0;
};

class SystemRandom final : public Random {
  public:
    std::string bytes(std::size_t count) override;
};

/// "2026-03-01T12:00:00.000Z", whatever the local time zone.
std::string formatTime(Time time);

}  // namespace gradus
