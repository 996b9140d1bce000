#include "store/audit_verify.h"

#include <algorithm>
#include <vector>

#include "store/audit_log.h"
#include "store/chain_walk.h"
#include "store/model/hex.h"
#include "store/signing.h"
#include "store/state_compare.h"

namespace gradus {

namespace {

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
            verdict_.signedThrough = std::max(verdict_.signedThrough, point.point.seq);
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
    AuditVerdict verdict = walk.run(progress);
    if (verdict.kind != Tampering::kNone) return verdict;
    return Surroundings(sql, anchor, walk, std::move(verdict)).run(content);
}

}  // namespace gradus
