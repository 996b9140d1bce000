#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "store/anchor.h"
#include "store/model/names.h"
#include "store/sql.h"

namespace gradus {

/// What is the matter with an audit log. One word each, in the order in which they are looked for.
enum class Tampering {
    kNone,
    kAltered,          ///< an event's or payload's bytes are not those that were recorded
    kDeleted,          ///< events, or a payload without a redaction, are missing from the middle
    kReordered,        ///< events stand in another order
    kInserted,         ///< an event that was never recorded stands among them
    kTruncated,        ///< the newest events are gone: the anchor remembers later ones
    kRewritten,        ///< the chain is whole, but not the one that was anchored or signed
    kStateMismatch,    ///< the events are whole, but a state table does not follow from them
    kUnanchoredSince,  ///< nothing outside the database vouches for the events from here on
};

inline constexpr std::array kTamperings{
    Name<Tampering>{Tampering::kNone, "ok"},
    Name<Tampering>{Tampering::kAltered, "altered"},
    Name<Tampering>{Tampering::kDeleted, "deleted"},
    Name<Tampering>{Tampering::kReordered, "reordered"},
    Name<Tampering>{Tampering::kInserted, "inserted"},
    Name<Tampering>{Tampering::kTruncated, "truncated"},
    Name<Tampering>{Tampering::kRewritten, "rewritten"},
    Name<Tampering>{Tampering::kStateMismatch, "state-mismatch"},
    Name<Tampering>{Tampering::kUnanchoredSince, "unanchored-since"},
};

struct AuditVerdict {
    Tampering kind = Tampering::kNone;
    std::int64_t seq = 0;     ///< the first bad event; 0 when all is well
    std::string detail;       ///< one sentence for people
    std::int64_t events = 0;  ///< how many were looked at
    std::int64_t payloads = 0;
    std::int64_t redacted = 0;
    std::int64_t signatures = 0;
    std::int64_t signedThrough = 0;  ///< the last event below a signature
    /// Events of the last commit that the anchor does not know yet: a crash between the two explains those.
    std::int64_t notYetAnchored = 0;
};

/// Told how many events are done, every so often.
using VerifyProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Walks the chain alone: hashes, order, gaps. The fast half of verifyAudit.
AuditVerdict verifyChain(Sql& sql, const VerifyProgress& progress = {});

/// Everything: chain, payloads, anchor, signatures, and the state tables against a rebuild from the events. Reads
/// only. Damage that SQLite itself reports comes as an Error.
AuditVerdict verifyAudit(Sql& sql, const AnchorSink& anchor, const VerifyProgress& progress = {});

}  // namespace gradus
