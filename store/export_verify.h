#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "store/audit_export.h"
#include "store/audit_verify.h"

namespace gradus {

/// What was kept elsewhere, and is believed more than the file.
struct ExportWitness {
    std::optional<std::string> publicKey;  ///< 32 bytes: signatures count only if they are this key's
    std::optional<AnchorContent> anchor;   ///< a copy of the anchor
};

/// What is the matter with an export, in the words of a log's verification. Beyond a log's own: `truncated` if it ends
/// before its header says, `deleted` for a text that should be there.
struct ExportVerdict {
    AuditVerdict audit;
    ExportHeader header;
    std::int64_t withheld = 0;           ///< texts that the selection left out
    std::int64_t redactedElsewhere = 0;  ///< by an event after the last one here: only the file says so
    std::int64_t anchoredThrough = 0;    ///< the last event that an anchor point fits
};

/// Reads the file line by line; neither a store nor a key is needed. Throws Error for a file that cannot be read or is
/// no export.
ExportVerdict verifyExport(const std::filesystem::path& file, const ExportWitness& witness,
                           const VerifyProgress& progress = {});

}  // namespace gradus
