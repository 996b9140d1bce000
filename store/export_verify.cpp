#include "store/export_verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "store/audit_log.h"
#include "store/chain_diagnosis.h"
#include "store/export_line.h"
#include "store/line_reader.h"
#include "store/model/error.h"
#include "store/model/hex.h"
#include "store/schema.h"
#include "store/signing.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestLine = std::size_t{64} << 20;
constexpr std::size_t kWindow = 64;  // as far as the diagnosis of a chain looks
constexpr std::int64_t kProgressEvery = 50'000;

/// What the file itself says about keys and redactions, once the chain holds.
struct LearnedHere {
    std::string store;
    std::set<std::string> publicKeys;
    std::set<std::int64_t> redacted;

    void learn(const ExportLine& line) {
        try {
            const EventFields fields = EventFields::fromJson(line.body);
            if (line.kind == nameOf(kEventKinds, EventKind::kLogStarted)) store = fields.text("store");
            if (line.kind == nameOf(kEventKinds, EventKind::kPayloadRedacted)) redacted.insert(fields.number("seq"));
            if (const auto key = fields.optionalText("public-key")) publicKeys.insert(*key);
        } catch (const Error&) {
            // A body that makes no sense teaches nothing.
        }
    }
    static bool isTelling(const std::string& kind) {
        return kind == nameOf(kEventKinds, EventKind::kLogStarted) ||
               kind == nameOf(kEventKinds, EventKind::kLogReanchored) ||
               kind == nameOf(kEventKinds, EventKind::kPayloadRedacted);
    }
};

/// What is wrong with one text; nothing is told before the chain was walked to its end.
struct TextFault {
    Tampering kind = Tampering::kNone;
    std::int64_t seq = 0;
    std::string detail;
};

class ExportWalk {
  public:
    ExportWalk(const fs::path& file, const ExportWitness& witness)
        : file_(file), witness_(witness), lines_(file, kLongestLine) {}

    ExportVerdict run(const VerifyProgress& progress) {
        readHeader();
        walk(progress);
        if (sound()) againstEnd();
        if (sound()) againstStore();
        if (sound()) againstPoints();
        if (sound()) againstSignatures();
        if (sound()) againstTexts();
        return verdict_;
    }

  private:
    bool sound() const { return verdict_.audit.kind == Tampering::kNone; }
    void bad(Tampering kind, std::int64_t seq, std::string detail) {
        verdict_.audit.kind = kind;
        verdict_.audit.seq = seq;
        verdict_.audit.detail = std::move(detail);
    }
    const ExportHeader& header() const { return verdict_.header; }

    void readHeader() {
        const auto line = lines_.next();
        try {
            verdict_.header = ExportHeader::decode(line.value_or(""));
        } catch (const Error& e) {
            throw Error(ErrorCode::kUsage, "{} is no export of an audit log: {}", file_.native(), e.what())
                .hint("`gradus audit export FILE` makes one");
        }
        head_ = {header().first - 1, header().before};
        for (const auto& [store, points] : vouchers())
            for (const AnchorPoint& point : points) wanted_.insert(point.seq);
        for (const SignedPoint& point : signedPoints()) wanted_.insert(point.point.seq);
    }

    /// Who remembers what: the anchor as it was exported, and the one that was kept elsewhere.
    std::vector<std::pair<std::string, std::vector<AnchorPoint>>> vouchers() const {
        std::vector<std::pair<std::string, std::vector<AnchorPoint>>> all{{"the exported anchor", header().anchors}};
        if (!witness_.anchor) return all;
        std::vector<AnchorPoint> kept;
        for (const AnchorPoint& point : witness_.anchor->points)
            if (point.seq >= header().first && point.seq <= header().last) kept.push_back(point);
        all.emplace_back("the anchor that was kept", std::move(kept));
        return all;
    }

    std::vector<SignedPoint> signedPoints() const {
        std::vector<SignedPoint> points = header().signedPoints;
        if (witness_.anchor)
            for (const SignedPoint& point : witness_.anchor->signedPoints)
                if (point.point.seq >= header().first && point.point.seq <= header().last) points.push_back(point);
        return points;
    }

    void walk(const VerifyProgress& progress) {
        while (const auto text = lines_.next()) {
            if (lines_.wasCut()) return;  // torn: what is missing is told at the end
            const auto line = ExportLine::decode(*text);
            if (!line) {
                return bad(Tampering::kAltered, head_.seq + 1,
                           fmt::format("line {} is not an event as it was exported", lines_.number()));
            }
            if (head_.seq == header().last)
                return bad(Tampering::kInserted, line->numbers.seq,
                           fmt::format("event {} stands behind the last one, {}", line->numbers.seq, header().last));
            if (!follows(*line)) return diagnose(*line);
            take(*line);
            if (progress && verdict_.audit.events % kProgressEvery == 0)
                progress(verdict_.audit.events, header().last - header().first + 1);
        }
    }

    bool follows(const ExportLine& line) {
        return line.numbers.seq == head_.seq + 1 && hasher_.link(head_.hash, line.fields()) == line.hash;
    }

    void take(const ExportLine& line) {
        head_ = {line.numbers.seq, line.hash};
        ++verdict_.audit.events;
        if (wanted_.contains(head_.seq)) hashes_[head_.seq] = head_.hash;
        if (LearnedHere::isTelling(line.kind)) learned_.learn(line);
        lookAtText(line);
    }

    void textFault(Tampering kind, std::int64_t seq, const char* detail) {
        if (text_.kind == Tampering::kNone) text_ = {kind, seq, fmt::format(fmt::runtime(detail), seq)};
    }

    void lookAtText(const ExportLine& line) {
        const std::int64_t seq = line.numbers.seq;
        if (!line.payloadDigest) {
            if (line.text) textFault(Tampering::kInserted, seq, "event {} never had a payload, now it has one");
        } else if (line.text) {
            ++verdict_.audit.payloads;
            if (payloadDigest(*line.salt, *line.text).view() != *line.payloadDigest)
                textFault(Tampering::kAltered, seq, "the payload of event {} is not the one that was recorded");
        } else if (line.redactedBy) {
            ++verdict_.audit.redacted;
            if (*line.redactedBy > header().last) ++verdict_.redactedElsewhere;
            if (*line.redactedBy <= header().last) redacted_.insert(seq);
        } else if (header().selection.holds(line.fields())) {
            textFault(Tampering::kDeleted, seq, "the payload of event {} is gone without a redaction");
        } else {
            ++verdict_.withheld;
        }
    }

    /// The chain breaks here: what stands behind is looked at as a whole.
    void diagnose(const ExportLine& first) {
        std::vector<ExportLine> rows{first};
        std::optional<ExportLine> last;
        while (const auto text = lines_.next()) {
            auto line = ExportLine::decode(*text);
            if (line && rows.size() < kWindow)
                rows.push_back(std::move(*line));
            else if (line)
                last = std::move(line);
        }
        if (first.numbers.seq <= head_.seq)
            return bad(Tampering::kInserted, first.numbers.seq,
                       fmt::format("event {} stands there a second time", first.numbers.seq));
        if (isOnlyMoved(rows))
            return bad(Tampering::kReordered, head_.seq + 1,
                       fmt::format("event {} stands in another place", head_.seq + 1));
        if (last) rows.push_back(std::move(*last));
        diagnoseRows(rows);
    }

    /// The next event is there, whole, further down.
    bool isOnlyMoved(const std::vector<ExportLine>& rows) {
        return std::any_of(rows.begin() + 1, rows.end(), [&](const ExportLine& row) { return follows(row); });
    }

    void diagnoseRows(const std::vector<ExportLine>& rows) {
        Sql sql;
        sql.script("pragma foreign_keys = off; pragma synchronous = off");
        migrate(sql);
        for (const ExportLine& row : rows) {
            const ChainedFields fields = row.fields();
            auto insert = sql(
                "insert or ignore into event (seq, at, batch, kind, actor, project, change, promotion, stage, body, "
                "payload_digest, hash) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                fields.seq, fields.at, fields.batch, fields.kind, fields.actor, fields.project, fields.change,
                fields.promotion, fields.stage, fields.body);
            fields.payloadDigest ? insert.bindBlob(*fields.payloadDigest) : insert.bindNull();
            insert.bind(row.hash).run();
        }
        AnchorContent anchor{header().store, header().anchors, {}};
        if (witness_.anchor) anchor.points = vouchers().back().second;
        const ChainFault fault = diagnoseChain(sql, head_, &anchor);
        bad(fault.kind, fault.seq, fault.detail);
    }

    void againstEnd() {
        std::int64_t promised = header().last;
        for (const auto& [name, points] : vouchers())
            for (const AnchorPoint& point : points) promised = std::max(promised, point.seq);
        for (const SignedPoint& point : signedPoints()) promised = std::max(promised, point.point.seq);
        if (head_.seq < promised)
            bad(Tampering::kTruncated, head_.seq + 1,
                fmt::format("the file ends with event {}, and should go on to event {}", head_.seq, promised));
        if (sound() && header().head.seq == head_.seq && header().head.hash != head_.hash)
            bad(Tampering::kRewritten, head_.seq, fmt::format("event {} is not the end that was exported", head_.seq));
    }

    void againstStore() {
        const bool isOther = header().first == 1 && learned_.store != header().store;
        if (isOther || (witness_.anchor && witness_.anchor->storeId != header().store))
            bad(Tampering::kRewritten, header().first,
                isOther ? "the header names another log than event 1" : "the anchor that was kept is another log's");
    }

    void againstPoints() {
        for (const auto& [name, points] : vouchers())
            for (const AnchorPoint& point : points) {
                const auto found = hashes_.find(point.seq);
                if (found == hashes_.end() || found->second != point.hash)
                    return bad(Tampering::kRewritten, point.seq,
                               fmt::format("the chain is whole, but event {} is not the one that {} remembers",
                                           point.seq, name));
                verdict_.anchoredThrough = std::max(verdict_.anchoredThrough, point.seq);
            }
    }

    bool isKeyKnown(const std::string& key) const {
        if (witness_.publicKey) return key == *witness_.publicKey;
        // From event 1 on, the chain itself says whose keys count.
        if (header().first == 1) return learned_.publicKeys.contains(toHex(key));
        return std::ranges::find(header().publicKeys, toHex(key)) != header().publicKeys.end();
    }

    void againstSignatures() {
        for (const SignedPoint& point : signedPoints()) {
            const auto found = hashes_.find(point.point.seq);
            const bool fits = found != hashes_.end() && found->second == point.point.hash;
            ++verdict_.audit.signatures;
            if (!fits || !isKeyKnown(point.publicKey) || !isSignatureValid(header().store, point))
                return bad(Tampering::kRewritten, point.point.seq,
                           fmt::format("the signed checkpoint at event {} does not fit the file", point.point.seq));
            verdict_.audit.signedThrough = std::max(verdict_.audit.signedThrough, point.point.seq);
        }
    }

    void againstTexts() {
        for (const std::int64_t seq : redacted_)
            if (!learned_.redacted.contains(seq))
                textFault(Tampering::kDeleted, seq, "the payload of event {} is gone without a redaction");
        if (text_.kind != Tampering::kNone) bad(text_.kind, text_.seq, text_.detail);
    }

    fs::path file_;
    const ExportWitness& witness_;
    LineReader lines_;
    ExportVerdict verdict_;
    AnchorPoint head_;
    ChainHasher hasher_;
    LearnedHere learned_;
    std::set<std::int64_t> wanted_;  ///< events whose hashes are asked for later
    std::map<std::int64_t, Digest> hashes_;
    std::set<std::int64_t> redacted_;
    TextFault text_;
};

}  // namespace

ExportVerdict verifyExport(const fs::path& file, const ExportWitness& witness, const VerifyProgress& progress) {
    return ExportWalk(file, witness).run(progress);
}

}  // namespace gradus
