#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/model/clock.h"
#include "store/model/digest.h"
#include "store/model/names.h"

namespace gradus {

/// On which side of the switch a step runs.
enum class StepWhen { kBeforeSwitch, kAfterSwitch };

inline constexpr std::array kStepWhens{
    Name<StepWhen>{StepWhen::kBeforeSwitch, "before-switch"},
    Name<StepWhen>{StepWhen::kAfterSwitch, "after-switch"},
};

/// What may be done with a step that nobody saw the end of.
enum class Idempotence {
    kYes,    ///< run again: twice is the same as once
    kKeyed,  ///< run again with the same key, by which it knows itself
    kProbe,  ///< ask a command whether it was done
    kNo,     ///< nothing: a person has to look
};

inline constexpr std::array kIdempotences{
    Name<Idempotence>{Idempotence::kYes, "yes"},
    Name<Idempotence>{Idempotence::kKeyed, "keyed"},
    Name<Idempotence>{Idempotence::kProbe, "probe"},
    Name<Idempotence>{Idempotence::kNo, "no"},
};

/// A command of the trusted rules around the switch of a stage, as it was when the promotion began.
struct StepPlan {
    std::string name;
    StepWhen when = StepWhen::kBeforeSwitch;
    std::vector<std::string> run;
    std::vector<std::string> undo;   ///< empty: there is nothing to take back
    std::vector<std::string> probe;  ///< succeeds if it was done
    Milliseconds timeout{0};
    bool irreversible = false;
    Idempotence idempotence = Idempotence::kNo;

    bool operator==(const StepPlan&) const = default;
};

/// The bytes of the object that a promotion names.
std::string encodeSteps(const std::vector<StepPlan>& steps);
/// Throws Error(kDamaged) unless `bytes` are exactly what encodeSteps() gives.
std::vector<StepPlan> decodeSteps(std::string_view bytes);

/// How far one step has come.
enum class StepState {
    kRunning,     ///< begun; nobody saw its end
    kDone,        ///< it said so
    kFailed,      ///< it ran and said no: it may have done half
    kNotRun,      ///< it never ran, or a probe or a person says so
    kUndoing,     ///< its undo has begun; nobody saw its end
    kUndone,      ///< its undo said so
    kUndoFailed,  ///< its undo said no
};

inline constexpr std::array kStepStates{
    Name<StepState>{StepState::kRunning, "running"},        Name<StepState>{StepState::kDone, "done"},
    Name<StepState>{StepState::kFailed, "failed"},          Name<StepState>{StepState::kNotRun, "not-run"},
    Name<StepState>{StepState::kUndoing, "undoing"},        Name<StepState>{StepState::kUndone, "undone"},
    Name<StepState>{StepState::kUndoFailed, "undo-failed"},
};

/// From nothing on, a step begins with running. What is not in the table is refused.
constexpr bool isLegalStep(StepState from, StepState to) {
    using enum StepState;
    switch (from) {
        case kRunning:
            return to == kRunning || to == kDone || to == kFailed || to == kNotRun || to == kUndoing;
        case kDone:
        case kFailed:
            return to == kUndoing || to == kNotRun;
        case kUndoing:
            return to == kUndoing || to == kUndone || to == kUndoFailed || to == kDone;
        case kUndoFailed:
            return to == kUndoing || to == kUndone || to == kDone;
        case kNotRun:
            return to == kRunning;
        case kUndone:
            return false;
    }
    return false;
}

/// Something of it may be there.
constexpr bool mayBeThere(StepState state) { return state != StepState::kNotRun && state != StepState::kUndone; }

/// Nobody knows whether what was begun last came to its end.
constexpr bool isInDoubt(StepState state) { return state == StepState::kRunning || state == StepState::kUndoing; }

/// Whether it is there is open: it is in doubt, or its undo said no.
constexpr bool isOpen(StepState state) { return isInDoubt(state) || state == StepState::kUndoFailed; }

/// Only a person can say: what is open may not be run again, and nothing can be asked.
constexpr bool needsAWord(StepState state, Idempotence idempotence) {
    return isOpen(state) && idempotence == Idempotence::kNo;
}

/// One step of one promotion, as it stands.
struct StepRecord {
    std::int64_t promotion = 0;
    std::string name;
    std::int64_t number = 0;
    StepState state = StepState::kRunning;
    std::int64_t runs = 0;
    std::optional<std::int64_t> exitCode;
    std::optional<std::int64_t> wallMs;
    std::optional<Digest> log;
    Time at{};
    std::string reason;  ///< free text, for people
};

}  // namespace gradus
