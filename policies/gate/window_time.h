#pragma once

#include <optional>

#include "policies/language/cron.h"
#include "policies/language/time_zone.h"
#include "store/model/clock.h"

namespace gradus {

/// A time that comes again: it starts whenever the clock on the wall shows a minute that the cron expression names, and
/// lasts for that long on a stopwatch. A minute that the clock shows twice starts it twice; of minutes that the clock
/// jumps over, it starts at the jump. Starts more than nine years away are not looked for.
class WindowTime {
  public:
    WindowTime(const Cron& cron, Milliseconds lasts, const TimeZone& zone) : cron_(cron), lasts_(lasts), zone_(zone) {}

    bool isOn(Time time) const;
    /// The first moment after `time` at which isOn() is not what it is at `time`; nothing if it stays for years.
    std::optional<Time> nextChange(Time time) const;
    /// The moment from which on isOn() is what it is at `time`.
    std::optional<Time> since(Time time) const;

  private:
    std::optional<Time> startAtOrAfter(Time time) const;
    std::optional<Time> startAtOrBefore(Time time) const;
    bool startsInJumpTo(const TimeZone::Segment& segment) const;
    bool namesDay(Time local) const;
    std::optional<Time> namedAtOrAfter(Time local, Time limit) const;
    std::optional<Time> namedAtOrBefore(Time local, Time limit) const;

    Cron cron_;
    Milliseconds lasts_;
    TimeZone zone_;
};

}  // namespace gradus
