#pragma once

#include "policies/gate/gates.h"

namespace gradus {

/// The role whose people may override: [role.override], or the system group of that name.
constexpr const char* kOverrideRole = "override";

/// What a person consents to who lets the irreversible steps of a stage run: their digest; empty where there are none.
std::string irreversibleDigest(const Stage& stage);

/// What an override of the gate, given now, is about: the steps, or the rules that closed it.
std::string overrideSubject(const GateInput& input, Gate gate);

/// Why that person's word does not open the gate here; empty if it does.
std::string whyNotOverridden(const GateInput& input, Gate gate, const OverrideFact& fact);

/// Opens a closed gate that somebody overrode for this promotion: a person who holds the role, on a gate that the
/// policy lists in `overridable`. Consent to a change that one made oneself cannot be had this way either.
void applyOverride(const GateInput& input, GateAnswer& answer);

}  // namespace gradus
