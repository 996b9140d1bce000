#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/engine/rehearsal.h"
#include "stages/changes/merge.h"

namespace gradus {

struct DrillWish {
    std::string stage;
    std::optional<std::string> change;  ///< a handle; nothing: one that is made up
};

/// How a rehearsal on a copy of a stage's target went.
struct DrillReport {
    std::string stage;
    std::string driver;
    std::string subject;                        ///< "c12.1", or what was made up
    std::size_t changedPaths = 0;               ///< of the change
    std::vector<MergeConflict> mergeConflicts;  ///< then nothing was applied
    std::vector<Conflict> conflicts;            ///< the same
    std::optional<RehearsalOutcome> outcome;
    std::vector<std::string> notes;  ///< what was not rehearsed
    std::size_t copiedPaths = 0;
    std::uint64_t copiedBytes = 0;
    Milliseconds copyTime{0};

    bool succeeded() const { return outcome && outcome->succeeded(); }
};

}  // namespace gradus
