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

/// Where time comes from; injected, so that tests can hold it still.
class Clock {
  public:
    virtual ~Clock() = default;
    virtual Time now() const = 0;
};

class SystemClock final : public Clock {
  public:
    Time now() const override;
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
