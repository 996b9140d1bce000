#pragma once

#include "policies/language/keys.h"

namespace gradus {

/// Of a stage: the list of its steps.
KeyRow stepRow();

/// What one step says.
Section stepSection();

}  // namespace gradus
