#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "pipeline/experiment/race.h"
#include "policies/language/loader.h"
#include "store/model/change.h"
#include "store/model/race.h"

namespace gradus {

/// What all candidates of a race start from.
enum class RaceBase {
    kCopied,   ///< the project's files as they were when it began, whatever happens to them meanwhile
    kWatched,  ///< the project as it is: whoever ran while it changed is out
};

inline constexpr std::array kRaceBases{
    Name<RaceBase>{RaceBase::kCopied, "copied"},
    Name<RaceBase>{RaceBase::kWatched, "watched"},
};

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
    std::optional<Milliseconds> budget;  ///< of time on the clock, for all of them
    std::optional<Milliseconds> cpu;     ///< of processor time, shared out evenly
    Limits atMost;                       ///< that any one command may take
    std::optional<RaceBase> base;        ///< none: copied, unless that is too much
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
    RaceBase base = RaceBase::kCopied;
    std::int64_t baseMs = 0;         ///< that copying took
    std::int64_t wallMs = 0;         ///< of everything: copying, and all of them
    std::vector<std::string> notes;  ///< what a person should know about the base

    /// From start to end, of the candidate that took longest.
    std::int64_t slowestMs() const;
};

/// What is shown of a race besides its candidates, as it is recorded.
nlohmann::json raceFacts(const RaceReport& report, const RaceWish& wish);

struct RaceView {
    RaceRecord record;
    bool lost = false;  ///< its process died before the end
};

using RaceJudge = std::function<std::vector<RaceCheck>(const RaceSubject&)>;

/// The ground under a race, for as long as it runs.
struct RaceGround {
    std::unique_ptr<PinnedBase> pinned;  ///< none: the project as it is
    std::filesystem::path directory;     ///< to be read
    BaseFingerprint fingerprint;
    std::function<std::optional<std::string>()> moved;

    const StandingBase* base() const { return pinned ? &pinned->base() : nullptr; }
};

inline constexpr std::int64_t kAllRaces = 1'000'000;

}  // namespace gradus
