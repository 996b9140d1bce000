#pragma once

#include <cstdint>
#include <string>

#include "store/anchor.h"
#include "store/audit_verify.h"
#include "store/sql.h"

namespace gradus {

struct ChainFault {
    Tampering kind = Tampering::kAltered;
    std::int64_t seq = 0;
    std::string detail;
};

/// The chain breaks right after `good`: says what was done to it, by trying which story makes the events around the
/// break fit again. What fits no story is called altered.
ChainFault diagnoseChain(Sql& sql, const AnchorPoint& good, const AnchorContent* anchor);

}  // namespace gradus
