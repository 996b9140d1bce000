#pragma once

#include <vector>

#include "plugins/api/isolation.h"
#include "stages/sandbox/sandboxes.h"

namespace gradus {

/// Of the floor, what the request gives up: by `without`, and no-network by any network.
std::vector<Guarantee> lowered(const CommandRequest& request);

/// Everything a backend must prove for it: the floor but for what is lowered, and what is required besides. Throws
/// Error(kUsage) where one guarantee is required and given up at once.
std::vector<Guarantee> demanded(const CommandRequest& request);

/// The limits, those that a required guarantee is about made required: what is demanded is never merely watched. Throws
/// Error(kUsage) where one is demanded and has no value.
Limits insisted(const CommandRequest& request);

/// What held for one run: what is proven and not lowered; of limits, those that were set and held by something that
/// prevents an excess.
std::vector<Guarantee> held(const ProbeResult& proofs, const CommandRequest& request, const Outcome& outcome);

}  // namespace gradus
