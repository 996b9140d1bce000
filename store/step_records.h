#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/model/actor.h"
#include "store/model/audit_event.h"
#include "store/model/step.h"
#include "store/sql.h"

namespace gradus {

class Writer;

/// What is remembered about steps, to be asked; "not found" is an answer. One thread at a time.
class StepRecords {
  public:
    explicit StepRecords(Sql& sql) : sql_(&sql) {}

    /// Those that began, in their order.
    std::vector<StepRecord> of(std::int64_t promotion) const;
    std::optional<StepRecord> find(std::int64_t promotion, const std::string& name) const;

  private:
    Sql* sql_;
};

/// One move of a step. `promotion` is the one that drives; `of` the one that the step was run for, if that is another.
struct StepMove {
    std::int64_t promotion = 0;
    std::optional<std::int64_t> of = {};
    std::string name;
    std::int64_t number = 0;
    StepState to = StepState::kRunning;
    std::optional<std::int64_t> exitCode = {};
    std::optional<std::int64_t> wallMs = {};
    std::optional<Digest> log = {};
    std::string reason = {};  ///< free text
};

/// Within one write transaction. Throws Error(kNotAllowed) for a move that no step makes.
void recordStep(Writer& writer, const StepMove& move, ActorId by);

/// What the event does to the state tables; called by project() alone.
void projectStepMoved(Sql& sql, const Event& event);

}  // namespace gradus
