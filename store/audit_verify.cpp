#include "store/audit_verify.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "store/audit_log.h"
#include "store/chain_diagnosis.h"
#include "store/model/error.h"
#include "store/model/hex.h"
#include "store/signing.h"
#include "store/state_compare.h"

namespace gradus {

namespace {

// Read in pieces: a read transaction over a large log would keep the write-ahead log from being reset.
constexpr std::int64_t kChunk = 50'000;

/// What the walk learns beside the chain itself.
struct Learned {
    std::string storeId;
    std::set<std::string> publicKeys;  ///< in hexadecimal, as the log itself names them
    std::set<std::int64_t> redacted;
};

void learn(Learned& learned, const ChainedFields& fields) {
    // By the stored word: a walk over millions of events parses only the few bodies it needs.
    const bool started = fields.kind == nameOf(kEventKinds, EventKind::kLogStarted);
    const bool reanchored = fields.kind == nameOf(kEventKinds, EventKind::kLogReanchored);
    const bool redaction = fields.kind == nameOf(kEventKinds, EventKind::kPayloadRedacted);
    if (!started && !reanchored && !redaction) return;
    try {
        const EventFields body = EventFields::fromJson(fields.body);
        if (redaction) return static_cast<void>(learned.redacted.insert(body.number("seq")));
        if (started) learned.storeId = body.text("store");
        if (const auto key = body.optionalText("public-key")) learned.publicKeys.insert(*key);
    } catch (const Error&) {
        // A body that makes no sense teaches nothing; whoever chained it again is found by the anchor or the state.
    }
}

/// The walk over the chain, from event 1 on.
class ChainWalk {
  public:
    ChainWalk(Sql& sql, const AnchorContent* anchor) : sql_(sql), anchor_(anchor) {}

    AuditVerdict run(const VerifyProgress& progress) {
        const std::int64_t total = sql_.number("select max(seq) from event").value_or(0);
        verdict_.kind = Tampering::kNone;
        if (const auto early = sql_.number("select seq from event where seq < 1 order by seq limit 1"))
            return bad(Tampering::kInserted, *early, "an event stands before the first one");
        while (walkChunk())
            if (progress) progress(verdict_.events, total);
        if (broken_) diagnose();
        return verdict_;
    }

    const Learned& learned() const { return learned_; }
    const AnchorPoint& head() const { return head_; }
    std::int64_t headBatch() const { return headBatch_; }
    /// The anchored hash that the walk met first and that differs from the chain's, if any.
    const std::optional<AnchorPoint>& contradiction() const { return contradiction_; }

  private:
    AuditVerdict bad(Tampering kind, std::int64_t seq, std::string detail) {
        verdict_.kind = kind;
        verdict_.seq = seq;
        verdict_.detail = std::move(detail);
        return verdict_;
    }

    bool walkChunk() {
        auto row = sql_(
            "select seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash from "
            "event "
            "where seq > ? order by seq limit ?",
            head_.seq, kChunk);
        std::int64_t seen = 0;
        while (row.step()) {
            ++seen;
            if (!takeRow(row)) return false;
        }
        return seen == kChunk;
    }

    bool takeRow(const Sql::Call& row) {
        const ChainedFields fields = chainedFields(row);
        const bool chained =
            fields.seq == head_.seq + 1 && row.view(kHashColumn) == hasher_.link(head_.hash, fields).view();
        broken_ = !chained;
        if (broken_) return false;
        head_ = {fields.seq, row.digest(kHashColumn)};
        headBatch_ = fields.batch;
        learn(learned_, fields);
        compareWithAnchor();
        ++verdict_.events;
        return true;
    }

    // After the walk's statement has ended: the diagnosis reads the same rows again.
    void diagnose() {
        const ChainFault fault = diagnoseChain(sql_, head_, anchor_);
        bad(fault.kind, fault.seq, fault.detail);
        // Somebody made a few hashes fit before giving up: the anchor knows an earlier event than the one that breaks.
        if (fault.kind == Tampering::kAltered && contradiction_)
            bad(Tampering::kAltered, contradiction_->seq,
                fmt::format("event {} is not the one that was anchored, and the chain breaks at event {}",
                            contradiction_->seq, fault.seq));
    }

    void compareWithAnchor() {
        if (anchor_ == nullptr || contradiction_) return;
        while (nextPoint_ < anchor_->points.size() && anchor_->points[nextPoint_].seq <= head_.seq) {
            const AnchorPoint& point = anchor_->points[nextPoint_++];
            if (point.seq == head_.seq && point.hash != head_.hash) contradiction_ = point;
        }
    }

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

/// The second half: everything that stands beside the chain. Each step either finds something or leaves the verdict.
class Surroundings {
  public:
    Surroundings(Sql& sql, const AnchorSink& sink, const ChainWalk& walk, AuditVerdict verdict)
        : sql_(sql), sink_(sink), walk_(walk), verdict_(std::move(verdict)) {}

    AuditVerdict run(const std::optional<AnchorContent>& anchor) {
        if (anchor) againstAnchor(*anchor);
        if (sound()) againstSignatures(anchor);
        if (sound()) payloads();
        if (sound()) state();
        if (sound()) anchorReaches();
        return verdict_;
    }

  private:
    bool sound() const { return verdict_.kind == Tampering::kNone; }

    void bad(Tampering kind, std::int64_t seq, std::string detail) {
        verdict_.kind = kind;
        verdict_.seq = seq;
        verdict_.detail = std::move(detail);
    }

    void againstAnchor(const AnchorContent& anchor) {
        if (!walk_.learned().storeId.empty() && anchor.storeId != walk_.learned().storeId)
            return bad(Tampering::kRewritten, 1, fmt::format("{} belongs to another log", sink_.name()));
        if (walk_.contradiction())
            return bad(Tampering::kRewritten, walk_.contradiction()->seq,
                       fmt::format("the chain is whole, but event {} is not the one that {} remembers",
                                   walk_.contradiction()->seq, sink_.name()));
        if (!anchor.points.empty() && anchor.points.back().seq > walk_.head().seq)
            return bad(Tampering::kTruncated, walk_.head().seq + 1,
                       fmt::format("the log ends at event {}, but {} remembers event {}", walk_.head().seq,
                                   sink_.name(), anchor.points.back().seq));
    }

    void againstSignatures(const std::optional<AnchorContent>& anchor) {
        std::vector<SignedPoint> points = anchor ? anchor->signedPoints : std::vector<SignedPoint>();
        auto rows = sql_("select seq, hash, public_key, signature from signed_checkpoint order by seq");
        while (rows.step()) {
            // A hash of the wrong length is no reason to stop: it fits no event, and that is what is reported.
            const Digest hash = Digest::fromBytes(rows.view(1)).value_or(Digest{});
            points.push_back({{rows.number(0), hash}, rows.text(2), rows.text(3)});
        }
        for (const SignedPoint& point : points) {
            ++verdict_.signatures;
            if (!isGenuine(point))
                return bad(Tampering::kRewritten, point.point.seq,
                           fmt::format("the signed checkpoint at event {} does not fit the log", point.point.seq));
        }
    }

    bool isGenuine(const SignedPoint& point) {
        auto row = sql_("select hash from event where seq = ?", point.point.seq);
        return row.step() && row.digest(0) == point.point.hash &&
               walk_.learned().publicKeys.contains(toHex(point.publicKey)) &&
               isSignatureValid(walk_.learned().storeId, point);
    }

    void payloads() {
        if (const auto stray = sql_.number("select p.seq from payload p left join event e on e.seq = p.seq "
                                           "where e.payload_digest is null limit 1"))
            return bad(Tampering::kInserted, *stray,
                       fmt::format("event {} never had a payload, now it has one", *stray));
        auto rows = sql_(
            "select e.seq, e.payload_digest, p.salt, p.text from event e left join payload p on p.seq = e.seq "
            "where e.payload_digest is not null order by e.seq");
        while (rows.step()) {
            const std::int64_t seq = rows.number(0);
            if (rows.isNull(3)) {
                if (!walk_.learned().redacted.contains(seq) && !wasRedactedSince(seq))
                    return bad(Tampering::kDeleted, seq,
                               fmt::format("the payload of event {} is gone without a redaction", seq));
                ++verdict_.redacted;
            } else if (payloadDigest(rows.view(2), rows.view(3)).view() != rows.view(1)) {
                return bad(Tampering::kAltered, seq,
                           fmt::format("the payload of event {} is not the one that was recorded", seq));
            } else {
                ++verdict_.payloads;
            }
        }
    }

    // Others may redact while this looks: an event beyond the walk's end says so. If it is a forged one, the state
    // does not follow from it, and the next verification walks over it.
    bool wasRedactedSince(std::int64_t seq) {
        return sql_
            .number(
                "select 1 from redaction r join event e on e.seq = r.by_event "
                "where r.seq = ? and e.seq > ? and e.kind = 'payload.redacted'",
                seq, walk_.head().seq)
            .has_value();
    }

    void state() {
        if (const auto mismatch = compareState(sql_, walk_.head().seq))
            bad(Tampering::kStateMismatch, mismatch->seq, mismatch->detail);
    }

    void anchorReaches() {
        // Asked again: others may have written and anchored during the walk.
        const std::optional<AnchorPoint> anchor = sink_.last();
        const std::int64_t reached = anchor ? anchor->seq : 0;
        const std::int64_t missing = std::max<std::int64_t>(0, walk_.head().seq - reached);
        // The next writer anchors what a crash left behind before it adds anything, so one commit is all that a crash
        // can leave.
        if (anchor && missing <= walk_.headBatch() + 1) {
            verdict_.notYetAnchored = missing;
        } else if (walk_.head().seq > 0) {
            bad(Tampering::kUnanchoredSince, reached + 1,
                anchor ? fmt::format("{} knows the events up to {} only", sink_.name(), reached)
                       : fmt::format("there is no anchor at {}", sink_.name()));
        }
    }

    Sql& sql_;
    const AnchorSink& sink_;
    const ChainWalk& walk_;
    AuditVerdict verdict_;
};

}  // namespace

AuditVerdict verifyChain(Sql& sql, const VerifyProgress& progress) { return ChainWalk(sql, nullptr).run(progress); }

AuditVerdict verifyAudit(Sql& sql, const AnchorSink& anchor, const VerifyProgress& progress) {
    const std::optional<AnchorContent> content = anchor.read();
    ChainWalk walk(sql, content ? &*content : nullptr);
    const AuditVerdict verdict = walk.run(progress);
    if (verdict.kind != Tampering::kNone) return verdict;
    return Surroundings(sql, anchor, walk, verdict).run(content);
}

}  // namespace gradus
