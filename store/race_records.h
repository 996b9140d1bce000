#pragma once

#include <vector>

#include "store/model/audit_event.h"
#include "store/model/race.h"
#include "store/sql.h"

namespace gradus {

class Writer;

/// What is remembered about races, to be asked; "not found" is an answer. One thread at a time.
class RaceRecords {
  public:
    explicit RaceRecords(Sql& sql) : sql_(&sql) {}

    std::optional<RaceRecord> race(std::int64_t id) const;
    /// Newest first.
    std::vector<RaceRecord> races(std::int64_t project, std::int64_t limit) const;
    std::int64_t nextRace() const;

  private:
    Sql* sql_;
};

struct RaceStart {
    std::int64_t project = 0;
    ProcessIdentity owner;
    std::string candidates;  ///< JSON
};

struct RaceEnd {
    std::int64_t race = 0;
    RaceOutcome outcome = RaceOutcome::kNoWinner;
    std::optional<std::int64_t> change;
    std::string candidates;  ///< JSON
};

/// Within one write transaction. Gives the new race's id.
std::int64_t startRace(Writer& writer, const RaceStart& start, ActorId by);
/// Throws Error(kNotAllowed) for one that has ended.
void endRace(Writer& writer, const RaceEnd& end, ActorId by);

/// What each event about a race does to the state tables; called by project() alone.
void projectRaceStarted(Sql& sql, const Event& event);
void projectRaceEnded(Sql& sql, const Event& event);

}  // namespace gradus
