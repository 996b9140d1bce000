#pragma once

#include <array>
#include <string>

#include "policies/gate/facts.h"
#include "policies/language/value.h"
#include "store/model/names.h"

namespace gradus {

/// What a change could cost, told from its size and its paths alone.
enum class Risk { kLow, kMedium, kHigh };

inline constexpr std::array kRisks{
    Name<Risk>{Risk::kLow, "low"},
    Name<Risk>{Risk::kMedium, "medium"},
    Name<Risk>{Risk::kHigh, "high"},
};

struct RiskAnswer {
    Risk risk = Risk::kLow;
    Risk personAbove = Risk::kMedium;  ///< what the policy lets machines do
    std::string reason;                ///< what made it so: "60 files, more than 50"
};

/// High: more files or lines than the policy says, or a path of its `paths`. Medium: more than a tenth of either, a
/// deleted file, or bytes that have no lines. Low: the rest. `demand` is a table of the section `risk`.
RiskAnswer assessRisk(const ChangeFacts& change, const Value& demand);

}  // namespace gradus
