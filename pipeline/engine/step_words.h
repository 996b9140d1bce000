#pragma once

#include "pipeline/engine/engine.h"

namespace gradus {

/// Throws Error(kNotAllowed) where what the steps of a promotion did is not taken back as it is wished: past what
/// cannot be undone only on a person's word, and what only a person can know only once one has said it. Reads only.
/// `named`: what a person has to name to take it back, where that is a way back of it that got stuck.
void requireStepsTakeable(const EngineParts& parts, const Promotion& promotion, const UndoWish& wish,
                          const std::optional<std::int64_t>& named = std::nullopt);

}  // namespace gradus
