#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/model/clock.h"
#include "store/model/digest.h"
#include "store/model/names.h"

namespace gradus {

/// Where one attempt to bring one change into one stage stands.
enum class PromotionState {
    kQueued,
    kWaiting,      ///< some gate is closed; nothing is touched, no lock is held
    kChecking,     ///< the before checks run in sandboxes
    kApplying,     ///< under the target's lock, the intent is committed
    kVerifying,    ///< the after checks look at the running thing
    kSoaking,      ///< they keep running
    kPromoted,     ///< final, as is everything below but rolling-back
    kRejected,     ///< a check or a gate said no before anything was touched
    kSuperseded,   ///< a newer revision of the same change took its place
    kStale,        ///< the stage's tree moved in a way that cannot be merged
    kExpired,      ///< waited longer than its policy allows
    kCancelled,    ///< somebody stopped it while nothing was touched
    kRollingBack,  ///< the target is being returned to its checkpoint
    kRolledBack,
    kStuck,  ///< the rollback itself failed: the stage is quarantined
};

inline constexpr std::array kPromotionStates{
    Name<PromotionState>{PromotionState::kQueued, "queued"},
    Name<PromotionState>{PromotionState::kWaiting, "waiting"},
    Name<PromotionState>{PromotionState::kChecking, "checking"},
    Name<PromotionState>{PromotionState::kApplying, "applying"},
    Name<PromotionState>{PromotionState::kVerifying, "verifying"},
    Name<PromotionState>{PromotionState::kSoaking, "soaking"},
    Name<PromotionState>{PromotionState::kPromoted, "promoted"},
    Name<PromotionState>{PromotionState::kRejected, "rejected"},
    Name<PromotionState>{PromotionState::kSuperseded, "superseded"},
    Name<PromotionState>{PromotionState::kStale, "stale"},
    Name<PromotionState>{PromotionState::kExpired, "expired"},
    Name<PromotionState>{PromotionState::kCancelled, "cancelled"},
    Name<PromotionState>{PromotionState::kRollingBack, "rolling-back"},
    Name<PromotionState>{PromotionState::kRolledBack, "rolled-back"},
    Name<PromotionState>{PromotionState::kStuck, "stuck"},
};

/// One legal step. What is not in the table is refused here and, by a trigger generated from it, by the database.
struct Transition {
    PromotionState from;
    PromotionState to;
};

inline constexpr std::array kTransitions{
    Transition{PromotionState::kQueued, PromotionState::kWaiting},
    Transition{PromotionState::kWaiting, PromotionState::kChecking},
    Transition{PromotionState::kWaiting, PromotionState::kRejected},
    Transition{PromotionState::kWaiting, PromotionState::kSuperseded},
    Transition{PromotionState::kWaiting, PromotionState::kStale},
    Transition{PromotionState::kWaiting, PromotionState::kExpired},
    Transition{PromotionState::kWaiting, PromotionState::kCancelled},
    Transition{PromotionState::kChecking, PromotionState::kWaiting},
    Transition{PromotionState::kChecking, PromotionState::kRejected},
    Transition{PromotionState::kChecking, PromotionState::kApplying},
    Transition{PromotionState::kApplying, PromotionState::kVerifying},
    Transition{PromotionState::kApplying, PromotionState::kRollingBack},
    Transition{PromotionState::kVerifying, PromotionState::kSoaking},
    Transition{PromotionState::kVerifying, PromotionState::kRollingBack},
    Transition{PromotionState::kSoaking, PromotionState::kPromoted},
    Transition{PromotionState::kSoaking, PromotionState::kRollingBack},
    Transition{PromotionState::kRollingBack, PromotionState::kRolledBack},
    Transition{PromotionState::kRollingBack, PromotionState::kStuck},
};

constexpr bool isLegal(PromotionState from, PromotionState to) {
    for (const Transition& edge : kTransitions)
        if (edge.from == from && edge.to == to) return true;
    return false;
}

/// No edge leads out of it.
constexpr bool isFinal(PromotionState state) {
    for (const Transition& edge : kTransitions)
        if (edge.from == state) return false;
    return true;
}

/// Why an edge was taken. Errored is not failed: a check that could not judge says nothing about the change.
enum class Cause { kProceeded, kPassed, kFailed, kErrored, kTimedOut, kCancelled, kInconclusive };

inline constexpr std::array kCauses{
    Name<Cause>{Cause::kProceeded, "proceeded"},
    Name<Cause>{Cause::kPassed, "passed"},
    Name<Cause>{Cause::kFailed, "failed"},
    Name<Cause>{Cause::kErrored, "errored"},
    Name<Cause>{Cause::kTimedOut, "timed-out"},
    Name<Cause>{Cause::kCancelled, "cancelled"},
    Name<Cause>{Cause::kInconclusive, "inconclusive"},
};

/// One row per attempt; a retry or an undo is a new one.
struct Promotion {
    std::int64_t id = 0;
    std::int64_t project = 0;
    std::int64_t change = 0;
    std::int64_t revision = 1;
    std::string stage;
    PromotionState state = PromotionState::kQueued;
    Cause cause = Cause::kProceeded;
    Digest rules;                        ///< the rules it is judged by
    std::optional<std::int64_t> undoes;  ///< the finished promotion it takes back
    Time openedAt{};
    Time movedAt{};
    Moment opened;                    ///< openedAt, as a deadline needs it
    std::optional<std::string> goal;  ///< the stage up to which somebody wants the change; nothing: nobody said
    std::int64_t place = 0;           ///< in the queue of its stage: its id, or that of what it took the place of
    // Known once it is about to touch its target:
    std::optional<std::string> target;
    std::optional<Digest> checkpoint;      ///< an object
    std::optional<Digest> tree;            ///< the tree that its checks looked at
    std::optional<std::int64_t> previous;  ///< the promotion that brought what the stage held before
    std::optional<Digest> previousTree;    ///< what the stage held before; nothing: it was empty
    std::optional<Digest> steps;           ///< an object: what runs around the switch; nothing: nothing does
    std::optional<std::int64_t> paths;     ///< how many it was to write; nothing: it is not known
    // Known once it waited: what people are asked about.
    std::optional<Digest> base;      ///< the tree that the stage held then
    std::optional<Digest> evidence;  ///< what its checks had proven; nothing: they had not run
};

/// What a stage holds.
struct StageState {
    std::optional<std::int64_t> promotion;  ///< that brought it; nothing: it was adopted, or is empty
    std::optional<Digest> tree;
    std::optional<std::int64_t> stuck;      ///< closed until somebody looked: this one's rollback failed
    std::optional<std::int64_t> attention;  ///< this one's rollback left somebody's edits in place

    bool operator==(const StageState&) const = default;
};

}  // namespace gradus
