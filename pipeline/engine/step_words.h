#pragma once

#include "pipeline/engine/engine.h"

namespace gradus {

/// Throws Error(kNotAllowed) where what the steps of a promotion did is not taken back as it is wished: past what
/// cannot be undone only on a person's word, and what only a person can know only once one has said it. Reads only.
/// `named`: what a person has to name to take it back, where that is a way back of it that got stuck.
void requireStepsTakeable(const EngineParts& parts, const Promotion& promotion, const UndoWish& wish,
                          const std::optional<std::int64_t>& named = std::nullopt);

/// How what a stage holds, or got stuck with, is taken back.
struct WayBack {
    std::optional<std::string> command;  ///< a whole one that is accepted; nothing: none is, of whoever acts
    std::string hint;                    ///< the same for people, with the other ways that there are
};

/// Reads only.
WayBack wayBackOf(const Engine& engine, const Promotion& promotion);

}  // namespace gradus
