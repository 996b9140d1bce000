#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/model/audit_event.h"
#include "store/records.h"

namespace gradus {

/// Which events are asked for; what is not given does not restrict.
struct AuditQuery {
    std::optional<Time> since;  ///< inclusive
    std::optional<Time> until;  ///< exclusive
    std::vector<ActorId> actors;
    std::optional<EventKind> kind;
    std::optional<std::string> stage;
    std::optional<std::int64_t> change;
    std::optional<std::int64_t> project;
    std::optional<std::int64_t> afterSeq;  ///< for following: only newer ones
    std::int64_t limit = 100;              ///< the newest so many
};

/// The newest `limit` events that match, oldest of them first. Uses the index of the narrowest restriction given.
std::vector<Event> queryEvents(Sql& sql, const AuditQuery& query);

/// Every actor of that name, of whatever kind, or of the kind before a colon: `--actor alice`, `--actor person:alice`.
std::vector<ActorId> actorsNamed(Sql& sql, const std::string& name);

}  // namespace gradus
