#pragma once

#include <vector>

#include "pipeline/service/words.h"
#include "store/records.h"

namespace gradus {

/// "agent:fixer for person:sue", each who made the change.
std::vector<std::string> tellMakers(const Records& records, std::int64_t change);

/// The halt, holds, pins and vetoes of a project that are in force at `now`, in the words of people.
std::vector<WordInForce> wordsOf(const Records& records, std::int64_t project, Time now);

/// A hold in the same words.
WordInForce tellHold(const Records& records, const Hold& hold);

/// Approvals that were neither taken back nor acted on; whether the rules still let them count is not asked.
std::vector<WordInForce> openApprovalsOf(const Records& records, std::int64_t project);

}  // namespace gradus
