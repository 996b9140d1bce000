#include <fmt/format.h>

#include "policies/gate/consent.h"

namespace gradus {

namespace {

ConsentDemand demandOf(const Value& entry) {
    ConsentDemand demand;
    for (const auto& [key, value] : entry.fields) {
        if (key == "count") demand.count = value.number;
        if (key == "role") demand.role = value.text;
        if (key == "expires") demand.expires = Milliseconds(value.number);
        if (key != "not") continue;
        for (const Value& item : value.items) (item.text == "sponsor" ? demand.notSponsor : demand.notPromoter) = true;
    }
    return demand;
}

std::string shortage(const ConsentDemand& demand, const Consent& consent) {
    std::string who = listText(consent.people);
    if (!consent.isEnough && !consent.expired.empty())
        who += (who.empty() ? "" : "; ") + ("expired: " + listText(consent.expired));
    return fmt::format("{} of {} approvals{}{}", consent.people.size(), demand.count,
                       demand.role.empty() ? "" : " of the role " + demand.role, inBrackets(who));
}

}  // namespace

/// Every entry of `approvals` is met; one person can meet several.
GateAnswer approvalsGate(const GateInput& input) {
    const Value* approvals = input.stage.policy.settings.find("approvals");
    if (approvals == nullptr || approvals->items.empty())
        return notApplicable(Gate::kApprovals, "the policy asks for no approval");
    GateAnswer shut = closed(Gate::kApprovals, {});
    GateAnswer passed = open(Gate::kApprovals, {}, approvals->origin.text());
    for (const Value& entry : approvals->items) {
        const ConsentDemand demand = demandOf(entry);
        const Consent consent = consentTo(input, demand);
        std::string& reason = consent.isEnough ? passed.reason : shut.reason;
        for (GateAnswer* answer : {&shut, &passed})
            answer->uses.insert(answer->uses.end(), consent.uses.begin(), consent.uses.end());
        reason += (reason.empty() ? "" : "; ") + shortage(demand, consent);
        if (consent.isEnough) {
            if (!passed.next || consent.lapses < passed.next) passed.next = consent.lapses;
            continue;
        }
        if (shut.rule.empty()) shut.rule = entry.origin.text();
        shut.unblock.push_back(whoMayConsent(demand));
    }
    if (shut.reason.empty()) return passed;
    shut.since = input.facts.openedAt;
    shut.needsPerson = true;
    return shut;
}

}  // namespace gradus
