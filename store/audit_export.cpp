#include "store/audit_export.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <set>

#include "store/audit_log.h"
#include "store/event_index.h"
#include "store/export_line.h"
#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
// Signatures are a thousand events apart; one that is further away is not worth what lies between.
constexpr std::int64_t kMostExtension = 5000;
constexpr std::int64_t kChunk = 10'000;
constexpr std::size_t kBuffer = std::size_t{1} << 20;

[[noreturn]] void throwNotWhole(std::int64_t seq, std::string_view what) {
    throw Error(ErrorCode::kDamaged, "the log is not whole, so nothing was exported: {} {}", what, seq)
        .hint("`gradus audit verify` says what was done to it");
}

/// A file that gets its name when it is whole and durable, or never.
class NewFile {
  public:
    explicit NewFile(const fs::path& path) : path_(path), partial_(path) {
        if (fs::exists(fs::symlink_status(path_))) throwThere();
        partial_ += fmt::format(".{}.part", ::getpid());
        ::unlink(partial_.c_str());  // of a process that is gone: the number is ours now
        file_ = openFile(partial_, O_WRONLY | O_CREAT | O_EXCL, 0600);
    }
    ~NewFile() {
        if (!named_) ::unlink(partial_.c_str());
    }
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;

    void write(std::string_view bytes) {
        buffer_ += bytes;
        written_ += bytes.size();
        if (buffer_.size() >= kBuffer) flush();
    }
    void publish() {
        flush();
        syncFile(file_.get(), partial_);
        if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0) linkInstead(errno);
        named_ = true;
        syncDirectory(fs::absolute(path_).parent_path());
    }
    std::uintmax_t written() const { return written_; }

  private:
    [[noreturn]] void throwThere() const {
        throw Error(ErrorCode::kUsage, "{} is there already", path_.native())
            .hint("give a new name; an export replaces nothing");
    }
    void linkInstead(int error) {
        if (error == EEXIST) throwThere();
        if (error != EINVAL && error != ENOSYS)
            throw Error(ErrorCode::kInfrastructure, "cannot name {}: {}", path_.native(), errnoText(error));
        if (::link(partial_.c_str(), path_.c_str()) != 0) {
            if (errno == EEXIST) throwThere();
            throw Error(ErrorCode::kInfrastructure, "cannot name {}: {}", path_.native(), errnoText(errno));
        }
        ::unlink(partial_.c_str());
    }
    void flush() {
        writeAll(file_.get(), buffer_, partial_);
        buffer_.clear();
    }

    fs::path path_;
    fs::path partial_;
    FileDescriptor file_;
    std::string buffer_;
    std::uintmax_t written_ = 0;
    bool named_ = false;
};

/// From the first selected event to the last; nothing if there is none.
std::optional<SeqRange> selectedRange(Sql& sql, const ExportSelection& selection) {
    if (selection.change || selection.stage) {
        AuditQuery query{.stage = selection.stage, .change = selection.change, .limit = kAll};
        if (selection.since) query.since = fromMillis(*selection.since);
        if (selection.until) query.until = fromMillis(*selection.until);
        const auto events = queryEvents(sql, query);
        if (events.empty()) return std::nullopt;
        return SeqRange{events.front().seq, events.back().seq};
    }
    std::optional<SeqRange> whole;
    visitSpan(sql, selection.since.value_or(std::numeric_limits<std::int64_t>::min()), selection.until.value_or(kAll),
              [&](SeqRange run) {
                  whole = whole ? SeqRange{std::min(whole->first, run.first), std::max(whole->last, run.last)} : run;
                  return true;
              });
    return whole;
}

/// On to the end of the commit, which the anchor knows, and to the next signature: whoever holds the file can then
/// prove all of it by that.
std::int64_t extended(Sql& sql, std::int64_t last) {
    const auto next = sql.number("select seq from event where seq > ? and batch = 0 order by seq limit 1", last);
    const std::int64_t commit = next ? *next - 1 : chainHead(sql).point.seq;
    const auto point = sql.number("select min(seq) from signed_checkpoint where seq >= ?", commit);
    return point && *point - commit <= kMostExtension ? *point : commit;
}

Digest hashOf(Sql& sql, std::int64_t seq) {
    if (seq == 0) return {};
    auto row = sql("select hash from event where seq = ?", seq);
    if (!row.step()) throwNotWhole(seq, "there is no event");
    return row.digest(0);
}

class Exporter {
  public:
    Exporter(Sql& sql, const AnchorSink& anchor, const ExportSelection& selection) : sql_(sql), anchor_(anchor) {
        header().selection = selection;
    }

    AuditExport run(Time now, const fs::path& file, const VerifyProgress& progress) {
        header().at = now;
        NewFile out(file);
        describe();
        out.write(header().encode());
        for (std::int64_t from = header().first; from <= header().last; from += kChunk) {
            writeChunk(out, from, std::min(header().last, from + kChunk - 1));
            if (progress) progress(report_.events, header().last - header().first + 1);
        }
        if (report_.events != header().last - header().first + 1)
            throwNotWhole(header().last, "events are missing before");
        out.publish();
        report_.bytes = out.written();
        return report_;
    }

  private:
    ExportHeader& header() { return report_.header; }

    void describe() {
        const ReadTransaction oneMoment(sql_);
        const auto range = selectedRange(sql_, header().selection);
        if (!range)
            throw Error(ErrorCode::kNotFound, "no event matches, so nothing was exported")
                .hint("`gradus audit query` with the same options shows what there is");
        header().first = range->first;
        header().last = extended(sql_, range->last);
        header().head = chainHead(sql_).point;
        header().before = previous_ = hashOf(sql_, range->first - 1);
        describeLog();
        describePoints();
        describeActors(*range);
    }

    void describeLog() {
        for (const EventKind kind : {EventKind::kLogStarted, EventKind::kLogReanchored})
            for (const Event& event : queryEvents(sql_, {.kind = kind, .limit = kAll})) {
                if (kind == EventKind::kLogStarted) header().store = event.fields.text("store");
                if (const auto key = event.fields.optionalText("public-key")) header().publicKeys.push_back(*key);
            }
    }

    bool isInRange(std::int64_t seq) { return seq >= header().first && seq <= header().last; }

    void describePoints() {
        std::vector<SignedPoint>& points = header().signedPoints;
        auto rows = sql_(
            "select seq, hash, public_key, signature from signed_checkpoint where seq between ? and ? "
            "order by seq",
            header().first, header().last);
        while (rows.step()) points.push_back({{rows.number(0), rows.digest(1)}, rows.text(2), rows.text(3)});
        const auto content = anchor_.read();
        if (!content) return;
        for (const AnchorPoint& point : content->points)
            if (isInRange(point.seq)) header().anchors.push_back(point);
        for (const SignedPoint& point : content->signedPoints)
            if (isInRange(point.point.seq) && std::find(points.begin(), points.end(), point) == points.end())
                points.push_back(point);
    }

    void describeActors(SeqRange range) {
        std::set<ActorId> ids;
        auto rows = sql_(
            "select seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash "
            "from event where seq between ? and ? and actor is not null",
            range.first, range.last);
        while (rows.step())
            if (const ChainedFields fields = chainedFields(rows); header().selection.holds(fields))
                ids.insert(*fields.actor);
        for (const ActorId id : ids)
            if (const auto actor = Records(sql_).actor(id)) header().actors.emplace_back(id, *actor);
    }

    void writeChunk(NewFile& out, std::int64_t from, std::int64_t to) {
        auto rows = sql_(
            "select seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash "
            "from event where seq between ? and ? order by seq",
            from, to);
        while (rows.step()) {
            ExportLine line = ExportLine::of(rows);
            if (hasher_.link(previous_, line.fields()) != line.hash)
                throwNotWhole(line.numbers.seq, "the chain breaks at event");
            previous_ = line.hash;
            addText(line);
            out.write(line.encode());
            ++report_.events;
        }
    }

    void addText(ExportLine& line) {
        if (!line.payloadDigest) return;
        auto row = sql_("select salt, text from payload where seq = ?", line.numbers.seq);
        const bool isThere = row.step();
        if (!isThere) {
            line.redactedBy = sql_.number("select by_event from redaction where seq = ?", line.numbers.seq);
            if (!line.redactedBy) throwNotWhole(line.numbers.seq, "a text is gone without a redaction: that of event");
            ++report_.redacted;
        } else if (!header().selection.holds(line.fields())) {
            ++report_.withheld;
        } else {
            line.salt = row.text(0);
            line.text = row.text(1);
            if (payloadDigest(*line.salt, *line.text).view() != *line.payloadDigest)
                throwNotWhole(line.numbers.seq, "a text is not the one that was recorded: that of event");
            ++report_.payloads;
        }
    }

    Sql& sql_;
    const AnchorSink& anchor_;
    AuditExport report_;
    Digest previous_;
    ChainHasher hasher_;
};

}  // namespace

AuditExport exportAudit(Sql& sql, const AnchorSink& anchor, const ExportSelection& selection, Time now,
                        const fs::path& file, const VerifyProgress& progress) {
    return Exporter(sql, anchor, selection).run(now, file, progress);
}

}  // namespace gradus
