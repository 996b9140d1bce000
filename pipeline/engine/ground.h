#pragma once

#include <optional>
#include <string>

#include "pipeline/engine/engine.h"
#include "stages/drivers/target_lock.h"
#include "store/change_sets.h"

namespace gradus {

/// Throws Error(kNotFound), naming those that there are.
const Stage& stageNamed(const EngineProject& project, const std::string& name);
/// "sandbox, local".
std::string stageNames(const EngineProject& project);

/// Whether a person trusted other rules since these were read: what is judged by these is judged by nobody's.
bool areOutdated(const EngineProject& project, const Records& records);

/// Something else is there than the stage holds on record: somebody put it there by hand. Nothing where that is how the
/// driver's target lives, and while somebody is at work there.
std::optional<Conflict> strayedFrom(const EngineProject& project, const Records& records, const Stage& stage,
                                    const StageDriver& driver, const HeldTree& there);

/// Throws Error(kDamaged) when the marker of a stage's target names a promotion that this store has not come to: an
/// older copy of the state directory was put back, and its next numbers were given before.
void requireNewestState(const EngineProject& project, const EngineParts& parts);

/// Something real that one promotion at a time may touch.
bool hasTarget(const EngineParts& parts, const Stage& stage);

/// What a stage holds; where it is stuck, what made it so and nothing else: only that may be taken out of it.
bool isWhatStands(const Records& records, const StageState& holds, std::int64_t promotion);
/// Throws Error(kNotAllowed) when the stage is stuck by something else.
void requireNotClosedTo(const Records& records, const StageState& holds, const Promotion& promotion);

/// Throws Error(kNotAllowed) when the rules name another target than the one in which the stage holds something.
void requireTarget(const EngineProject& project, const Records& records, const Stage& stage, const StageDriver& driver);
/// The same for one promotion that touched its target.
void requireTargetOf(const Promotion& promotion, const StageDriver& driver);

/// Throws Error(kNotAllowed) when the promotion that a target's marker names was killed half-way in another stage or
/// project: its journal would be finished, or undone, in the middle of what came in meanwhile.
void requireNoneHalfWay(const EngineProject& project, const EngineParts& parts, const std::string& stage,
                        const TargetClaim& found);

/// Throws Error(kNotAllowed) when nothing is there while the stage holds something on record: it would begin anew as if
/// nothing had ever come in.
void requireThere(const EngineProject& project, const Records& records, const Stage& stage, bool isThere);

/// The change as it applies to `now`. Where both sides differ from what it was made on, what its author had in between
/// counts as well: its earlier revisions, and what was submitted from the same work tree before.
MergeResult putOnto(const TreeReader& now, const EngineProject& project, const EngineParts& parts,
                    const Change& change);

/// What a stage holds now and the change as it would apply there, looked at without holding anything.
struct Ground {
    Change change;
    std::optional<HeldTree> held;
    std::optional<Seed> seed;  ///< where nothing is held
    Digest base;
    MergeResult merge;
    /// Of what the stage holds, or begins with; nothing where that is not looked at.
    std::optional<DirectoryReader> reader() const;
};

/// A stage that is stuck is not looked at: what would be read there is nobody's.
Ground groundOf(const EngineProject& project, const EngineParts& parts, const Stage& stage, std::int64_t change);

}  // namespace gradus
