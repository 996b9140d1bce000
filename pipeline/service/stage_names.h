#pragma once

#include <string>
#include <vector>

#include "policies/language/pipeline.h"
#include "store/records.h"

namespace gradus {

/// The project's stages: those of the rules, in their order, then those that only older promotions know.
std::vector<std::string> stageNames(const Records& records, std::int64_t project, const Pipeline* pipeline);

}  // namespace gradus
