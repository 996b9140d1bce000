#include "store/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/audit_query.h"
#include "store/ballast.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/model/hex.h"
#include "store/projection.h"
#include "store/schema.h"
#include "store/signing.h"
#include "store/writer_lock.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

// Who checkpoints when there is no daemon: the writer whose commit finds this many pages in the log.
constexpr int kCheckpointAbovePages = 1000;
// The next process to open the database reads the log from its start: one that goes leaves no more than this behind.
constexpr int kLeaveAtMostPages = 64;
// A checkpoint that readers keep from resetting lets the file grow; past this it is cut back at the first chance.
constexpr std::uintmax_t kTruncateAbove = std::uintmax_t{64} << 20;
constexpr std::int64_t kEventsPerSignature = 1000;
constexpr std::int64_t kMostReanchored = 100;

void demandPragma(Sql& sql, std::string_view name, std::string_view wanted) {
    const std::string got = sql.pragma(name);
    if (got != wanted)
        throw Error(ErrorCode::kInfrastructure, "{} has {} = {} where {} is needed", sql.path().native(), name, got,
                    wanted)
            .hint("commits would not survive a power cut; set GRADUS_HOME to a directory on a local file system");
}

void configure(Sql& sql, Sql::Mode mode) {
    if (mode == Sql::Mode::kReadWrite) sql.script("pragma journal_mode = wal");
    sql.script(
        "pragma synchronous = full; pragma foreign_keys = on; pragma wal_autocheckpoint = 0; pragma mmap_size = 0;"
        "pragma trusted_schema = off; pragma recursive_triggers = on; pragma cache_size = -16000;"
        "pragma secure_delete = on");  // a redacted text must not linger in the file
    demandPragma(sql, "synchronous", "2");
    demandPragma(sql, "foreign_keys", "1");
    if (mode == Sql::Mode::kReadWrite) demandPragma(sql, "journal_mode", "wal");
}

std::uintmax_t sizeOf(const fs::path& path) {
    std::error_code ignored;
    const auto size = fs::file_size(path, ignored);
    return ignored ? 0 : size;
}

fs::path writeAheadLog(const StateDirectory& state) {
    fs::path path = state.database();
    return path += "-wal";
}

/// False for a schema that was never finished: nothing is recorded in it yet. Throws Error for one of an older release.
bool isReadable(Sql& sql) {
    const int schema = std::stoi(sql.pragma("user_version"));
    if (schema == latestSchema()) return true;
    if (chainHead(sql).point.seq == 0) return false;
    throw Error(ErrorCode::kInfrastructure, "{} has schema {}, this gradus reads schema {}", sql.path().native(),
                schema, latestSchema())
        .hint("the next command that writes brings it up to date; to keep the old one, make a backup first");
}

/// An anchor that remembers events belongs to a database that is gone: starting over would bury that.
void refuseToBury(const fs::path& database, const AnchorSink& anchor) {
    const auto last = anchor.last();
    if (!last || last->seq == 0) return;
    throw Error(ErrorCode::kDamaged, "{} {}, but {} remembers {} events", database.native(),
                fs::exists(database) ? "is empty" : "is gone", anchor.name(), last->seq)
        .hint("restore the database from its latest backup; to start over, move the anchor away");
}

/// The public key that the newest of these events names, in hexadecimal; empty if none does.
std::string newestKeyOf(Sql::Call bodies) {
    std::string known;
    while (bodies.step())
        if (const auto named = EventFields::fromJson(bodies.view(0)).optionalText("public-key")) known = *named;
    return known;
}

bool isKeyOfLog(Sql& sql, const std::string& key) {
    std::string newest = newestKeyOf(sql("select body from event where seq = 1"));
    for (const Event& event : queryEvents(sql, {.kind = EventKind::kLogReanchored, .limit = kMostReanchored}))
        newest = event.fields.optionalText("public-key").value_or(newest);
    if (newest == key) return true;
    // Before anything is refused the whole log is asked: a damaged index must not bar the way to its own rebuilding.
    return newestKeyOf(sql("select body from event where kind = 'log.started' or kind = 'log.reanchored' order by "
                           "seq")) == key;
}

/// "Nothing recorded yet" is no answer where something else is in the way.
void refuseOtherThanDirectory(const fs::path& root) {
    std::error_code ignored;
    const fs::file_status status = fs::status(root, ignored);
    if (fs::exists(status) && !fs::is_directory(status))
        throw Error(ErrorCode::kInfrastructure, "{} is not a directory", root.native())
            .hint("move it away, or set GRADUS_HOME to another path");
}

}  // namespace

struct Store::Inside {
    StateDirectory state;
    Surroundings surroundings;
    Sql sql;
    Records records;
    std::optional<SigningKey> key = std::nullopt;
    AnchorPoint anchored{};  // what the anchor is known to hold
    std::string storeId{};

    Inside(StateDirectory where, Surroundings around, Sql::Mode mode)
        : state(std::move(where)), surroundings(std::move(around)), sql(state.database(), mode), records(sql) {
        if (!surroundings.anchor) surroundings.anchor = std::make_shared<FileAnchor>(state.anchor());
    }

    AnchorSink& anchor() const { return *surroundings.anchor; }
    WriterLock lock() const { return {state.lock(), surroundings.lockPatience}; }

    void readStoreId() {
        auto row = sql("select body from event where seq = 1");
        if (row.step()) storeId = EventFields::fromJson(row.view(0)).text("store");
    }

    void startLog();
    void refuseForeignCompanions();
    void agreeWithAnchor();
    void transact(const std::function<void(Writer&)>& work);
    void afterCommit(const ChainHead& head, const std::optional<SignedPoint>& signature);
    std::optional<SignedPoint> signIfDue(std::int64_t before, const AnchorPoint& head);
    void checkpointLongLog();
    /// By a writer that is about to go. Nobody is waited for: whoever holds the lock is a writer as well.
    void leaveShortLog() noexcept;

    // The log file keeps its size when it starts over, so only SQLite knows how much of it is in use.
    int pagesInLog = 0;
    void countPagesInLog() {
        const auto count = [](void* pages, sqlite3*, const char*, int inLog) {
            *static_cast<int*>(pages) = inLog;
            return SQLITE_OK;
        };
        sqlite3_wal_hook(sql.database().getHandle(), count, &pagesInLog);
    }
};

void Store::Inside::startLog() {
    refuseToBury(sql.path(), anchor());
    // A crash before the first commit leaves a key behind; it is as good as a new one.
    key = SigningKey::load(state.key());
    if (!key) key = SigningKey::create(state.key());
    storeId = toHex(surroundings.random.bytes(16));
    anchor().start(storeId, {});
    EventDraft draft;
    draft.kind = EventKind::kLogStarted;
    draft.fields.set("store", storeId).set("public-key", toHex(key->publicKey()));
    transact([&](Writer& writer) { writer.record(draft); });
}

// An anchor or a key of another log would make this one look forged for good.
void Store::Inside::refuseForeignCompanions() {
    if (const auto owner = anchor().storeId(); owner && *owner != storeId)
        throw Error(ErrorCode::kDamaged, "{} belongs to another log", anchor().name())
            .hint("put the right one back; nothing was written");
    if (!key) return;
    if (!isKeyOfLog(sql, toHex(key->publicKey())))
        throw Error(ErrorCode::kDamaged, "{} is not the key of this log", state.key().native())
            .hint(
                "put the right one back; or move it away and run `gradus audit reanchor`, which makes a new one on the "
                "record");
}

// The cheap check at the start of every write: a log that was cut or replaced is not written on top of. A log that
// ran ahead by the one commit a crash can leave unanchored is caught up with.
void Store::Inside::agreeWithAnchor() {
    const ChainHead head = chainHead(sql);
    if (head.point == anchored) return;
    const auto last = anchor().last();
    if (!last) return;  // lost: `audit verify` says so until somebody starts a new one
    const auto refuse = [&](std::string_view what) {
        throw Error(ErrorCode::kDamaged, "{}: {}; {} has event {}", sql.path().native(), what, anchor().name(),
                    last->seq)
            .hint("nothing was written; run `gradus audit verify`, then restore the latest backup");
    };
    if (last->seq > head.point.seq) refuse(fmt::format("the audit log ends at event {}", head.point.seq));
    if (last->seq > 0) {
        auto row = sql("select hash from event where seq = ?", last->seq);
        if (!row.step() || row.digest(0) != last->hash)
            refuse(fmt::format("event {} is not the one that was recorded", last->seq));
    }
    anchored = *last;
    if (head.point.seq > last->seq && anchor().append(head.point)) anchored = head.point;
}

std::optional<SignedPoint> Store::Inside::signIfDue(std::int64_t before, const AnchorPoint& head) {
    if (!key || before / kEventsPerSignature == head.seq / kEventsPerSignature) return std::nullopt;
    SignedPoint point = key->sign(storeId, head);
    auto insert = sql("insert into signed_checkpoint (seq, hash, public_key, signature) values (?, ?, ?, ?)", head.seq,
                      head.hash);
    insert.bindBlob(point.publicKey).bindBlob(point.signature).run();
    return point;
}

void Store::Inside::transact(const std::function<void(Writer&)>& work) {
    WriteTransaction transaction(sql);
    ChainHead head = chainHead(sql);
    const AnchorPoint before = head.point;
    Writer writer(sql, head, surroundings.clock.now(), surroundings.random);
    work(writer);
    if (writer.spoiled_)
        throw Error(ErrorCode::kNotAllowed, "a step of this transaction was refused; nothing was recorded");
    if (head.point == before) return;  // nothing was recorded: nothing to keep
    writer.log_.finish();
    const auto signature = signIfDue(before.seq, head.point);
    transaction.commit();
    afterCommit(head, signature);
}

// The commit is durable: from here on nothing may be reported as failed.
void Store::Inside::afterCommit(const ChainHead& head, const std::optional<SignedPoint>& signature) {
    if (anchor().append(head.point)) anchored = head.point;
    if (signature) anchor().append(*signature);
    checkpointLongLog();
}

// Emptied, not only moved: that it was moved is known to those who have it open now, and to nobody later. What a reader
// still needs stays, and the log with it.
void Store::Inside::leaveShortLog() noexcept {
    if (pagesInLog <= kLeaveAtMostPages) return;
    sqlite3* const database = sql.database().getHandle();
    try {
        const WriterLock lock(state.lock(), Milliseconds(0));
        sqlite3_busy_timeout(database, 0);
        sqlite3_wal_checkpoint_v2(database, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
    } catch (const std::exception&) {
        return;  // a longer log is only slower to open
    }
}

void Store::Inside::checkpointLongLog() {
    if (pagesInLog < kCheckpointAbovePages) return;
    const int how =
        sizeOf(writeAheadLog(state)) > kTruncateAbove ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
    sqlite3_wal_checkpoint_v2(sql.database().getHandle(), nullptr, how, nullptr, nullptr);
}

Store::Store(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
Store::~Store() {
    if (inside_) inside_->leaveShortLog();
}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

Store Store::openForWriting(const StateDirectory& state, Surroundings surroundings) {
    prepareState(state);
    // Made here, because SQLite would make it readable for everyone, and not opened: closing a descriptor of it would
    // drop the locks of this process's other connections. The files beside it take its mode.
    ::mknod(state.database().c_str(), S_IFREG | 0600, 0);
    auto inside = std::make_unique<Inside>(state, std::move(surroundings), Sql::Mode::kReadWrite);
    const WriterLock lock = inside->lock();
    Ballast(state.ballast()).restore();
    // Looked at before anything is configured: switching another program's file to write-ahead logging changes it.
    inspectSchema(inside->sql);
    configure(inside->sql, Sql::Mode::kReadWrite);
    inside->countPagesInLog();
    migrate(inside->sql);
    if (chainHead(inside->sql).point.seq == 0) {
        inside->startLog();
    } else {
        inside->key = SigningKey::load(state.key());
        inside->readStoreId();
        inside->refuseForeignCompanions();
        inside->agreeWithAnchor();
    }
    return Store(std::move(inside));
}

std::optional<Store> Store::openForReading(const StateDirectory& state, Surroundings surroundings) {
    std::error_code error;
    const auto status = fs::symlink_status(state.database(), error);
    if (status.type() == fs::file_type::not_found) {
        refuseOtherThanDirectory(state.root);
        if (!surroundings.anchor) refuseToBury(state.database(), FileAnchor(state.anchor()));
        return std::nullopt;
    }
    auto inside = std::make_unique<Inside>(state, std::move(surroundings), Sql::Mode::kReadOnly);
    const bool hasSchema = inspectSchema(inside->sql);
    if (!hasSchema || chainHead(inside->sql).point.seq == 0) refuseToBury(state.database(), inside->anchor());
    if (!hasSchema || !isReadable(inside->sql)) return std::nullopt;
    configure(inside->sql, Sql::Mode::kReadOnly);
    inside->readStoreId();
    return Store(std::move(inside));
}

void Store::write(const std::function<void(Writer&)>& work, Urgency urgency) {
    const WriterLock lock = inside_->lock();
    inside_->agreeWithAnchor();
    try {
        inside_->transact(work);
    } catch (const FullDisk&) {
        if (urgency == Urgency::kRoutine || !Ballast(inside_->state.ballast()).release()) throw;
        inside_->transact(work);
    }
}

void Store::makeRoom() const noexcept { Ballast(inside_->state.ballast()).releaseIfShort(); }

const Records& Store::records() const { return inside_->records; }
Sql& Store::sql() { return inside_->sql; }
const AnchorSink& Store::anchor() const { return inside_->anchor(); }
const StateDirectory& Store::state() const { return inside_->state; }
std::string Store::storeId() const { return inside_->storeId; }

std::optional<std::string> Store::anchorGap() const {
    if (inside_->anchored == chainHead(inside_->sql).point) return std::nullopt;
    return fmt::format("the newest events are not anchored in {}; `gradus audit verify` says more", anchor().name());
}

bool Store::hasKey() const { return inside_->key.has_value(); }

bool Store::forgetDeleted() {
    const WriterLock lock = inside_->lock();
    return sqlite3_wal_checkpoint_v2(inside_->sql.database().getHandle(), nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr,
                                     nullptr) == SQLITE_OK;
}

void Store::rebuild() {
    const WriterLock lock = inside_->lock();
    Sql& sql = inside_->sql;
    WriteTransaction transaction(sql);
    sql.script("pragma defer_foreign_keys = on");
    for (const std::string_view table : kStateTables) sql.script(fmt::format("delete from {}", table));
    replay(sql, sql, 1, chainHead(sql).point.seq);
    transaction.commit();
}

void Store::reanchor(ActorId by) {
    std::optional<std::string> newKey;
    if (!inside_->key) {
        inside_->key = SigningKey::create(inside_->state.key());
        newKey = toHex(inside_->key->publicKey());
    }
    const WriterLock lock = inside_->lock();
    inside_->anchor().start(inside_->storeId, chainHead(inside_->sql).point);
    inside_->anchored = chainHead(inside_->sql).point;
    inside_->transact([&](Writer& writer) {
        EventDraft draft;
        draft.kind = EventKind::kLogReanchored;
        draft.actor = by;
        draft.fields.set("since", inside_->anchored.seq).setIfPresent("public-key", newKey);
        writer.record(std::move(draft));
    });
}

void Store::backup(const fs::path& target) {
    if (fs::exists(fs::symlink_status(target)))
        throw Error(ErrorCode::kUsage, "{} is there already", target.native())
            .hint("give a new name; a backup replaces nothing");
    fs::path partial = target;
    partial += ".part";
    std::error_code ignored;
    fs::remove(partial, ignored);
    try {
        inside_->sql.run("vacuum into ?", partial.native());
        const FileDescriptor file = openFile(partial, O_RDWR);
        syncFile(file.get(), partial);
        fs::rename(partial, target);
        syncDirectory(fs::absolute(target).parent_path());
    } catch (...) {
        fs::remove(partial, ignored);
        throw;
    }
}

void Store::copyAnchor(const StateDirectory& backup) {
    Sql copy(backup.database(), Sql::Mode::kReadOnly);
    const AnchorPoint head = chainHead(copy).point;
    if (const auto content = anchor().read()) writeFileDurably(backup.anchor(), anchorText(*content, head.seq));
    if (const auto key = fs::status(inside_->state.key()); fs::is_regular_file(key)) {
        fs::copy_file(inside_->state.key(), backup.key());
        fs::permissions(backup.key(), fs::perms::owner_read | fs::perms::owner_write);
    }
}

std::vector<std::string> Store::check() {
    std::vector<std::string> problems;
    auto integrity = inside_->sql("pragma integrity_check(20)");
    while (integrity.step())
        if (integrity.view(0) != "ok") problems.push_back(integrity.text(0));
    if (auto difference = schemaDifference(inside_->sql)) problems.push_back(std::move(*difference));
    auto dangling = inside_->sql("pragma foreign_key_check");
    while (dangling.step())
        problems.push_back(
            fmt::format("a row of {} refers to a missing row of {}", dangling.text(0), dangling.text(2)));
    for (const Transition& edge : kTransitions)
        if (!inside_->sql.number("select 1 from promotion_edge where from_state = ? and to_state = ?",
                                 nameOf(kPromotionStates, edge.from), nameOf(kPromotionStates, edge.to)))
            problems.push_back(fmt::format("the step from {} to {} is missing from promotion_edge",
                                           nameOf(kPromotionStates, edge.from), nameOf(kPromotionStates, edge.to)));
    if (inside_->sql.number("select count(*) from promotion_edge") != static_cast<std::int64_t>(kTransitions.size()))
        problems.emplace_back("promotion_edge allows steps that this program does not");
    return problems;
}

Store::Sizes Store::sizes() {
    return {sizeOf(inside_->state.database()), sizeOf(writeAheadLog(inside_->state)),
            Ballast(inside_->state.ballast()).isPresent(), std::stoi(inside_->sql.pragma("user_version"))};
}

}  // namespace gradus
