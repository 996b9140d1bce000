#pragma once

#include <optional>

#include "store/records.h"

namespace gradus {

/// Who promoted it: in whose name it was let into its stage, whoever drove it on from there; who asked for it, where it
/// never came that far. Nothing once the name is redacted. `log` has the events, `records` the names.
std::optional<Actor> promoterOf(Sql& log, const Records& records, const Promotion& promotion);

}  // namespace gradus
