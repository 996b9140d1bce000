#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policies/gate/gates.h"

namespace gradus {

/// What is asked of those who consent.
struct ConsentDemand {
    std::int64_t count = 1;
    std::string role = {};  ///< empty: none is needed
    Milliseconds expires = std::chrono::hours(24);
    bool notSponsor = false;
    bool notPromoter = false;
};

/// Who met it.
struct Consent {
    std::vector<std::string> people;
    std::vector<std::string> expired;  ///< those who did, too long ago
    bool isEnough = false;
    std::optional<Time> lapses;  ///< when it is not enough any more
    std::vector<ApprovalUse> uses;
};

/// Why the approval says nothing here, whatever is demanded; empty if it does. It never comes from a machine or from
/// who made the change, is for exactly this subject, and is used once.
std::string whyItDoesNotCount(const Facts& facts, const ApprovalFact& approval);

Consent consentTo(const GateInput& input, const ConsentDemand& demand);

/// Made by people alone, every revision of it, and promoted by one by hand.
bool isByPeople(const Facts& facts);
bool isMaker(const Facts& facts, const Actor& actor);

/// Who could meet the demand: "role sre, but not the author".
std::string whoMayConsent(const ConsentDemand& demand);

/// Open if one who did not make it consents, closed until then; `asked` is what the reason ends in while it is closed.
GateAnswer consentGate(const GateInput& input, Gate gate, const std::string& reason, const std::string& rule,
                       std::string_view asked = {});

/// Something that a machine does not decide: open if people made and promote it, or if one consents; closed until then.
GateAnswer personGate(const GateInput& input, Gate gate, const std::string& reason, const std::string& rule);

}  // namespace gradus
