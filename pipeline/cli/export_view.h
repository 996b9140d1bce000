#pragma once

#include "pipeline/cli/context.h"
#include "store/audit_verify.h"

namespace gradus {

/// A verdict's members, for `data`.
Json verdictJson(const AuditVerdict& verdict);
/// Counts up on a terminal while a long verification runs; says nothing elsewhere.
VerifyProgress progressLine(Context& context, std::string_view done);
/// `audit verify --export FILE`: nothing but the file is looked at, and what was kept elsewhere.
Result verifyExportFile(Context& context, const std::string& file);

}  // namespace gradus
