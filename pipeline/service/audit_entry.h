#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "store/audit_query.h"

namespace gradus {

/// An audit query in the words of people; names are looked up by whoever answers it.
struct AuditRequest {
    AuditQuery query;
    std::optional<std::string> actor;
    std::optional<std::string> change;  ///< a handle
    std::optional<std::filesystem::path> projectDirectory;
};

struct AuditEntry {
    Event event;
    std::string actor;    ///< "agent:fixer"; empty if none
    std::string project;  ///< its path; empty if none
};

}  // namespace gradus
