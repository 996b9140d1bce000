#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "pipeline/experiment/race.h"
#include "policies/language/loader.h"
#include "store/model/change.h"
#include "store/model/race.h"

namespace gradus {

/// What is asked of a race. Names are unique.
struct RaceWish {
    struct Entrant {
        std::string name;
        std::string source;                 ///< as it was written
        std::vector<std::string> command;   ///< or one of:
        std::optional<std::string> patch;   ///< its text
        std::optional<std::string> change;  ///< its handle
    };
    std::vector<Entrant> entrants;
    std::vector<std::string> checks;  ///< shell commands; none: those before the first stage
    SandboxWish sandbox;
    Milliseconds grace{0};
    std::size_t atOnce = 2;
    bool stopAtFirstPass = false;
    std::optional<Milliseconds> budget;
    std::vector<RankBy> rank{RankBy::kFailures, RankBy::kPassed, RankBy::kSize, RankBy::kTime};
    Milliseconds keepFor{0};  ///< the sandboxes, as evidence
    std::function<void(const RaceEntry&, std::string_view)> tell = [](const RaceEntry&, std::string_view) {};
    std::stop_token cancel;
};

struct RaceReport {
    std::int64_t id = 0;
    RaceOutcome outcome = RaceOutcome::kNoWinner;
    std::vector<RaceEntry> entries;  ///< best first
    std::optional<Change> change;    ///< the winner's
};

struct RaceView {
    RaceRecord record;
    bool lost = false;  ///< its process died before the end
};

using RaceJudge = std::function<std::vector<RaceCheck>(const ChangeSet&, std::stop_token)>;

inline constexpr std::int64_t kAllRaces = 1'000'000;

}  // namespace gradus
