#pragma once

#include <string>
#include <vector>

#include "policies/language/rule_files.h"

namespace gradus {

/// The policies that come with the program, as in the folder `policies/`: path "policies/production.toml" and bytes.
const std::vector<RuleFile>& shippedPolicies();

}  // namespace gradus
