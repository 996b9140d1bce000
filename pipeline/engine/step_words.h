#pragma once

#include "pipeline/engine/engine.h"

namespace gradus {

/// Throws Error(kNotAllowed) where what the steps of a promotion did is not taken back as it is wished: past what
/// cannot be undone only on a person's word, and what only a person can know only once one has said it. Reads only.
void requireStepsTakeable(const EngineParts& parts, const Promotion& promotion, const UndoWish& wish);

}  // namespace gradus
