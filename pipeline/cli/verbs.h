#pragma once

#include <vector>

#include "pipeline/cli/verb.h"

namespace gradus {

/// Every verb of the program. A family of verbs lives in a file of its own, which exports its rows; here they meet.
std::vector<Verb> allVerbs();

/// help, version, completion
std::vector<Verb> gradusVerbs();

}  // namespace gradus
