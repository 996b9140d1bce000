#pragma once

#include <optional>
#include <string>

#include "policies/language/pipeline.h"
#include "store/records.h"

namespace gradus {

/// Whether the policy leaves it to a person to take back what an after check said no to (`rollback = "manual"`).
bool isTakenBackByHand(const Stage& stage);
/// The after check that said no to it, on record.
std::optional<std::string> saidNo(const Records& records, const Promotion& promotion);
/// The same for one that stands there, said no to, until a person takes it back: no process was lost over it.
std::optional<std::string> leftToAPerson(const Records& records, const Stage* stage, const Promotion& promotion);

}  // namespace gradus
