#pragma once

#include <optional>
#include <vector>

#include "pipeline/engine/engine.h"
#include "policies/gate/facts.h"

namespace gradus {

/// What every stage said about this patch, and what took it back since: an undo, a veto, a check that failed when it
/// was asked again (I19), rules that demand more than was proven.
std::vector<VerifiedFact> verifiedFacts(const EngineProject& project, const Records& records, const Change& change);

/// The promotion by which the stage has this very patch and still stands by it; nothing: it has it not.
std::optional<Promotion> standingIn(const EngineProject& project, const Records& records, std::int64_t change,
                                    const std::string& stage);

}  // namespace gradus
