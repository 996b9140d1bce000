#pragma once

#include <filesystem>

#include "pipeline/service/service.h"

namespace gradus {

/// Which events' texts are wanted, and where to.
struct ExportWish {
    AuditRequest request;  ///< since, until, change and stage of it count
    std::filesystem::path file;
};

}  // namespace gradus
