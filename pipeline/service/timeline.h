#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/audit_query.h"
#include "store/model/audit_event.h"
#include "store/records.h"

namespace gradus {

/// How a line is meant.
enum class Tone { kPlain, kGood, kBad, kWord };

/// One thing that happened, as a sentence.
struct TimelineEntry {
    std::int64_t seq = 0;  ///< its event
    EventKind kind = EventKind::kLogStarted;
    Time at{};
    std::string by;     ///< "person:ben"; empty: nobody in particular
    std::string about;  ///< "p3", "c2" or a stage
    std::optional<std::int64_t> change;
    std::optional<std::int64_t> promotion;
    std::optional<std::string> stage;
    std::string text;
    Tone tone = Tone::kPlain;
    bool redacted = false;   ///< some of its words were taken away
    bool continues = false;  ///< of the same commit and promotion as the entry before
};

/// The newest `limit` entries that match.
struct TimelineRequest {
    std::optional<std::string> what;  ///< a change, a promotion or a stage; nothing: the whole project
    std::optional<Time> since;        ///< inclusive
    std::optional<Time> until;        ///< exclusive
    std::int64_t limit = 200;
};

struct Timeline {
    std::string about;                   ///< "c12", "p3", "production"; empty: the project
    std::vector<TimelineEntry> entries;  ///< in the order in which they were recorded
    std::int64_t earlier = 0;            ///< entries that the limit left out
};

/// Tells events, which come in the order of their numbers. Steps that only lead on to the next one are not told.
std::vector<TimelineEntry> tellStory(const Records& records, const std::vector<Event>& events);

/// The sentence of one event, also of a step that only leads on; empty: its kind has none.
std::string tellEvent(const Records& records, const Event& event);

/// The kinds of event that have a sentence.
std::vector<EventKind> toldKinds();

}  // namespace gradus
