#include <fmt/format.h>

#include "policies/gate/consent.h"
#include "policies/risk/risk.h"

namespace gradus {

/// The change is not riskier than a machine may be, or a person answers for it.
GateAnswer riskGate(const GateInput& input) {
    const Value* demand = input.stage.policy.settings.find("risk");
    if (demand == nullptr) return notApplicable(Gate::kRisk, "the policy does not ask for the risk");
    const RiskAnswer risk = assessRisk(input.facts.change, *demand);
    const std::string reason = fmt::format("its risk is {} ({})", nameOf(kRisks, risk.risk), risk.reason);
    if (risk.risk <= risk.personAbove) return open(Gate::kRisk, reason, demand->origin.text());
    return personGate(input, Gate::kRisk, reason, demand->origin.text());
}

}  // namespace gradus
