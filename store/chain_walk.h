#pragma once

#include <set>
#include <string>
#include <vector>

#include "store/audit_log.h"
#include "store/audit_verify.h"

namespace gradus {

/// What the walk learns beside the chain itself.
struct Learned {
    std::string storeId;
    std::set<std::string> publicKeys;  ///< in hexadecimal, as the log itself names them
    std::set<std::int64_t> redacted;
};

/// A stretch of the log whose links are checked while the next one is read.
struct ChainBatch;

/// The walk over the chain, from event 1 on: does each hash follow from its event and the hash before it? One thread
/// reads, another hashes; what is found is what a walk event by event finds.
class ChainWalk {
  public:
    ChainWalk(Sql& sql, const AnchorContent* anchor) : sql_(sql), anchor_(anchor) {}

    AuditVerdict run(const VerifyProgress& progress);

    const Learned& learned() const { return learned_; }
    const AnchorPoint& head() const { return head_; }
    std::int64_t headBatch() const { return headBatch_; }
    /// The anchored hash that the walk met first and that differs from the chain's, if any.
    const std::optional<AnchorPoint>& contradiction() const { return contradiction_; }

  private:
    enum class Pace { kOn, kEnd, kStumbled };

    AuditVerdict bad(Tampering kind, std::int64_t seq, std::string detail);
    Pace walkBatches();
    void accept(const ChainBatch& batch);
    bool walkChunk();
    bool takeRow(const Sql::Call& row);
    void learn(std::string_view kind, std::string_view body);
    void diagnose();
    void compareWithAnchor();

    Sql& sql_;
    const AnchorContent* anchor_;
    std::size_t nextPoint_ = 0;
    ChainHasher hasher_;
    AnchorPoint head_;
    std::int64_t headBatch_ = 0;
    std::optional<AnchorPoint> contradiction_;
    bool broken_ = false;
    Learned learned_;
    AuditVerdict verdict_;
};

}  // namespace gradus
