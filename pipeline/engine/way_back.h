#pragma once

#include <optional>
#include <vector>

#include "pipeline/engine/drive.h"

namespace gradus {

/// What goes out together with a promotion, newest first and without it: see Engine::goesWith().
std::vector<Promotion> goesWith(const Records& records, const Promotion& promotion);

/// Throws Error(kNotAllowed) where one of those could not be taken out. Reads only.
void requireRestTakeable(const EngineParts& parts, const StageDriver& target, const Promotion& promotion,
                         const UndoWish& wish);

/// Takes those out once `promotion` is; each is in `report.also`, and the first that stays ends it.
void takeOutRest(const EngineProject& project, EngineParts& parts, const Stage& stage, const Promotion& promotion,
                 const std::optional<Drive::Failure>& failure, const UndoWish& wish, const EngineProgress& progress,
                 StageReport& report);

/// An undo of `promotion` and of what goes with it, because of a failure.
StageReport takeOut(const EngineProject& project, EngineParts& parts, const Stage& stage, const Promotion& promotion,
                    const Drive::Failure& failure, const EngineProgress& progress);

/// The rest of a way out that was cut off: `left` should have gone with what was above it.
StageReport goOnOut(const EngineProject& project, EngineParts& parts, const Stage& stage, const Promotion& left,
                    const EngineProgress& progress);

}  // namespace gradus
