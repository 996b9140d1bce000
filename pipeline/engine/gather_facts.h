#pragma once

#include <optional>

#include "pipeline/engine/engine.h"
#include "policies/gate/facts.h"
#include "stages/changes/tree_reader.h"

namespace gradus {

/// Where facts come from: what is remembered, now or as it was once, and who asks when.
struct FactSources {
    const Records& records;
    const Objects& objects;
    Actor promoter;
    Time now{};
    Moment moment = {};  ///< the same, as a deadline needs it; without a time: not known
};

/// As it is now, asked by whoever the engine acts for.
FactSources sourcesNow(const EngineParts& parts);

/// What the gates of a stage are told about one change: everything that is remembered about it.
struct FactsRequest {
    const EngineProject& project;
    FactSources sources;
    const Stage& stage;
    const Change& change;  ///< the revision that is promoted
    const ChangeSet& changes;
    std::int64_t promotion = 0;  ///< 0: not opened yet
    Digest base;                 ///< the tree that the stage holds
    std::optional<CheckedFact> checked;
    const TreeReader* there = nullptr;  ///< the tree that the stage holds, where it can be looked at
};

Facts gatherFacts(const FactsRequest& request);

}  // namespace gradus
