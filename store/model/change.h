#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/model/actor.h"
#include "store/model/change_set.h"
#include "store/model/clock.h"
#include "store/model/digest.h"

namespace gradus {

/// What somebody hands in: a change set and where it came from. The title and the labels are free text.
struct Submission {
    Digest changeSet;  ///< an object holding ChangeSet::encode()
    Digest base;       ///< BaseFingerprint::digest()
    Digest patch;      ///< identity of the patch itself, the same after a rebase
    std::string title;
    std::vector<std::string> labels;
    std::optional<ActorId> sponsor;  ///< the person an agent acts for
    std::string message{};           ///< what follows the title
    std::string author{};            ///< of the commit that it was: "Name <mail>"
    bool fromWorkTree = false;       ///< all that differed there from the commit that it was made on
    /// That it was made in, by whoever worked there; nothing: whoever hands it in made it.
    std::optional<std::int64_t> sandbox{};
};

/// A change as remembered: its lineage is its revisions, of which this names the latest.
struct Change {
    std::int64_t id = 0;
    std::int64_t project = 0;
    ActorId actor = 0;
    std::optional<ActorId> sponsor;
    std::int64_t revision = 1;
    Digest changeSet;
    Digest base;
    Digest patch;
    Time submittedAt{};
    std::optional<std::string> title;  ///< nothing once redacted
    std::string message{};             ///< empty, too
    std::string author{};              ///< empty, too
    std::vector<std::string> labels{};
};

}  // namespace gradus
