#pragma once

#include <optional>

#include "pipeline/engine/check_runner.h"

namespace gradus {

/// All that decides the answer of a before check and can be known without running it: what its evidence is bound to,
/// the caller's variables, the kernel, what would confine it. Nothing where more than that decides: the network, a file
/// elsewhere, or a check that says so itself (`reuse = false`).
std::optional<Digest> questionOf(Sandboxes& sandboxes, const Check& check, const CommandRequest& request,
                                 const Evidence& evidence);

/// What a command sees and reaches besides the tree: what is hidden and shown, the network, the services.
Digest surroundingsOf(const CommandRequest& request);

/// Whether a yes from before may count in this stage: never in production, and as long as the policy says.
std::optional<Milliseconds> reuseWithin(const Stage& stage);

}  // namespace gradus
