#pragma once

#include <string>

#include "policies/gate/gate.h"

namespace gradus {

/// All that a gate may look at.
struct GateInput {
    const Facts& facts;
    const Stage& stage;
    const Pipeline& pipeline;
    const Zones& zones;
    Time now;
};

// One function and one file for each gate; gate.cpp has the table of them. None knows of another.
GateAnswer haltGate(const GateInput& input);
GateAnswer quarantineGate(const GateInput& input);
GateAnswer vetoGate(const GateInput& input);
GateAnswer holdGate(const GateInput& input);
GateAnswer pinGate(const GateInput& input);
GateAnswer verifiedGate(const GateInput& input);
GateAnswer windowGate(const GateInput& input);
GateAnswer queueGate(const GateInput& input);
GateAnswer freshnessGate(const GateInput& input);
GateAnswer evidenceGate(const GateInput& input);
GateAnswer ceilingGate(const GateInput& input);
GateAnswer rulesGate(const GateInput& input);
GateAnswer protectedPathsGate(const GateInput& input);
GateAnswer hazardsGate(const GateInput& input);
GateAnswer testsGate(const GateInput& input);
GateAnswer riskGate(const GateInput& input);
GateAnswer budgetGate(const GateInput& input);
GateAnswer aloneGate(const GateInput& input);
GateAnswer stepsGate(const GateInput& input);
GateAnswer approvalsGate(const GateInput& input);

GateAnswer open(Gate gate, std::string reason, std::string rule = {});
GateAnswer closed(Gate gate, std::string reason, std::string rule = {});
GateAnswer notApplicable(Gate gate, std::string reason);

/// Where the policy of the stage says it: "gradus.toml:12:9"; empty for a key without a value.
std::string ruleOf(const GateInput& input, std::string_view key);

/// "anna", "agent fixer".
std::string actorText(const Actor& actor);
/// "a, b and 3 more"; `most` are named.
std::string listText(const std::vector<std::string>& names, std::size_t most = 3);
/// "2026-03-06 15:00 UTC"; seconds matter to programs.
std::string minuteText(Time time);
/// " (reason)", or nothing.
std::string inBrackets(const std::string& reason);

}  // namespace gradus
