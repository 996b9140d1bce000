#pragma once

#include <optional>
#include <vector>

#include "store/model/evidence.h"
#include "store/model/execution.h"

namespace gradus {

/// One command in a sandbox, and what it was for.
struct ExecutionStory {
    Execution execution;
    std::optional<std::int64_t> project;
    std::optional<CheckResult> check;  ///< whose answer it is; nothing: of no check that gave one
    std::vector<std::int64_t> during;  ///< without one: the promotions that were at their checks when it began
};

}  // namespace gradus
