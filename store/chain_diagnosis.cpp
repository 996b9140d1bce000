#include "store/chain_diagnosis.h"

#include <algorithm>
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
        end_ = sql.number("select max(seq) from event").value_or(0);
    }

    ChainFault run() {
        const std::int64_t next = good_.seq + 1;
        if (rows_.front().fields.seq > next && belongsHere(rows_.front()))
            return fault(Tampering::kAltered, next, "event {} stands under another number");
        if (rows_.front().fields.seq > next && laterRowBelongsHere())
            return fault(Tampering::kReordered, next, "event {} stands in another place");
        if (rows_.front().fields.seq > next && !isBeyondAnchor(rows_.front().fields.seq))
            return fault(Tampering::kDeleted, next, "events {} to {} are missing", rows_.front().fields.seq - 1);
        if (anotherRowFitsHere()) return fault(Tampering::kReordered, next, "event {} stands in another place");
        if (const auto skipped = rowsBeforeTheRealOne())
            return fault(Tampering::kInserted, next,
                         skipped == 1 ? "an event that was never recorded stands at {}"
                                      : "events that were never recorded stand from {} on");
        if (laterRowBelongsHere()) return fault(Tampering::kReordered, next, "event {} stands in another place");
        if (laterRowsAreShifted())
            return fault(Tampering::kDeleted, next, "event {} is missing and the later ones were renumbered");
        if (const std::int64_t room = roomMadeBefore(); room > 0)
            return fault(Tampering::kInserted, next - room, "event {} was never recorded, the later ones made room");
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

    /// The row is the recorded event that follows `good_`, whatever its number says.
    bool belongsHere(const Kept& row) { return fits(good_.hash, row, good_.seq + 1, row.hash); }

    bool laterRowBelongsHere() {
        return std::any_of(rows_.begin() + 1, rows_.end(), [&](const Kept& row) { return belongsHere(row); });
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
            if (!belongsHere(rows_[i])) continue;
            const bool restFollows = i + 1 >= rows_.size() ? !anyBeforeFollows(i) : follows(rows_[i], rows_[i + 1]);
            return restFollows ? i : 0;
        }
        return 0;
    }

    /// `row` is the recorded event right after `first`, which is the one that belongs here.
    bool follows(const Kept& first, const Kept& row) { return fits(first.hash, row, good_.seq + 2, row.hash); }

    bool anyBeforeFollows(std::size_t i) {
        return std::any_of(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(i),
                           [&](const Kept& row) { return follows(rows_[i], row); });
    }

    /// From here on the rows follow each other, only under lower numbers than they had.
    bool laterRowsAreShifted() {
        if (rows_.size() < 2) return shiftedAgainstAnchor();
        for (std::int64_t shift = 1; shift <= kWindow; ++shift)
            if (wereShiftedBy(shift)) return true;
        return wereShiftedBy(missingAtTheEnd()) || shiftedAgainstAnchor();
    }

    /// The first two rows follow each other once their numbers are put back by that much.
    bool wereShiftedBy(std::int64_t shift) {
        return shift != 0 && fits(rows_[0].hash, rows_[1], rows_[1].fields.seq + shift, rows_[1].hash);
    }

    /// How many events the anchor remembers beyond the end of the log: as many as a deletion moved the rest down by.
    std::int64_t missingAtTheEnd() const {
        if (anchor_ == nullptr || anchor_->points.empty()) return 0;
        return std::max<std::int64_t>(0, anchor_->points.back().seq - end_);
    }

    /// By how much the rows from here on were moved up, to make room for events that fit the chain; 0 if not at all.
    std::int64_t roomMadeBefore() {
        const std::int64_t most = std::min(kWindow, good_.seq);
        for (std::int64_t room = 1; rows_.size() >= 2 && room <= most; ++room)
            if (wereShiftedBy(-room)) return room;
        if (anchor_ == nullptr) return 0;
        for (const AnchorPoint& point : anchor_->points)
            if (point.seq <= good_.seq && point.hash == rows_.front().hash) return rows_.front().fields.seq - point.seq;
        return 0;
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
    std::int64_t end_ = 0;
    ChainHasher hasher_;
};

}  // namespace

ChainFault diagnoseChain(Sql& sql, const AnchorPoint& good, const AnchorContent* anchor) {
    return Diagnosis(sql, good, anchor).run();
}

}  // namespace gradus
