#pragma once

#include <filesystem>
#include <vector>

#include "plugins/api/isolation.h"
#include "stages/sandbox/sandboxes.h"

namespace gradus {

/// What the backend proves here: from `cache` where it was proven before on this boot, kernel, program and user.
ProbeResult provenBy(IsolationBackend& backend, const std::filesystem::path& cache);

/// Of the floor, what the request gives up: by `without`, and no-network by the host's network.
std::vector<Guarantee> lowered(const CommandRequest& request);

/// Throws Error(kInfrastructure) unless everything demanded is proven: the floor but for what is lowered, and what is
/// required besides. The message has the evidence, the hint the cure.
void demand(const ProbeResult& proofs, const CommandRequest& request);

/// What held for one run: what is proven and not lowered; of limits, those that were set and held by something that
/// prevents an excess.
std::vector<Guarantee> held(const ProbeResult& proofs, const CommandRequest& request, const Outcome& outcome);

}  // namespace gradus
