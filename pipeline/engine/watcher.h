#pragma once

#include <string>
#include <vector>

#include "policies/language/pipeline.h"
#include "store/model/clock.h"

namespace gradus {

/// An after check that keeps running.
struct WatchedCheck {
    std::string name;
    Milliseconds period;  ///< from the end of one run to the beginning of the next
    Milliseconds most;    ///< the longest that one run may take
};

/// The stage's, each with its own `interval` where it has one.
std::vector<WatchedCheck> watchedChecks(const Pipeline& pipeline, const Stage& stage, Milliseconds period);

/// When checks that keep running are due, and how much of the time between was really watched. Pure: it is told the
/// time.
class Watcher {
  public:
    /// All of them ran last at that moment.
    Watcher(std::vector<WatchedCheck> checks, const Moment& last);

    /// Zero: something is due.
    Milliseconds untilNext(const Moment& now) const;
    std::vector<std::string> due(const Moment& now) const;
    std::vector<std::string> all() const;

    /// How the time since the last look counts: all of it, or none.
    struct Time {
        Milliseconds counted{0};
        Milliseconds gap{0};
    };
    /// These were run between the two moments, and passed. None of the time counts when one of them was late by more
    /// than its own period, a run took longer than it may, or the clock was set meanwhile: nobody knows what was so
    /// then.
    Time ran(const std::vector<std::string>& names, const Moment& began, const Moment& ended);
    /// These were run and could not judge: none of the time counts.
    Time missed(const std::vector<std::string>& names, const Moment& ended);

  private:
    struct Item {
        WatchedCheck check;
        Moment last;
    };
    bool isOnSchedule(const std::vector<std::string>& names, const Moment& began, const Moment& ended) const;
    Milliseconds pass(const std::vector<std::string>& names, const Moment& ended);

    std::vector<Item> items_;
    Moment last_;
};

}  // namespace gradus
