#pragma once

#include <array>
#include <string_view>

#include "store/model/audit_event.h"
#include "store/sql.h"

namespace gradus {

/// Brings the state tables up to date with one event: the only code that writes them, used when the event is recorded
/// and when the tables are rebuilt. Runs inside the caller's transaction. Never looks at the payload, so that
/// redaction changes no state.
void project(Sql& sql, const Event& event);

/// Projects and indexes the events `from`..`to` of `log` onto `state`, in order. The two may be the same database.
/// `reached`, if given, always names the event being projected: the culprit when it throws.
void replay(Sql& log, Sql& state, std::int64_t from, std::int64_t to, std::int64_t* reached = nullptr);

/// The tables that replay() writes, in an order in which they can be emptied.
inline constexpr std::array<std::string_view, 27> kStateTables{
    "step",          "watch",          "race",   "gate_override", "halt",        "veto",         "stage_pin",
    "hold",          "approval",       "target", "stage_state",   "maker",       "check_result", "execution",
    "snapshot",      "sandbox_worker", "layer",  "sandbox",       "promotion",   "revision",     "change",
    "trusted_rules", "project",        "actor",  "redaction",     "event_index", "clock_step"};

}  // namespace gradus
