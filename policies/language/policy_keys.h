#pragma once

#include "policies/language/keys.h"

namespace gradus {

// The sections that say what is demanded; keys.cpp has those that say where and what runs.
Section policySection();
Section policyCheckSection();
Section approvalSection();
Section riskSection();
Section budgetSection();

}  // namespace gradus
