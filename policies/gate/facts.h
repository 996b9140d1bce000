#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/model/actor.h"
#include "store/model/clock.h"
#include "store/model/digest.h"

namespace gradus {

// What the gates are told. Plain values, in no particular order: whoever decides looks up nothing and remembers
// nothing.

/// Who made one revision of a change, and for whom.
struct Maker {
    Actor actor;
    std::optional<Actor> sponsor;  ///< the person an agent acts for
    bool operator==(const Maker&) const = default;
};

/// One path of the change. Lines are those of text files; -1 stands for bytes that have no lines.
struct TouchedPath {
    std::string path;
    bool wasThere = true;  ///< as a regular file, before
    bool isThere = true;   ///< as a regular file, afterwards
    std::int64_t added = 0;
    std::int64_t removed = 0;
    std::int64_t bytesBefore = 0;
    std::int64_t bytesAfter = 0;
    std::int64_t moreSkips = 0;  ///< of tests: how many more places switch one off (countSkips) than before
};

struct ChangeFacts {
    std::int64_t id = 0;
    std::int64_t revision = 1;
    Digest changeSet;
    Digest patch;               ///< the same after a rebase
    std::vector<Maker> makers;  ///< of this revision and of every one before it in the lineage
    std::vector<TouchedPath> paths;
    /// What the change brings that is not what it looks like, one sentence each: "'x' is a link to '/etc/shadow', …".
    std::vector<std::string> hazards;
};

/// What a consent is given for. All of it must be the same, or the consent is for something else.
struct Subject {
    std::int64_t change = 0;
    std::int64_t revision = 1;
    Digest rules;
    Digest base;                     ///< the tree that the stage holds
    std::optional<Digest> evidence;  ///< nothing: given before anything was checked, for whatever the checks then prove
    bool operator==(const Subject&) const = default;
};

struct ApprovalFact {
    std::int64_t id = 0;
    Actor by;
    std::vector<std::string> roles;  ///< held when it was given (rolesHeld)
    Time at{};
    Subject subject;
    std::optional<std::int64_t> usedBy;  ///< the promotion that applied something on its strength
    /// How late it is by all that happened since, whatever the clock shows now.
    Time known = Time::min();
};

/// The answer of an earlier stage about one revision. Of several the last one counts.
struct VerifiedFact {
    std::string stage;
    std::int64_t revision = 1;
    Time at{};
    std::optional<Time> revokedAt;  ///< by a failed re-check, a veto or tightened rules
    std::string revokedBecause;
    std::int64_t promotion = 0;  ///< that gave it: a clock may go back, these only grow
};

/// The before checks of this stage, all passed.
struct CheckedFact {
    Digest evidence;  ///< over the evidence of all of them
    Digest rules;
    Time at{};  ///< when the oldest of them was run
};

/// How the tree that the stage holds differs from the one that was checked.
enum class StageMoved {
    kNothing,
    kUnrelated,  ///< only files that the change does not touch
    kTouched,    ///< files that it touches, in a way that can be merged
    kConflict,
};

struct MovedFact {
    StageMoved moved = StageMoved::kNothing;
    std::vector<std::string> paths;
    std::optional<Time> at;  ///< when it was seen
};

/// Something that must not go on: a stage, a change, or a change in a stage. What is not named is not limited.
struct HoldFact {
    std::optional<std::string> stage;
    std::optional<std::int64_t> change;
    std::optional<Digest> patch;
    bool onlyMachines = false;  ///< after a rollback: automation does not try it again, a person may
    Actor by;
    Time at{};
    std::optional<Time> until;
    std::string reason;
};

/// A stage that shall keep one change.
struct PinFact {
    std::string stage;
    std::int64_t change = 0;
    std::optional<std::int64_t> revision;
    Actor by;
    Time at{};
    std::string reason;
};

/// Bytes, or a patch on whatever base, that shall never enter.
struct VetoFact {
    std::optional<Digest> changeSet;
    std::optional<Digest> patch;
    std::optional<std::string> stage;  ///< nothing: any
    Actor by;
    Time at{};
    std::string reason;
};

struct HaltFact {
    Actor by;
    Time at{};
    std::string reason;
    bool everywhere = false;  ///< of every project
};

/// The stage's target is neither before nor after, or nobody knows which.
struct StuckFact {
    std::int64_t promotion = 0;  ///< that left it so
    Time at{};
    std::optional<std::int64_t> undoes = {};  ///< what it was taking back; nothing: it was on its way in
    std::string reason = {};
};

/// Another promotion of the same target.
struct QueuedFact {
    std::int64_t promotion = 0;
    std::int64_t change = 0;
    std::int64_t revision = 1;
    Time openedAt{};
};

/// What happened in this stage without a person; times older than the budget's do not matter and may be left out.
struct SpentFact {
    std::vector<Time> promotions;
    std::vector<Time> rollbacks;
    std::vector<Time> failures = {};  ///< of this revision: its checks said no, newest first, whoever asked
};

/// The last stage that this change may reach without a person, and who said so.
struct ClimbFact {
    std::string stage;
    std::string rule;  ///< where it is written, or who asked
};

/// A person's word that one gate does not count, this once.
struct OverrideFact {
    std::int64_t promotion = 0;
    std::string gate;
    Actor by;
    std::vector<std::string> roles;
    Time at{};
    std::string reason;
    std::string about = {};  ///< what exactly it is a yes to; empty: the gate as such
};

struct Facts {
    std::int64_t promotion = 0;
    Time openedAt{};
    Actor promoter;  ///< who asked for the promotion
    ChangeFacts change;
    Digest rules;  ///< of the trusted rules in force, never of the change's own
    Digest base;   ///< the tree that the stage holds now
    std::optional<CheckedFact> checked;
    MovedFact moved;
    std::vector<VerifiedFact> verified;
    std::vector<ApprovalFact> approvals;
    std::vector<HoldFact> holds;
    std::vector<PinFact> pins;
    std::vector<VetoFact> vetoes;
    std::optional<HaltFact> halt;
    std::optional<StuckFact> stuck;
    std::vector<QueuedFact> ahead;    ///< those whose turn is before this one's; of many, the first few
    std::optional<QueuedFact> newer;  ///< a later revision of the same change, on its way to the same stage
    SpentFact spent;
    std::optional<ClimbFact> climb;
    std::vector<OverrideFact> overrides;
};

}  // namespace gradus
