#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/model/actor.h"
#include "store/model/change.h"
#include "store/model/word.h"

namespace gradus {

/// Who is asking, and what that is worth here.
struct WhoAmI {
    Actor actor;
    bool declared = false;           ///< by GRADUS_ACTOR, not by who is logged in
    std::string login;               ///< whose process it is
    std::vector<std::string> roles;  ///< under the rules in force
};

/// What somebody speaks about: a change, a stage, or a change in a stage.
struct Spoken {
    std::optional<Change> change;  ///< the revision that was named
    bool revisionNamed = false;
    std::optional<std::string> stage;
    std::optional<std::int64_t> promotion;  ///< if it was named by that
};

/// Something that closes a gate for others than one promotion.
struct WordInForce {
    std::string kind;  ///< "hold", "pin", "veto", "halt"
    std::string text;  ///< "production is held by ben (an audit)"
    std::optional<std::string> stage;
    std::optional<std::int64_t> change;
    std::string by;  ///< "person:ben"
    Time at{};
    std::optional<Time> until;
};

}  // namespace gradus
