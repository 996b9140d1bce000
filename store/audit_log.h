#pragma once

#include <optional>
#include <string_view>

#include "store/anchor.h"
#include "store/event_index.h"
#include "store/model/audit_event.h"
#include "store/model/canonical.h"
#include "store/sql.h"

namespace gradus {

/// Computes the chain: each event's hash covers the hash before it and all its own fields (docs/audit-format.md).
class ChainHasher {
  public:
    Digest link(const Digest& previous, const ChainedFields& fields);
    /// What link() hashes; valid until the next call.
    const std::string& bytes(const Digest& previous, const ChainedFields& fields);

  private:
    Canonical canonical_{"gradus.event.1"};
    Hasher hasher_;
};

/// What the chain holds of a payload. The salt goes when the payload goes, so that nobody can find a redacted text by
/// hashing guesses.
Digest payloadDigest(std::string_view salt, std::string_view text);

/// What every reader of the event table asks for: the columns in ChainedFields' order, then the hash.
inline constexpr std::string_view kEventSelect =
    "select seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash from event ";
/// Reads those columns. Borrows from the row.
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
    explicit AuditLog(Sql& sql) : sql_(sql), indexer_(sql) {}
    /// `head` moves on to the new event.
    Event append(EventDraft draft, Time at, std::int64_t batch, std::string_view salt, ChainHead& head);
    /// Before the transaction is committed: indexes what was appended.
    void finish() { indexer_.flush(); }

  private:
    Sql& sql_;
    EventIndexer indexer_;
    ChainHasher hasher_;
};

/// An event from its row and its payload, if it still has one.
Event eventFrom(const ChainedFields& fields, std::optional<std::string> payload);

}  // namespace gradus
