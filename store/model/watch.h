#pragma once

#include <array>
#include <cstdint>

#include "store/model/clock.h"
#include "store/model/names.h"

namespace gradus {

/// While what is the after checks of a promotion kept running.
enum class WatchPhase { kSoak, kMonitor };

inline constexpr std::array kWatchPhases{
    Name<WatchPhase>{WatchPhase::kSoak, "soak"},
    Name<WatchPhase>{WatchPhase::kMonitor, "monitor"},
};

/// How far it has come, as far as it is on record.
struct Watch {
    std::int64_t promotion = 0;
    WatchPhase phase = WatchPhase::kSoak;
    Moment began;
    Milliseconds counted{0};  ///< in which the checks ran on schedule
    Milliseconds gap{0};      ///< in which they did not
    Moment looked;            ///< as far as the two reach
    bool ended = false;
};

}  // namespace gradus
