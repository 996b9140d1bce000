#include <algorithm>

#include "policies/gate/consent.h"

namespace gradus {

namespace {

std::ptrdiff_t place(const Pipeline& pipeline, const std::string& stage) {
    return std::find_if(pipeline.stages.begin(), pipeline.stages.end(),
                        [&](const Stage& candidate) { return candidate.name == stage; }) -
           pipeline.stages.begin();
}

}  // namespace

/// The stage is not above the one up to which it may climb by itself, or a person answers for it. A last stage that the
/// pipeline does not have lets it climb nowhere.
GateAnswer ceilingGate(const GateInput& input) {
    const auto& climb = input.facts.climb;
    if (!climb) return notApplicable(Gate::kCeiling, "nothing limits how far it climbs");
    const bool isKnown = input.pipeline.findStage(climb->stage) != nullptr;
    if (isKnown && place(input.pipeline, input.stage.name) <= place(input.pipeline, climb->stage))
        return open(Gate::kCeiling, "it may climb up to " + climb->stage, climb->rule);
    return personGate(input, Gate::kCeiling, "by itself it climbs no further than " + climb->stage, climb->rule);
}

}  // namespace gradus
