#pragma once

#include <optional>
#include <string_view>

#include "store/anchor.h"
#include "store/model/audit_event.h"
#include "store/model/canonical.h"
#include "store/sql.h"

namespace gradus {

/// One event's chained fields as they stand in the table, borrowed.
struct ChainedFields {
    std::int64_t seq = 0;
    std::int64_t at = 0;
    std::int64_t batch = 0;
    std::string_view kind;
    std::optional<std::int64_t> actor;
    std::optional<std::int64_t> project;
    std::optional<std::int64_t> change;
    std::optional<std::int64_t> promotion;
    std::optional<std::string_view> stage;
    std::string_view body;
    std::optional<std::string_view> payloadDigest;  ///< 32 bytes
};

/// Computes the chain: each event's hash covers the hash before it and all its own fields (docs/audit-format.md).
class ChainHasher {
  public:
    Digest link(const Digest& previous, const ChainedFields& fields);

  private:
    Canonical canonical_{"gradus.event.1"};
    Hasher hasher_;
};

/// What the chain holds of a payload. The salt goes when the payload goes, so that nobody can find a redacted text by
/// hashing guesses.
Digest payloadDigest(std::string_view salt, std::string_view text);

/// The columns every reader of the event table asks for, in ChainedFields' order, then the hash.
inline constexpr std::string_view kEventColumns =
    "seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash";
/// Reads those columns, starting at column 0. Borrows from the row.
ChainedFields chainedFields(const Sql::Call& row);
inline constexpr int kHashColumn = 11;

/// Where the log ends. Empty log: seq 0, an all-zero hash.
struct ChainHead {
    AnchorPoint point;
    std::int64_t batch = 0;
    Time at{};
};
ChainHead chainHead(Sql& sql);

/// Appends events to the table. Runs inside the caller's transaction.
class AuditLog {
  public:
    explicit AuditLog(Sql& sql) : sql_(sql) {}
    /// `head` moves on to the new event.
    Event append(EventDraft draft, Time at, std::int64_t batch, std::string_view salt, ChainHead& head);

  private:
    Sql& sql_;
    ChainHasher hasher_;
};

/// An event from its row (kEventColumns) and its payload, if it still has one.
Event eventFromRow(const Sql::Call& row, std::optional<std::string> payload);

}  // namespace gradus
