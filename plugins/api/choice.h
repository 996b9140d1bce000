#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "plugins/api/isolation.h"

namespace gradus {

/// The result of backend.probe(), kept in `directory` under the backend's name for as long as its probeKey() stays the
/// same. A file that is damaged, about another machine, program or user, or that somebody else could have written is
/// not believed: the backend is asked again. A directory that cannot be written costs a probe each time and is no
/// fault.
ProbeResult cachedProbe(IsolationBackend& backend, const std::filesystem::path& directory);

/// What cachedProbe has kept; nothing if it would have to ask.
std::optional<ProbeResult> keptProbe(const IsolationBackend& backend, const std::filesystem::path& directory);

/// What is asked of a backend.
struct IsolationDemand {
    std::vector<Guarantee> guarantees;
    /// The workspace has overlays, binds, private or hidden places: more than the host as it is.
    bool ownView = true;
    /// A network that lets listed names through and nothing else.
    bool networkByName = false;
};

using ProbeFunction = std::function<ProbeResult(IsolationBackend&)>;

/// The first of `backends`, which stand in the order of what they cost, that proves all that is demanded. Never one
/// that proves less: else throws Error, naming for each backend the guarantee it lacks, the reason, and in the hint the
/// cures.
IsolationBackend& chooseBackend(const std::vector<IsolationBackend*>& backends, const IsolationDemand& demand,
                                const ProbeFunction& probe);

}  // namespace gradus
