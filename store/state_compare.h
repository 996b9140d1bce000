#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/sql.h"

namespace gradus {

struct StateMismatch {
    std::int64_t seq = 0;  ///< the last event that wrote the row that differs
    std::string detail;
};

/// Rebuilds the state tables from the events up to `head` in memory and compares them row by row with the real ones.
/// Nothing if they are equal.
std::optional<StateMismatch> compareState(Sql& sql, std::int64_t head);

}  // namespace gradus
