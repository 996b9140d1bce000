#pragma once

#include <vector>

#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

/// The outermost places that a command made in private directories and in the uppers of overlays (`uppers`, in the
/// plan's order); what the plan itself put there is left out. Called in the sandbox's mount namespace once nothing runs
/// any more. A bounded number is listed; a bounded number is counted.
void findOutsideWrites(const JailSetup& setup, const std::vector<Descriptor>& uppers, JailEffects& effects);

}  // namespace gradus
