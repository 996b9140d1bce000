#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/service/audit_entry.h"
#include "pipeline/service/timeline.h"
#include "store/model/change.h"
#include "store/model/promotion.h"

namespace gradus {

/// One event of the log, and what it is part of.
struct EventStory {
    AuditEntry entry;
    std::string text;                    ///< a sentence; empty: people do not ask about its kind
    std::string inNameOf;                ///< "person:alice", where somebody else drove; empty: nobody
    std::optional<Change> change;        ///< as it was then, if the event names a revision or a promotion
    std::optional<Promotion> promotion;  ///< as it is now
    std::vector<std::string> rules;      ///< that it stands on, as they were trusted then: "approvals gradus.toml:12:9"
    std::vector<TimelineEntry> before;   ///< what led to it, oldest first
    std::vector<TimelineEntry> after;    ///< what came of it
    std::int64_t earlier = 0;            ///< entries before those
    std::int64_t later = 0;              ///< entries after those
};

}  // namespace gradus
