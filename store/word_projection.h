#pragma once

#include "store/model/audit_event.h"
#include "store/sql.h"

namespace gradus {

/// What each event about people's words does to the state tables; called by project() alone.
void projectApprovalGiven(Sql& sql, const Event& event);
void projectApprovalWithdrawn(Sql& sql, const Event& event);
void projectApprovalUsed(Sql& sql, const Event& event);
void projectChangeRejected(Sql& sql, const Event& event);
void projectHeld(Sql& sql, const Event& event);
void projectReleased(Sql& sql, const Event& event);
void projectStagePinned(Sql& sql, const Event& event);
void projectStageUnpinned(Sql& sql, const Event& event);
void projectChangeVetoed(Sql& sql, const Event& event);
void projectVetoLifted(Sql& sql, const Event& event);
void projectHalted(Sql& sql, const Event& event);
void projectResumed(Sql& sql, const Event& event);
void projectGateOverridden(Sql& sql, const Event& event);

}  // namespace gradus
