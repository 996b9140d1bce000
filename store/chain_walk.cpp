#include "store/chain_walk.h"

#include <array>
#include <future>
#include <utility>

#include "store/chain_diagnosis.h"
#include "store/model/error.h"

namespace gradus {

namespace {

// Read in pieces: a read transaction over a large log would keep the write-ahead log from being reset.
constexpr std::int64_t kChunk = 50'000;
// Long enough that starting a thread costs nothing beside it, short enough that two fit into a cache.
constexpr std::size_t kBatch = 2'000;

// Read by their stored word: a walk over millions of events parses only the few bodies it needs.
constexpr std::string_view kStarted = nameOf(kEventKinds, EventKind::kLogStarted);
constexpr std::string_view kReanchored = nameOf(kEventKinds, EventKind::kLogReanchored);
constexpr std::string_view kRedacted = nameOf(kEventKinds, EventKind::kPayloadRedacted);

bool isTelling(std::string_view kind) { return kind == kStarted || kind == kReanchored || kind == kRedacted; }

constexpr std::string_view kChunkSql =
    "select seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash from event "
    "where seq > ? order by seq limit ?";

}  // namespace

struct ChainBatch {
    std::string bytes;                                         ///< what is hashed, event after event
    std::vector<std::size_t> ends;                             ///< where each event's bytes end
    std::vector<Digest> hashes;                                ///< as they are stored
    std::int64_t lastBatch = 0;                                ///< the last event's
    std::vector<std::pair<std::string, std::string>> telling;  ///< kind and body of the events that teach something

    void clear() {
        bytes.clear();
        ends.clear();
        hashes.clear();
        telling.clear();
    }

    /// False if the row cannot follow `previous`, whatever it hashes to.
    bool add(ChainHasher& hasher, const AnchorPoint& previous, const Sql::Call& row) {
        const ChainedFields fields = chainedFields(row);
        const auto hash = Digest::fromBytes(row.view(kHashColumn));
        if (fields.seq != previous.seq + 1 || !hash) return false;
        bytes += hasher.bytes(previous.hash, fields);
        ends.push_back(bytes.size());
        hashes.push_back(*hash);
        lastBatch = fields.batch;
        if (isTelling(fields.kind)) telling.emplace_back(fields.kind, fields.body);
        return true;
    }

    bool holds() const {
        Hasher hasher;
        std::size_t begin = 0;
        for (std::size_t i = 0; i < ends.size(); begin = ends[i++])
            if (hasher.update(std::string_view(bytes).substr(begin, ends[i] - begin)).finish() != hashes[i])
                return false;
        return true;
    }
};

AuditVerdict ChainWalk::run(const VerifyProgress& progress) {
    const std::int64_t total = sql_.number("select max(seq) from event").value_or(0);
    verdict_.kind = Tampering::kNone;
    if (const auto early = sql_.number("select seq from event where seq < 1 order by seq limit 1"))
        return bad(Tampering::kInserted, *early, "an event stands before the first one");
    Pace pace = Pace::kOn;
    while ((pace = walkBatches()) == Pace::kOn)
        if (progress) progress(verdict_.events, total);
    // From the last batch that holds on, event by event: finds the first that does not fit.
    while (pace == Pace::kStumbled && walkChunk())
        if (progress) progress(verdict_.events, total);
    if (broken_) diagnose();
    return verdict_;
}

AuditVerdict ChainWalk::bad(Tampering kind, std::int64_t seq, std::string detail) {
    verdict_.kind = kind;
    verdict_.seq = seq;
    verdict_.detail = std::move(detail);
    return verdict_;
}

/// Reads a chunk batch by batch; while one is read, the one before it is hashed in another thread.
ChainWalk::Pace ChainWalk::walkBatches() {
    std::array<ChainBatch, 2> batches;
    ChainBatch* reading = batches.data();
    ChainBatch* checking = batches.data() + 1;
    std::future<bool> holds;  // of `checking`; its destructor waits, so the batches outlive the thread
    const auto finish = [&] {
        if (!holds.valid()) return true;
        if (!holds.get()) return false;
        accept(*checking);
        return true;
    };

    auto row = sql_(kChunkSql, head_.seq, kChunk);
    AnchorPoint last = head_;
    std::int64_t seen = 0;
    bool fits = true;
    while (fits) {
        reading->clear();
        while (reading->ends.size() < kBatch && row.step() && (fits = reading->add(hasher_, last, row))) {
            last = {last.seq + 1, reading->hashes.back()};
            ++seen;
        }
        if (!finish()) return Pace::kStumbled;
        const bool isFull = reading->ends.size() == kBatch;
        std::swap(reading, checking);
        // Where no thread can be had, the standard library runs it when it is asked for.
        holds = std::async(isFull ? std::launch::async | std::launch::deferred : std::launch::deferred,
                           [checking] { return checking->holds(); });
        if (!isFull) break;
    }
    if (!finish() || !fits) return Pace::kStumbled;
    return seen == kChunk ? Pace::kOn : Pace::kEnd;
}

void ChainWalk::accept(const ChainBatch& batch) {
    for (const Digest& hash : batch.hashes) {
        head_ = {head_.seq + 1, hash};
        compareWithAnchor();
    }
    headBatch_ = batch.hashes.empty() ? headBatch_ : batch.lastBatch;
    for (const auto& [kind, body] : batch.telling) learn(kind, body);
    verdict_.events += static_cast<std::int64_t>(batch.hashes.size());
}

bool ChainWalk::walkChunk() {
    auto row = sql_(kChunkSql, head_.seq, kChunk);
    std::int64_t seen = 0;
    while (row.step()) {
        ++seen;
        if (!takeRow(row)) return false;
    }
    return seen == kChunk;
}

bool ChainWalk::takeRow(const Sql::Call& row) {
    const ChainedFields fields = chainedFields(row);
    const bool chained =
        fields.seq == head_.seq + 1 && row.view(kHashColumn) == hasher_.link(head_.hash, fields).view();
    broken_ = !chained;
    if (broken_) return false;
    head_ = {fields.seq, row.digest(kHashColumn)};
    headBatch_ = fields.batch;
    if (isTelling(fields.kind)) learn(fields.kind, fields.body);
    compareWithAnchor();
    ++verdict_.events;
    return true;
}

void ChainWalk::learn(std::string_view kind, std::string_view body) {
    try {
        const EventFields fields = EventFields::fromJson(body);
        if (kind == kRedacted) return static_cast<void>(learned_.redacted.insert(fields.number("seq")));
        if (kind == kStarted) learned_.storeId = fields.text("store");
        if (const auto key = fields.optionalText("public-key")) learned_.publicKeys.insert(*key);
    } catch (const Error&) {
        // A body that makes no sense teaches nothing; whoever chained it again is found by the anchor or the state.
    }
}

// After the walk's statement has ended: the diagnosis reads the same rows again.
void ChainWalk::diagnose() {
    const ChainFault fault = diagnoseChain(sql_, head_, anchor_);
    bad(fault.kind, fault.seq, fault.detail);
    // Somebody made a few hashes fit before giving up: the anchor knows an earlier event than the one that breaks.
    if (fault.kind == Tampering::kAltered && contradiction_)
        bad(Tampering::kAltered, contradiction_->seq,
            fmt::format("event {} is not the one that was anchored, and the chain breaks at event {}",
                        contradiction_->seq, fault.seq));
}

void ChainWalk::compareWithAnchor() {
    if (anchor_ == nullptr || contradiction_) return;
    while (nextPoint_ < anchor_->points.size() && anchor_->points[nextPoint_].seq <= head_.seq) {
        const AnchorPoint& point = anchor_->points[nextPoint_++];
        if (point.seq == head_.seq && point.hash != head_.hash) contradiction_ = point;
    }
}

}  // namespace gradus
