#pragma once

#include <optional>
#include <string>

#include "store/model/actor.h"
#include "store/model/clock.h"
#include "store/model/names.h"
#include "store/model/sandbox.h"

namespace gradus {

/// How a race ended.
enum class RaceOutcome {
    kWon,
    kNoWinner,  ///< nobody passed every check
    kMoved,     ///< the project changed meanwhile: the results are of no tree that exists
    kCancelled,
};

inline constexpr std::array kRaceOutcomes{
    Name<RaceOutcome>{RaceOutcome::kWon, "won"},
    Name<RaceOutcome>{RaceOutcome::kNoWinner, "no-winner"},
    Name<RaceOutcome>{RaceOutcome::kMoved, "moved"},
    Name<RaceOutcome>{RaceOutcome::kCancelled, "cancelled"},
};

/// A race as remembered.
struct RaceRecord {
    std::int64_t id = 0;
    std::int64_t project = 0;
    ActorId actor = 0;
    ProcessIdentity owner;
    std::optional<RaceOutcome> outcome;  ///< none: it is running, or its process died
    std::optional<std::int64_t> change;  ///< the winner's
    Time startedAt{};
    std::optional<Time> endedAt;
    std::optional<std::string> candidates;  ///< JSON, as it was recorded; nothing once redacted
};

}  // namespace gradus
