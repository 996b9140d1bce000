#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "stages/sandbox/sandboxes.h"
#include "store/model/change_set.h"
#include "store/model/names.h"
#include "store/model/promotion.h"
#include "store/objects.h"

namespace gradus {

/// One approach: a command that makes a change in a sandbox of its own, or a change that is there already.
struct Candidate {
    std::string name;
    std::string source;                 ///< as it was written
    std::optional<TryRequest> command;  ///< none: `given` is the change
    ChangeSet given;                    ///< onto the project as it is, its contents stored
};

/// What became of a candidate.
enum class RaceStanding {
    kPassed,   ///< every check passed
    kFailed,   ///< its command or a check said no
    kEmpty,    ///< it changed nothing
    kErrored,  ///< it could not be run or judged
    kStopped,  ///< another one had passed, the time was up, or somebody cancelled
};

inline constexpr std::array kRaceStandings{
    Name<RaceStanding>{RaceStanding::kPassed, "passed"},   Name<RaceStanding>{RaceStanding::kFailed, "failed"},
    Name<RaceStanding>{RaceStanding::kEmpty, "empty"},     Name<RaceStanding>{RaceStanding::kErrored, "errored"},
    Name<RaceStanding>{RaceStanding::kStopped, "stopped"},
};

struct RaceCheck {
    std::string name;
    Cause verdict = Cause::kErrored;
    std::string reason;
    std::int64_t wallMs = 0;
    std::int64_t cpuMs = 0;
    std::int64_t peakMemoryBytes = 0;
    std::optional<std::int64_t> execution;
    std::optional<Verdict> ended;  ///< how its command did, where one ran
};

/// A candidate and how it did. Sizes are of its change: lines where it can be said in lines.
struct RaceEntry {
    std::string name;
    std::string source;
    RaceStanding standing = RaceStanding::kStopped;
    std::string reason;  ///< a line for a person, where it did not pass
    std::vector<RaceCheck> checks;
    ChangeSet changes;
    std::uint64_t added = 0;
    std::uint64_t removed = 0;
    std::vector<std::pair<std::string, std::size_t>> overlap;  ///< other candidates that touch paths of it: how many
    std::int64_t wallMs = 0;                                   ///< of its command and its checks
    std::int64_t spanMs = 0;                                   ///< from its start to its end, sandboxes made included
    std::int64_t cpuMs = 0;                                    ///< of its command and its checks
    std::int64_t peakMemoryBytes = 0;                          ///< of the one that took most
    std::optional<std::int64_t> execution;
    std::optional<Verdict> ended;         ///< how its command did, or the check that said no
    bool moved = false;                   ///< errored, because what it looked at is not what the others saw
    std::optional<std::int64_t> sandbox;  ///< kept as evidence

    std::size_t checksPassed() const;
};

nlohmann::json entryJson(const RaceEntry& entry);

/// What candidates are compared by, the first that tells them apart.
enum class RankBy { kFailures, kPassed, kSize, kTime, kCpu, kMemory };

inline constexpr std::array kRankings{
    Name<RankBy>{RankBy::kFailures, "failures"}, Name<RankBy>{RankBy::kPassed, "passed"},
    Name<RankBy>{RankBy::kSize, "size"},         Name<RankBy>{RankBy::kTime, "time"},
    Name<RankBy>{RankBy::kCpu, "cpu"},           Name<RankBy>{RankBy::kMemory, "memory"},
};

/// Best first: those that passed before all others, then by `by`, then in the order they were given.
void rank(std::vector<RaceEntry>& entries, const std::vector<RankBy>& by);

/// What is to be judged.
struct RaceSubject {
    const ChangeSet& changes;
    const StandingBase* base;  ///< none: the project as it is
    Limits atMost;             ///< that any one check may take
    std::stop_token cancel;
};

/// Several approaches at once, each in a sandbox of its own over one base, each judged by the same checks over the
/// tree that it would leave. All sandboxes are transient until they are kept: a race that dies leaves nothing.
class Race {
  public:
    struct Surroundings {
        Sandboxes& sandboxes;
        Objects& objects;
        /// What all of them stand on, borrowed; none: the project as it is.
        const StandingBase* base = nullptr;
        std::filesystem::path directory;  ///< the same as a directory, to be read
        /// What moved meanwhile of all that a candidate could see. Asked after each, from several threads at once.
        std::function<std::optional<std::string>()> moved;
        /// Every check over the base with the change. Called from several threads at once.
        std::function<std::vector<RaceCheck>(const RaceSubject&)> judge;
        /// Told when a candidate starts, has its change and is judged; called one at a time, from any thread.
        std::function<void(const RaceEntry&, std::string_view)> tell = [](const RaceEntry&, std::string_view) {};
    };
    struct Rules {
        std::size_t atOnce = 2;
        bool stopAtFirstPass = false;
        std::optional<Milliseconds> budget;  ///< of time on the clock, for all of them
        std::optional<Milliseconds> cpu;     ///< of processor time, for all of them: each has an equal share
        Limits atMost;                       ///< that any one command may take
    };
    Race(Surroundings surroundings, Rules rules);
    ~Race();
    Race(const Race&) = delete;
    Race& operator=(const Race&) = delete;

    /// In the order of the candidates.
    std::vector<RaceEntry> run(const std::vector<Candidate>& candidates, const std::stop_token& cancel);
    /// Keeps the sandbox of an entry of the last run, if there is something to keep, and says which it is.
    void keep(RaceEntry& entry, const std::string& name, Milliseconds lifetime);

  private:
    struct Running;
    std::unique_ptr<Running> running_;
};

}  // namespace gradus
