#pragma once

#include <vector>

#include "store/model/digest.h"

namespace gradus {

/// What one round of before checks proved, over the evidence of each of them in the order in which they are recorded.
Digest evidenceOver(const std::vector<Digest>& evidence);

}  // namespace gradus
