#include "store/chain_diagnosis.h"

#include <vector>

#include "store/audit_log.h"

namespace gradus {

namespace {

constexpr std::int64_t kWindow = 64;

/// A row kept beyond its statement.
struct Kept {
    ChainedFields fields;
    std::string kind, body;
    std::optional<std::string> stage, payloadDigest;
    Digest hash;

    ChainedFields as(std::int64_t seq) const {
        ChainedFields out = fields;
        out.seq = seq;
        out.kind = kind;
        out.body = body;
        out.stage = stage;
        out.payloadDigest = payloadDigest;
        return out;
    }
};

Kept keep(const Sql::Call& row) {
    Kept kept;
    kept.fields = chainedFields(row);
    kept.kind = kept.fields.kind;
    kept.body = kept.fields.body;
    if (kept.fields.stage) kept.stage = std::string(*kept.fields.stage);
    if (kept.fields.payloadDigest) kept.payloadDigest = std::string(*kept.fields.payloadDigest);
    if (const auto hash = Digest::fromBytes(row.view(kHashColumn))) kept.hash = *hash;
    return kept;
}

class Diagnosis {
  public:
    Diagnosis(Sql& sql, const AnchorPoint& good, const AnchorContent* anchor) : good_(good), anchor_(anchor) {
        auto row =
            sql("select seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash "
                "from event "
                "where seq > ? order by seq limit ?",
                good.seq, kWindow);
        while (row.step()) rows_.push_back(keep(row));
    }

    ChainFault run() {
        const std::int64_t next = good_.seq + 1;
        if (rows_.front().fields.seq > next && !isBeyondAnchor(rows_.front().fields.seq))
            return fault(Tampering::kDeleted, next, "events {} to {} are missing", rows_.front().fields.seq - 1);
        if (anotherRowFitsHere()) return fault(Tampering::kReordered, next, "event {} stands in another place");
        if (const auto skipped = rowsBeforeTheRealOne())
            return fault(Tampering::kInserted, next,
                         skipped == 1 ? "an event that was never recorded stands at {}"
                                      : "events that were never recorded stand from {} on");
        if (rowsSwappedWithTheirHashes()) return fault(Tampering::kReordered, next, "event {} stands in another place");
        if (laterRowsAreShifted())
            return fault(Tampering::kDeleted, next, "event {} is missing and the later ones were renumbered");
        if (isBeyondAnchor(rows_.front().fields.seq) && isLast())
            return fault(Tampering::kInserted, rows_.front().fields.seq, "event {} was never recorded");
        if (rows_.front().fields.seq > next)
            return fault(Tampering::kDeleted, next, "events {} to {} are missing", rows_.front().fields.seq - 1);
        return fault(Tampering::kAltered, next, "event {} is not the one that was recorded");
    }

  private:
    template <typename... Args>
    ChainFault fault(Tampering kind, std::int64_t seq, const char* format, const Args&... args) const {
        return {kind, seq, fmt::format(fmt::runtime(format), seq, args...)};
    }

    bool fits(const Digest& previous, const Kept& row, std::int64_t seq, const Digest& hash) {
        return hasher_.link(previous, row.as(seq)) == hash;
    }

    bool isLast() const { return rows_.size() < kWindow; }
    bool isBeyondAnchor(std::int64_t seq) const {
        return anchor_ != nullptr && !anchor_->points.empty() && seq > anchor_->points.back().seq;
    }

    /// Contents swapped, hashes left in place: another row's content gives this place's hash.
    bool anotherRowFitsHere() {
        for (std::size_t i = 1; i < rows_.size(); ++i)
            if (fits(good_.hash, rows_[i], good_.seq + 1, rows_.front().hash)) return true;
        return false;
    }

    /// The event that belongs here stands further down, under its own hash, with all behind it moved along: everything
    /// before it was put in. Zero if not so.
    std::size_t rowsBeforeTheRealOne() {
        for (std::size_t i = 1; i < rows_.size(); ++i) {
            if (!fits(good_.hash, rows_[i], good_.seq + 1, rows_[i].hash)) continue;
            const bool restFollows =
                i + 1 >= rows_.size() || fits(rows_[i].hash, rows_[i + 1], good_.seq + 2, rows_[i + 1].hash);
            return restFollows ? i : 0;
        }
        return 0;
    }

    /// The event that belongs here stands further down, but what followed it does not follow it there.
    bool rowsSwappedWithTheirHashes() {
        for (std::size_t i = 1; i < rows_.size(); ++i)
            if (fits(good_.hash, rows_[i], good_.seq + 1, rows_[i].hash)) return true;
        return false;
    }

    /// From here on the rows follow each other, only under lower numbers than they had.
    bool laterRowsAreShifted() {
        if (rows_.size() < 2) return shiftedAgainstAnchor();
        for (std::int64_t shift = 1; shift <= kWindow; ++shift)
            if (fits(rows_[0].hash, rows_[1], rows_[1].fields.seq + shift, rows_[1].hash)) return true;
        return shiftedAgainstAnchor();
    }

    bool shiftedAgainstAnchor() const {
        if (anchor_ == nullptr) return false;
        for (const AnchorPoint& point : anchor_->points)
            if (point.seq > rows_.front().fields.seq && point.hash == rows_.front().hash) return true;
        return false;
    }

    AnchorPoint good_;
    const AnchorContent* anchor_;
    std::vector<Kept> rows_;
    ChainHasher hasher_;
};

}  // namespace

ChainFault diagnoseChain(Sql& sql, const AnchorPoint& good, const AnchorContent* anchor) {
    return Diagnosis(sql, good, anchor).run();
}

}  // namespace gradus
