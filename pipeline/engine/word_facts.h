#pragma once

#include <string>
#include <vector>

#include "policies/gate/facts.h"
#include "store/records.h"

namespace gradus {

/// Everyone whose patch the change is or was.
std::vector<Maker> makerFacts(const Records& records, std::int64_t change);

/// What people said about the change of `facts`, its promotion, the stage and the project.
void addWords(const Records& records, std::int64_t project, const std::string& stage, const Moment& now, Facts& facts);

/// An approval as the gates know it.
ApprovalFact approvalFact(const Records& records, const Approval& approval);

}  // namespace gradus
