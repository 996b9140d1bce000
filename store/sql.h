#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "store/model/digest.h"
#include "store/model/error.h"

namespace SQLite {
class Database;
class Transaction;
}  // namespace SQLite
struct sqlite3_stmt;

namespace gradus {

/// There was no room to write; nothing was changed. Told apart because a vital write can still make room.
class FullDisk : public Error {
  public:
    explicit FullDisk(const std::string& path);
};

/// One SQLite connection with its prepared statements: the door through which store/ speaks SQL. Values are always
/// bound. Faults throw Error naming the database file. One thread at a time.
class Sql {
  public:
    enum class Mode { kReadOnly, kReadWrite };
    Sql(const std::filesystem::path& path, Mode mode);
    /// A database in memory, for rebuilding state beside the real one.
    Sql();
    ~Sql();
    Sql(Sql&&) noexcept;
    Sql& operator=(Sql&&) noexcept;

    /// A statement in use: bound, stepped and read, and reset when it goes out of scope, so that no read transaction
    /// outlives its user.
    class Call {
      public:
        template <typename... Args>
        Call(Sql& owner, sqlite3_stmt* statement, const Args&... args) : owner_(&owner), statement_(statement) {
            (bind(args), ...);
        }
        Call(const Call&) = delete;
        Call& operator=(const Call&) = delete;
        ~Call();

        Call& bind(std::int64_t value);
        Call& bind(int value) { return bind(static_cast<std::int64_t>(value)); }
        Call& bind(std::string_view text);  ///< not copied: must live until the call ends
        Call& bind(const std::string& text) { return bind(std::string_view(text)); }
        Call& bind(const char* text) { return bind(std::string_view(text)); }
        Call& bind(const Digest& digest) { return bindBlob(digest.view()); }
        Call& bindBlob(std::string_view bytes);
        Call& bindNull();
        template <typename T>
        Call& bind(const std::optional<T>& value) {
            return value ? bind(*value) : bindNull();
        }

        /// True while there is a row to read.
        bool step();
        /// Runs a statement that returns no rows; gives the number of rows changed.
        std::int64_t run();

        int columns() const;
        std::int64_t number(int column) const;
        std::string text(int column) const;
        /// Text or blob without a copy, valid until the next step.
        std::string_view view(int column) const;
        Digest digest(int column) const;
        bool isNull(int column) const;
        std::optional<std::int64_t> optionalNumber(int column) const;
        std::optional<std::string> optionalText(int column) const;
        std::optional<Digest> optionalDigest(int column) const;

      private:
        void checkBound(int code) const;
        Sql* owner_;
        sqlite3_stmt* statement_;
        int bound_ = 0;
    };

    /// A statement with its values bound, ready to step. `sql` must be a literal or otherwise live as long as the
    /// connection: it is the cache's key. A statement is used by one call at a time.
    template <typename... Args>
    Call operator()(std::string_view sql, const Args&... args) {
        return Call(*this, prepared(sql), args...);
    }
    template <typename... Args>
    std::int64_t run(std::string_view sql, const Args&... args) {
        return Call(*this, prepared(sql), args...).run();
    }
    /// The first column of the first row, if there is a row and it is not null.
    template <typename... Args>
    std::optional<std::int64_t> number(std::string_view sql, const Args&... args) {
        Call call(*this, prepared(sql), args...);
        if (!call.step()) return std::nullopt;
        return call.optionalNumber(0);
    }

    /// Several statements without values: pragmas, schema.
    void script(std::string_view statements);
    std::string pragma(std::string_view name);

    SQLite::Database& database() { return *database_; }
    const std::filesystem::path& path() const { return path_; }

    /// Turns SQLite's code into ours: full disk, busy, damaged, not a database.
    [[noreturn]] void fail(int code, std::string_view message) const;

  private:
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const;
    };
    // SQLiteCpp's own Statement copies every text it binds and every column it reads; the log's hot paths cannot
    // afford that, so statements are kept as SQLite gives them.
    sqlite3_stmt* prepared(std::string_view sql);

    std::filesystem::path path_;
    std::unique_ptr<SQLite::Database> database_;
    // By where the text lies: hashing some hundred letters for every statement was as dear as binding its values.
    std::unordered_map<const char*, std::unique_ptr<sqlite3_stmt, Finalize>> statements_;
};

/// Everything read while it lives is of one moment, and the file is locked once instead of at every statement. Joins a
/// transaction that is under way already. Keep it short: the write-ahead log cannot be reset meanwhile.
class ReadTransaction {
  public:
    explicit ReadTransaction(Sql& sql);
    ~ReadTransaction();
    ReadTransaction(const ReadTransaction&) = delete;
    ReadTransaction& operator=(const ReadTransaction&) = delete;

  private:
    Sql& sql_;
    bool isOurs_;
};

/// Takes SQLite's write lock at once; rolled back unless committed. Faults throw Error, as everywhere in Sql.
class WriteTransaction {
  public:
    explicit WriteTransaction(Sql& sql);
    ~WriteTransaction();
    void commit();

  private:
    Sql& sql_;
    std::unique_ptr<SQLite::Transaction> transaction_;
};

}  // namespace gradus
