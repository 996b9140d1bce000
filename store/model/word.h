#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/model/actor.h"
#include "store/model/clock.h"
#include "store/model/digest.h"

namespace gradus {

// What people said about changes and stages. Reasons are free text; nothing once redacted.

/// A yes to one revision of a change in one stage, and all that it is bound to.
struct Approval {
    std::int64_t id = 0;
    std::int64_t project = 0;
    std::int64_t change = 0;
    std::int64_t revision = 1;
    std::string stage;
    Digest rules;
    Digest base;                     ///< the tree that the stage held
    std::optional<Digest> evidence;  ///< nothing: given before anything was checked
    std::vector<std::string> roles;  ///< held when it was given
    std::optional<std::string> reason;
    // Known once it is given:
    ActorId by = 0;
    Time at{};
    bool withdrawn = false;
    std::optional<std::int64_t> usedBy;  ///< the promotion that applied something on its strength
    Moment given = {};                   ///< `at`, as a deadline needs it
    std::int64_t seq = 0;
};

/// Something that must not go on: a stage, a change, or a change in a stage. What is not named is not limited.
struct Hold {
    std::int64_t project = 0;
    std::optional<std::string> stage;
    std::optional<std::int64_t> change;
    bool onlyMachines = false;
    std::optional<std::int64_t> promotion;  ///< whose failure it was; nothing: a person's own
    std::optional<Time> until;
    std::optional<std::string> reason;
    // Known once it is recorded:
    std::optional<Digest> patch;  ///< of the change
    ActorId by = 0;
    Time at{};
    std::int64_t seq = 0;
};

/// A stage that shall keep one change.
struct Pin {
    std::int64_t project = 0;
    std::string stage;
    std::int64_t change = 0;
    std::optional<std::int64_t> revision;  ///< nothing: any
    std::optional<std::string> reason;
    ActorId by = 0;
    Time at{};
};

/// A no to these bytes, and to the same patch on whatever base.
struct Veto {
    std::int64_t seq = 0;  ///< of its event, once it is recorded
    std::int64_t project = 0;
    std::int64_t change = 0;  ///< whose it was
    Digest changeSet;
    Digest patch;
    std::optional<std::string> stage;  ///< nothing: any
    std::optional<std::string> reason;
    ActorId by = 0;
    Time at{};
};

struct Halt {
    std::optional<std::int64_t> project;  ///< nothing: every one
    std::optional<std::string> reason;
    ActorId by = 0;
    Time at{};
};

/// A person's no to one revision in one stage.
struct Rejection {
    std::int64_t change = 0;
    std::int64_t revision = 1;
    std::string stage;
    std::optional<std::int64_t> promotion;  ///< that waited for an answer
    std::optional<std::string> reason;
};

/// A gate that does not count, for one promotion.
struct GateOverride {
    std::int64_t promotion = 0;
    std::string gate;
    std::vector<std::string> roles;  ///< held when it was given
    std::optional<std::string> reason;
    ActorId by = 0;
    Time at{};
    std::string about = {};  ///< what exactly it is a yes to, by its digest; empty: the gate as such
};

/// Who made one revision of a change, and for whom.
struct RevisionMaker {
    ActorId actor = 0;
    std::optional<ActorId> sponsor;
    bool operator==(const RevisionMaker&) const = default;
};

}  // namespace gradus
