#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/model/actor.h"
#include "store/model/clock.h"
#include "store/model/digest.h"

namespace gradus {

/// What somebody took for what a stage holds.
struct Adoption {
    std::int64_t project = 0;
    std::string stage;
    std::optional<Digest> tree;           ///< nothing: nothing of ours is there
    bool vouched = false;                 ///< on a person's word, where nobody can look
    std::optional<std::int64_t> brought;  ///< the promotion that brought the tree, by that word
    std::optional<std::int64_t> settles;  ///< the promotion that had closed the stage, or left edits in it
    std::optional<std::int64_t> uid;      ///< of the process that spoke; nothing: an older release recorded it
    // Known once it is recorded:
    std::int64_t seq = 0;
    ActorId by = 0;
    Time at{};
};

}  // namespace gradus
