#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/cli/context.h"
#include "pipeline/experiment/race.h"

namespace gradus {

/// "timed out" for one whose command did, else its standing.
std::string standingText(RaceStanding standing, std::optional<Verdict> ended);
Style styleOf(RaceStanding standing);
/// "51ms", "3.1s", "2m4s": as much as tells candidates apart.
std::string timeText(std::int64_t milliseconds);

/// What is seen while candidates race: on a terminal a line for each, painted anew in place; elsewhere plain lines as
/// things happen. With --json nothing.
class RaceProgress {
  public:
    RaceProgress(Context& context, const std::vector<std::string>& names);
    ~RaceProgress();
    RaceProgress(const RaceProgress&) = delete;
    RaceProgress& operator=(const RaceProgress&) = delete;

    /// Called from any thread.
    void tell(const RaceEntry& entry, std::string_view what);
    /// Takes what is painted in place off the screen and stops.
    void end();

  private:
    enum class Phase { kWaiting, kRunning, kChecking, kEnded };
    struct Row {
        std::string name;
        Phase phase = Phase::kWaiting;
        std::chrono::steady_clock::time_point began{};
        RaceEntry entry{};
    };
    void note(Row& row, const RaceEntry& entry, std::string_view what);
    std::string lineOf(const Row& row) const;
    std::string plainLine(const Row& row) const;
    void repaint();

    Context& context_;
    std::vector<Row> rows_;
    bool inPlace_;
    std::size_t painted_ = 0;  ///< lines
    std::size_t nameWidth_ = 0;
    std::mutex mutex_;
    std::jthread ticker_;
};

}  // namespace gradus
