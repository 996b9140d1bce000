#pragma once

#include "store/model/audit_event.h"
#include "store/model/promotion.h"
#include "store/sql.h"

namespace gradus {

/// What a promotion's step means for its target and its stage.
void projectStageMove(Sql& sql, const Event& event, PromotionState to);
void projectStageAdopted(Sql& sql, const Event& event);

}  // namespace gradus
