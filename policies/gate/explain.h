#pragma once

#include <string>
#include <vector>

#include "policies/gate/gate.h"

namespace gradus {

/// The decision as people read it: what happens now; then each closed gate with its reason, its rule, since when, until
/// when and who can open it; with `all` the others too, a line each. `now` is the time that was decided at.
std::vector<std::string> explainLines(const Decision& decision, Time now, bool all = false);

/// The decision as programs read it: {"step", "asks", "next", "gates": [{"gate", "state", "reason", "rule", "since",
/// "next", "unblock", "ask", "overridden_by"}], "approvals": [{"id", "counts", "why"}]}. Times are RFC 3339 in UTC;
/// what there is not is null.
std::string explainJson(const Decision& decision);

}  // namespace gradus
