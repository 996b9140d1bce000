#pragma once

#include <optional>
#include <vector>

#include "store/model/actor.h"
#include "store/model/audit_event.h"
#include "store/model/watch.h"
#include "store/sql.h"

namespace gradus {

class Writer;

/// What is remembered about soaks and monitors, to be asked; "not found" is an answer. One thread at a time.
class WatchRecords {
  public:
    explicit WatchRecords(Sql& sql) : sql_(&sql) {}

    std::optional<Watch> watch(std::int64_t promotion) const;
    /// Monitors of a project that have not ended, oldest first.
    std::vector<Watch> monitors(std::int64_t project) const;

  private:
    Sql* sql_;
};

/// Within one write transaction: how far a watch has come. The first one of a phase is its beginning: `began`
/// itself is not asked for.
void recordWatch(Writer& writer, const Watch& watch, ActorId by);

/// What the event does to the state tables; called by project() alone.
void projectPromotionWatched(Sql& sql, const Event& event);

}  // namespace gradus
