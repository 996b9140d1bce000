#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "store/anchor.h"
#include "store/audit_query.h"
#include "store/audit_verify.h"
#include "store/chained_fields.h"
#include "store/model/actor.h"
#include "store/sql.h"

namespace gradus {

/// Whose texts are exported. The events themselves are exported without a gap from the first of these to the last, or
/// their hashes could not be followed.
struct ExportSelection {
    std::optional<std::int64_t> since;  ///< milliseconds since 1970, inclusive
    std::optional<std::int64_t> until;  ///< exclusive
    std::optional<std::int64_t> change;
    std::optional<std::string> stage;

    bool holds(const ChainedFields& fields) const;
};

/// The first line of an export; docs/audit-format.md has every field.
struct ExportHeader {
    std::string store;
    std::vector<std::string> publicKeys;  ///< in hexadecimal
    std::int64_t first = 0;
    std::int64_t last = 0;
    Digest before;     ///< the hash of the event before the first
    AnchorPoint head;  ///< where the log ended then
    ExportSelection selection;
    std::vector<AnchorPoint> anchors;  ///< within the range
    std::vector<SignedPoint> signedPoints;
    std::vector<std::pair<ActorId, Actor>> actors;  ///< of the selected events, for people
    Time at{};

    std::string encode() const;
    /// Throws Error(kDamaged) saying what is missing or wrong.
    static ExportHeader decode(std::string_view line);
};

/// What came of an export.
struct AuditExport {
    ExportHeader header;
    std::int64_t events = 0;
    std::int64_t payloads = 0;
    std::int64_t redacted = 0;
    std::int64_t withheld = 0;  ///< texts of events that were not selected
    std::uintmax_t bytes = 0;
};

/// Writes the selected events as lines of JSON that can be verified without the database. The file is whole and durable
/// or not there; one that is there is never replaced (Error(kUsage)). Throws Error(kNotFound) if nothing is selected
/// and Error(kDamaged) if the log is not whole.
AuditExport exportAudit(Sql& sql, const AnchorSink& anchor, const ExportSelection& selection, Time now,
                        const std::filesystem::path& file, const VerifyProgress& progress);

}  // namespace gradus
