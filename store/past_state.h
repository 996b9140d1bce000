#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "store/model/clock.h"
#include "store/records.h"
#include "store/sql.h"

namespace gradus {

/// A place in the log at which what is recorded is a whole: the end of a commit.
struct PastMoment {
    std::int64_t seq = 0;  ///< the commit's last event
    Time at{};
    bool isNewest = false;
    /// The clock went back over the moment that was asked for: ends of earlier commits that answer to it as well.
    std::vector<std::int64_t> otherwise = {};
};

/// The commit that event `seq` belongs to. Throws Error(kNotFound) if there is no such event.
PastMoment momentOf(Sql& log, std::int64_t seq);
/// The last commit, in the order of recording, that is not later than `time`. Throws Error(kNotFound) if all are.
PastMoment momentAt(Sql& log, Time time);

/// The state tables as they were right after one event, in memory: the events up to there, through the one projection.
/// Texts are those that the log still has: what was redacted since is gone. The command lines of executions are not
/// carried over. One thread at a time; `log` outlives it.
class PastState {
  public:
    explicit PastState(Sql& log);
    /// Goes on to event `seq`; never back. Throws Error(kDamaged) naming the event that leads nowhere.
    void advance(std::int64_t seq);
    std::int64_t seq() const { return seq_; }
    const Records& records() const { return records_; }

  private:
    void carryOver(std::int64_t from, std::int64_t to);

    Sql& log_;
    std::unique_ptr<Sql> state_;
    Records records_;
    std::int64_t seq_ = 0;
};

}  // namespace gradus
