#include "store/sql.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace {

// Only a foreign program can make us wait here: our own writers queue at the writer lock.
constexpr int kForeignLockPatienceMs = 5000;

int flagsFor(Sql::Mode mode) {
    // A connection has one thread at a time by contract, so SQLite need not lock around every call.
    return SQLite::OPEN_NOMUTEX |
           (mode == Sql::Mode::kReadOnly ? SQLite::OPEN_READONLY : SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
}

// Memory statistics take a process-wide lock at every allocation, for figures that nobody asks for. Only effective
// before SQLite's first use, which is what the first connection is.
void configureOnce() {
    static const int kResult = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    static_cast<void>(kResult);
}

/// SQLite says "unable to open" to everything, and would wait for ever at a named pipe. Looks, but opens nothing:
/// closing a descriptor of the file would drop the locks that other connections of this process hold on it.
void refuseWhatCannotBeOpened(const std::filesystem::path& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
        if (errno == ENOENT) return;
        throw Error(ErrorCode::kInfrastructure, "cannot open {}: {}", path.native(), errnoText(errno));
    }
    if (!S_ISREG(info.st_mode))
        throw Error(ErrorCode::kDamaged, "{} is {}, not a database", path.native(), fileTypeName(info.st_mode))
            .hint("move it away, or set GRADUS_HOME to another directory");
    if (::access(path.c_str(), R_OK) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot open {}: {}", path.native(), errnoText(errno))
            .hint("check the owner and mode of the file, or set GRADUS_HOME to another directory");
}

/// " (its disk has 0 bytes free of 67108864)".
std::string freeText(const std::filesystem::path& path) {
    std::error_code error;
    const auto space = std::filesystem::space(path.parent_path(), error);
    return error ? "" : fmt::format(" (its disk has {} bytes free of {})", space.available, space.capacity);
}

}  // namespace

FullDisk::FullDisk(const std::string& path)
    : Error(ErrorCode::kInfrastructure, "no space left for {}{}", path, freeText(path)) {
    std::move(*this).hint(
        "nothing was changed; free some space (`gradus sandbox rm`, `gradus gc`) and run the command again");
}

Sql::Sql(const std::filesystem::path& path, Mode mode) : path_(path) {
    refuseWhatCannotBeOpened(path);
    configureOnce();
    try {
        database_ = std::make_unique<SQLite::Database>(path.string(), flagsFor(mode), kForeignLockPatienceMs);
    } catch (const SQLite::Exception& e) {
        fail(e.getErrorCode(), e.what());
    }
    // The last close would otherwise checkpoint outside the writer lock.
    sqlite3_db_config(database_->getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    sqlite3_db_config(database_->getHandle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_extended_result_codes(database_->getHandle(), 1);
}

Sql::Sql() : path_(":memory:"), database_(std::make_unique<SQLite::Database>(":memory:", SQLite::OPEN_READWRITE)) {}

Sql::~Sql() = default;
Sql::Sql(Sql&&) noexcept = default;
Sql& Sql::operator=(Sql&&) noexcept = default;

void Sql::fail(int code, std::string_view message) const {
    switch (code & 0xff) {
        case SQLITE_FULL:
            throw FullDisk(path_.native());
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            throw Error(ErrorCode::kBusy, "another program holds {} locked", path_.native())
                .hint("close the program that has the database open (sqlite3, a backup tool) and try again");
        case SQLITE_NOTADB:
            throw Error(ErrorCode::kDamaged, "{} is not an SQLite database", path_.native())
                .hint("move the file away, or set GRADUS_HOME to another directory");
        case SQLITE_CORRUPT:
            throw Error(ErrorCode::kDamaged, "{} is damaged: {}", path_.native(), message)
                .hint("run `gradus store check`, then restore the latest backup");
        case SQLITE_READONLY:
            throw Error(ErrorCode::kInfrastructure, "{} cannot be written: {}", path_.native(), message)
                .hint("check the owner and mode of the directory, or set GRADUS_HOME to another one");
        case SQLITE_IOERR:
            // A write that found no room part of the way arrives as an I/O error with the reason in errno.
            if (database_ && sqlite3_system_errno(database_->getHandle()) == ENOSPC) throw FullDisk(path_.native());
            throw Error(ErrorCode::kInfrastructure, "{}: {}", path_.native(), message);
        default:
            throw Error(ErrorCode::kInfrastructure, "{}: {}", path_.native(), message);
    }
}

void Sql::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

sqlite3_stmt* Sql::prepared(std::string_view sql) {
    auto& slot = statements_[sql.data()];
    if (!slot || sqlite3_sql(slot.get()) != sql) {
        sqlite3_stmt* made = nullptr;
        const int code = sqlite3_prepare_v3(database_->getHandle(), sql.data(), static_cast<int>(sql.size()),
                                            SQLITE_PREPARE_PERSISTENT, &made, nullptr);
        slot.reset(made);
        if (code != SQLITE_OK) {
            statements_.erase(sql.data());
            fail(code, database_->getErrorMsg());
        }
    }
    // Two users of one statement would step each other's rows; SQLite itself only notices some of the time.
    if (sqlite3_stmt_busy(slot.get()) != 0)
        throw std::logic_error("a statement is used while it is in use: " + std::string(sql));
    return slot.get();
}

void Sql::script(std::string_view statements) {
    try {
        database_->exec(std::string(statements));
    } catch (const SQLite::Exception& e) {
        fail(e.getErrorCode(), e.what());
    }
}

std::string Sql::pragma(std::string_view name) {
    try {
        SQLite::Statement statement(*database_, "pragma " + std::string(name));
        return statement.executeStep() ? statement.getColumn(0).getString() : std::string();
    } catch (const SQLite::Exception& e) {
        fail(e.getErrorCode(), e.what());
    }
}

ReadTransaction::ReadTransaction(Sql& sql)
    : sql_(sql), isOurs_(sqlite3_get_autocommit(sql.database().getHandle()) != 0) {
    if (isOurs_) sql_.run("begin");
}
ReadTransaction::~ReadTransaction() {
    // A fault may have ended it already.
    if (isOurs_ && sqlite3_get_autocommit(sql_.database().getHandle()) == 0) sql_.database().tryExec("rollback");
}

WriteTransaction::WriteTransaction(Sql& sql) : sql_(sql) {
    try {
        transaction_ = std::make_unique<SQLite::Transaction>(sql.database(), SQLite::TransactionBehavior::IMMEDIATE);
    } catch (const SQLite::Exception& e) {
        sql_.fail(e.getErrorCode(), e.what());
    }
}
WriteTransaction::~WriteTransaction() = default;

void WriteTransaction::commit() {
    try {
        transaction_->commit();
    } catch (const SQLite::Exception& e) {
        sql_.fail(e.getErrorCode(), e.what());
    }
}

Sql::Call::~Call() {
    if (statement_ == nullptr) return;
    // Repeats the code of a failed step, which was reported where it happened.
    sqlite3_reset(statement_);
}

void Sql::Call::checkBound(int code) const {
    if (code != SQLITE_OK) owner_->fail(code, owner_->database().getErrorMsg());
}

Sql::Call& Sql::Call::bind(std::int64_t value) {
    checkBound(sqlite3_bind_int64(statement_, ++bound_, value));
    return *this;
}

Sql::Call& Sql::Call::bind(std::string_view text) {
    // A null pointer would bind NULL; an empty text is not that.
    const char* bytes = text.data() == nullptr ? "" : text.data();
    checkBound(sqlite3_bind_text(statement_, ++bound_, bytes, static_cast<int>(text.size()), SQLITE_STATIC));
    return *this;
}

Sql::Call& Sql::Call::bindBlob(std::string_view bytes) {
    checkBound(sqlite3_bind_blob(statement_, ++bound_, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC));
    return *this;
}

Sql::Call& Sql::Call::bindNull() {
    checkBound(sqlite3_bind_null(statement_, ++bound_));
    return *this;
}

bool Sql::Call::step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    owner_->fail(code, owner_->database().getErrorMsg());
}

std::int64_t Sql::Call::run() {
    while (step()) {
    }
    return owner_->database().getChanges();
}

int Sql::Call::columns() const { return sqlite3_column_count(statement_); }

std::int64_t Sql::Call::number(int column) const { return sqlite3_column_int64(statement_, column); }

std::string_view Sql::Call::view(int column) const {
    const void* bytes = sqlite3_column_blob(statement_, column);
    return {static_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::string Sql::Call::text(int column) const { return std::string(view(column)); }

Digest Sql::Call::digest(int column) const {
    const auto digest = Digest::fromBytes(view(column));
    if (!digest) owner_->fail(SQLITE_CORRUPT, "a digest of the wrong length");
    return *digest;
}

bool Sql::Call::isNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

std::optional<std::int64_t> Sql::Call::optionalNumber(int column) const {
    return isNull(column) ? std::nullopt : std::optional(number(column));
}
std::optional<std::string> Sql::Call::optionalText(int column) const {
    return isNull(column) ? std::nullopt : std::optional(text(column));
}
std::optional<Digest> Sql::Call::optionalDigest(int column) const {
    return isNull(column) ? std::nullopt : std::optional(digest(column));
}

}  // namespace gradus
