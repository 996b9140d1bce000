#pragma once

#include <string>
#include <vector>

#include "policies/gate/facts.h"

namespace gradus {

/// The paths of the change that match any of the patterns (policies/language/glob.h), sorted. A pattern that cannot be
/// read matches everything: a demand is never lost to a mistake.
std::vector<std::string> matchingPaths(const ChangeFacts& change, const std::vector<std::string>& patterns);

}  // namespace gradus
