#pragma once

#include "store/model/audit_event.h"
#include "store/sql.h"

namespace gradus {

/// What each event about a sandbox does to the state tables; called by project() alone.
void projectSandboxCreated(Sql& sql, const Event& event);
void projectSandboxKept(Sql& sql, const Event& event);
void projectSandboxSnapshotted(Sql& sql, const Event& event);
void projectSandboxRestored(Sql& sql, const Event& event);
void projectSandboxForked(Sql& sql, const Event& event);
void projectSandboxSquashed(Sql& sql, const Event& event);
void projectSandboxWritten(Sql& sql, const Event& event);
void projectSandboxEnded(Sql& sql, const Event& event);
void projectSnapshotRemoved(Sql& sql, const Event& event);
void projectExecutionStarted(Sql& sql, const Event& event);
void projectExecutionFinished(Sql& sql, const Event& event);
void projectExecutionLost(Sql& sql, const Event& event);

}  // namespace gradus
