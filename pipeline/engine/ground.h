#pragma once

#include <optional>
#include <string>

#include "pipeline/engine/engine.h"

namespace gradus {

/// Throws Error(kNotFound), naming those that there are.
const Stage& stageNamed(const EngineProject& project, const std::string& name);

/// Something real that one promotion at a time may touch.
bool hasTarget(const EngineParts& parts, const Stage& stage);

/// What a stage holds now and the change as it would apply there, looked at without holding anything.
struct Ground {
    Change change;
    std::optional<HeldTree> held;
    std::optional<Seed> seed;  ///< where nothing is held
    Digest base;
    MergeResult merge;
};

/// A stage that is stuck is not looked at: what would be read there is nobody's.
Ground groundOf(const EngineProject& project, const EngineParts& parts, const Stage& stage, std::int64_t change);

}  // namespace gradus
