#pragma once

#include "pipeline/cli/context.h"
#include "pipeline/service/event_story.h"

namespace gradus {

/// All that an event holds.
Json entryJson(const AuditEntry& entry);
/// The part of an event a person wants to read; digests are for --json.
std::string eventDetail(const AuditEntry& entry);

/// `gradus why 57`.
Result eventResult(const EventStory& story, const Context& context);

}  // namespace gradus
