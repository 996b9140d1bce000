// Damaged, foreign and forbidden files: a clear Error or verdict, never a crash, never silently well, and nothing of
// another program's is changed.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <list>
#include <random>

#include "store/audit_verify.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/schema.h"
#include "tests/store/crash_rig.h"
#include "tests/support/case.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::Climb;
using test::SampleStore;
using test::someDigest;

std::string bytesOf(const fs::path& path) { return readSmallFile(path, std::uint64_t{64} << 20, "the file"); }

void writeBytes(const fs::path& path, const std::string& bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

fs::path beside(const fs::path& database, const char* suffix) {
    fs::path path = database;
    return path += suffix;
}

void fill(Store& store) {
    const Climb climb = Climb::begin(store);
    store.write([&](Writer& w) { w.trustRules(climb.project, climb.actor, someDigest("rules"), someDigest("files")); });
    for (int i = 0; i < 3; ++i) store.write([&](Writer& w) { climb.whole(w, "change " + std::to_string(i)); });
}

/// What opening and looking at everything says: empty if all is well.
std::string complaintOf(SampleStore& sample) {
    try {
        auto store = sample.openForReading();
        if (!store) return "there is no store";
        if (const auto problems = store->check(); !problems.empty()) return problems.front();
        const AuditVerdict verdict = verifyAudit(store->sql(), store->anchor());
        return verdict.kind == Tampering::kNone ? "" : verdict.detail;
    } catch (const Error& e) {
        return e.what();
    }
}

/// The message of the Error that opening for writing ends in; empty if it opens.
std::string refusalOf(SampleStore& sample) {
    try {
        sample.open();
        return "";
    } catch (const Error& e) {
        return e.what();
    }
}

/// Every row of every table, so that two databases can be compared whatever their pages look like.
std::string contentOf(const fs::path& database) {
    std::list<std::string> texts;  // a connection borrows the text of its statements
    Sql sql(database, Sql::Mode::kReadOnly);
    std::string out;
    const auto dump = [&](const std::string& statement) {
        auto rows = sql(texts.emplace_back(statement));
        while (rows.step())
            for (int column = 0; column < rows.columns(); ++column)
                out += rows.isNull(column) ? "-|" : rows.text(column) + "|";
    };
    dump("select type, name, tbl_name, sql from sqlite_schema order by name");
    for (const char* table :
         {"event", "payload", "redaction", "signed_checkpoint", "actor", "project", "trusted_rules", "change",
          "revision", "promotion_edge", "promotion", "check_result", "sandbox", "layer", "snapshot", "execution"})
        dump("select * from " + std::string(table) + " order by 1, 2");
    return out;
}

/// Where two contents part, for people.
std::string difference(const std::string& good, const std::string& bad) {
    constexpr std::size_t kContext = 80;
    const auto at = std::mismatch(good.begin(), good.end(), bad.begin(), bad.end()).first - good.begin();
    const auto from = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, at - 40));
    return good.substr(from, kContext) + "\nbecame\n" + bad.substr(std::min(from, bad.size()), kContext);
}

class Damage : public testing::Test {
  protected:
    void SetUp() override {
        Store store = sample.open();
        fill(store);
        store.sql().script("pragma wal_checkpoint(truncate)");
    }
    /// Puts these bytes in the database's place, without the files that belong to the old one.
    void replaceDatabase(const std::string& bytes) {
        removeLog();
        writeBytes(database, bytes);
    }
    void removeLog() {
        fs::remove(beside(database, "-wal"));
        fs::remove(beside(database, "-shm"));
    }
    SampleStore sample;
    const fs::path database = sample.state.database();
};

TEST_F(Damage, ABitFlippedInAnyPageIsFoundOrChangesNothing) {
    GRADUS_CASES("DL3");
    const std::string good = bytesOf(database);
    const std::string content = contentOf(database);
    std::mt19937 chance(20260303);
    std::size_t found = 0;
    std::size_t harmless = 0;
    for (std::size_t page = 0; page < good.size() / 4096; ++page) {
        for (int i = 0; i < test::roundsOf(16, 128); ++i) {
            std::string bad = good;
            const std::size_t at = page * 4096 + chance() % 4096;
            bad[at] = static_cast<char>(bad[at] ^ (1 << chance() % 8));
            replaceDatabase(bad);
            const std::string complaint = complaintOf(sample);
            found += complaint.empty() ? 0 : 1;
            harmless += complaint.empty() ? 1 : 0;
            if (!complaint.empty()) continue;
            const std::string now = contentOf(database);
            EXPECT_TRUE(now == content) << "silently different, byte " << at << ":\n" << difference(content, now);
        }
    }
    EXPECT_GT(found, 0U);
    std::cout << found << " flips found, " << harmless << " in bytes that hold nothing\n";
}

TEST_F(Damage, ADatabaseCutShortIsNoticedByReadersAndWriters) {
    GRADUS_CASES("DL3");
    const std::string good = bytesOf(database);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{4096},
                                   std::size_t{5000}, good.size() / 2, good.size() - 4096, good.size() - 1}) {
        replaceDatabase(good.substr(0, size));
        EXPECT_NE(complaintOf(sample), "") << size << " of " << good.size() << " bytes";
        EXPECT_TRUE(!refusalOf(sample).empty() || !complaintOf(sample).empty()) << size << " bytes, after a writer";
    }
}

TEST_F(Damage, AnEmptyDatabaseWhoseAnchorRemembersEventsIsNotTakenForANewOne) {
    replaceDatabase("");
    EXPECT_NE(refusalOf(sample).find("remembers 103 events"), std::string::npos) << refusalOf(sample);
    EXPECT_NE(complaintOf(sample).find("remembers 103 events"), std::string::npos) << complaintOf(sample);
    fs::remove(database);
    EXPECT_NE(complaintOf(sample).find("remembers 103 events"), std::string::npos) << complaintOf(sample);
}

TEST_F(Damage, ALostWriteAheadLogIsNoticed) {
    GRADUS_CASES("DL3");
    {
        Store store = sample.open();
        const Climb climb = Climb::begin(store);
        store.write([&](Writer& w) { climb.whole(w, "only in the write-ahead log"); });
    }
    ASSERT_GT(fs::file_size(beside(database, "-wal")), 0U);
    removeLog();
    EXPECT_NE(complaintOf(sample).find("the log ends at event 103"), std::string::npos) << complaintOf(sample);
    EXPECT_NE(refusalOf(sample).find("the audit log ends at event 103"), std::string::npos) << refusalOf(sample);
}

TEST_F(Damage, AWriteAheadLogFullOfRubbishIsNoticed) {
    {
        Store store = sample.open();
        const Climb climb = Climb::begin(store);
        store.write([&](Writer& w) { climb.whole(w, "only in the write-ahead log"); });
    }
    std::string log = bytesOf(beside(database, "-wal"));
    for (std::size_t i = 100; i < log.size(); i += 512) log[i] = static_cast<char>(log[i] ^ 0x55);
    writeBytes(beside(database, "-wal"), log);
    fs::remove(beside(database, "-shm"));
    EXPECT_NE(complaintOf(sample), "");
    EXPECT_NE(refusalOf(sample), "");
}

void makeForeignDatabase(const fs::path& path, const std::string& script) {
    fs::remove(path);
    Sql sql(path, Sql::Mode::kReadWrite);
    sql.script(script);
}

TEST_F(Damage, AnotherProgramsDatabaseIsRefusedAndNotTouched) {
    for (const char* script : {"create table t (a); insert into t values (1)",
                               "pragma application_id = 252006674; create table event (seq); pragma user_version = 2",
                               "pragma user_version = 2; create table event (seq)"}) {
        removeLog();
        makeForeignDatabase(database, script);
        const std::string before = bytesOf(database);
        EXPECT_NE(refusalOf(sample).find("is a database of another program"), std::string::npos) << refusalOf(sample);
        EXPECT_NE(complaintOf(sample).find("is a database of another program"), std::string::npos);
        EXPECT_EQ(bytesOf(database), before);
        EXPECT_FALSE(fs::exists(beside(database, "-wal")));
    }
}

TEST_F(Damage, ANewerSchemaIsRefusedNamingBothVersions) {
    GRADUS_CASES("CR16");
    {
        Sql sql(database, Sql::Mode::kReadWrite);
        sql.script(fmt::format("pragma user_version = {}; pragma wal_checkpoint(truncate)", latestSchema() + 1));
    }
    removeLog();
    const std::string before = bytesOf(database);
    for (const std::string& message : {refusalOf(sample), complaintOf(sample)}) {
        EXPECT_NE(message.find(fmt::format("has schema {}", latestSchema() + 1)), std::string::npos) << message;
        EXPECT_NE(message.find(fmt::format("schemas up to {}", latestSchema())), std::string::npos) << message;
    }
    EXPECT_EQ(bytesOf(database), before);
}

struct InTheWay {
    const char* name;
    void (*make)(const fs::path&);
    const char* message;
};
constexpr InTheWay kInTheWay[]{
    {"text", [](const fs::path& path) { writeBytes(path, "Dear diary, today I promoted nothing at all.\n"); },
     "is not an SQLite database"},
    {"directory", [](const fs::path& path) { fs::create_directory(path); }, "is a directory, not a database"},
    {"named pipe", [](const fs::path& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); },
     "is a named pipe, not a database"},
    {"link to itself", [](const fs::path& path) { fs::create_symlink(path, path); },
     "Too many levels of symbolic links"},
};

TEST_F(Damage, SomethingElseInTheDatabasesPlaceIsCalledByItsName) {
    ::alarm(60);  // a named pipe must not make anybody wait for ever
    for (const InTheWay& row : kInTheWay) {
        removeLog();
        fs::remove_all(database);
        row.make(database);
        EXPECT_NE(refusalOf(sample).find(row.message), std::string::npos) << row.name << ": " << refusalOf(sample);
        EXPECT_NE(complaintOf(sample).find(row.message), std::string::npos) << row.name << ": " << complaintOf(sample);
        EXPECT_NE(refusalOf(sample).find(database.native()), std::string::npos) << row.name;
    }
    ::alarm(0);
}

TEST_F(Damage, ADamagedKeyOrLockIsNamed) {
    const std::string key = bytesOf(sample.state.key());
    writeBytes(sample.state.key(), "gradus-audit-key 1 zz\n");
    EXPECT_NE(refusalOf(sample).find(sample.state.key().native() + ":1:"), std::string::npos) << refusalOf(sample);
    for (const std::size_t at : {std::size_t{25}, std::size_t{90}, std::size_t{160}}) {
        std::string flipped = key;
        flipped.at(at) = flipped.at(at) == '0' ? '1' : '0';
        writeBytes(sample.state.key(), flipped);
        EXPECT_NE(refusalOf(sample).find(sample.state.key().native() + ":1:"), std::string::npos) << at;
    }
    writeBytes(sample.state.key(), key);
    EXPECT_EQ(refusalOf(sample), "");
    fs::remove(sample.state.lock());
    fs::create_directory(sample.state.lock());
    EXPECT_NE(refusalOf(sample).find(sample.state.lock().native()), std::string::npos) << refusalOf(sample);
}

TEST_F(Damage, AKeyOfTheFirstReleaseIsStillTheLogs) {
    const std::string key = bytesOf(sample.state.key());
    writeBytes(sample.state.key(), "gradus-audit-key 1 " + key.substr(19, 64) + "\n");
    EXPECT_EQ(refusalOf(sample), "");
    writeBytes(sample.state.key(), "gradus-audit-key 1 " + std::string(64, 'a') + "\n");
    EXPECT_NE(refusalOf(sample).find("is not the key of this log"), std::string::npos) << refusalOf(sample);
}

// --- Migrations ---

/// A database as the first release left it.
void makeOldDatabase(const fs::path& database, const std::string& extra = "") {
    fs::create_directories(database.parent_path());
    Sql sql(database, Sql::Mode::kReadWrite);
    const fs::path migration = fs::path(GRADUS_SOURCE_DIR) / "store/migrations/0001_audit_log.sql";
    sql.script("pragma journal_mode = wal;" + bytesOf(migration) +
               "; pragma user_version = 1; pragma application_id = 0x47524144;" + extra);
}

std::string schemaOf(const fs::path& database) {
    Sql sql(database, Sql::Mode::kReadOnly);
    std::string out = sql.pragma("user_version") + "\n";
    auto rows = sql("select name, sql from sqlite_schema order by name");
    while (rows.step()) out += rows.text(0) + ": " + rows.text(1) + "\n";
    return out;
}

std::string definitions(Sql& sql) {
    std::string out;
    auto rows = sql("select sql from sqlite_schema where sql is not null order by rowid");
    while (rows.step()) out += rows.text(0) + ";\n";
    return out;
}

TEST(StoreSchema, ANewDatabaseIsWhatTheMigrationsMake) {
    Sql made;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(fs::path(GRADUS_SOURCE_DIR) / "store/migrations"))
        files.push_back(entry.path());
    std::ranges::sort(files);
    for (const fs::path& file : files) made.script(bytesOf(file));
    Sql fresh;
    migrate(fresh);
    const std::string should = definitions(made);
    writeBytes("definitions.sql", should);
    EXPECT_TRUE(definitions(fresh) == should)
        << "below the two lines at its top, store/latest_schema.sql should be " << fs::absolute("definitions.sql");
}

TEST(Migration, BringsAnOldDatabaseUpToDate) {
    SampleStore sample;
    makeOldDatabase(sample.state.database());
    EXPECT_EQ(refusalOf(sample), "");
    EXPECT_EQ(complaintOf(sample), "");
}

TEST(Migration, IsNotLeftToReaders) {
    SampleStore unfinished;
    makeOldDatabase(unfinished.state.database());
    EXPECT_EQ(complaintOf(unfinished), "there is no store");
    SampleStore old;
    makeOldDatabase(old.state.database(),
                    "insert into event (seq, at, batch, kind, body, hash) values (1, 0, 0, 'x', '{}', zeroblob(32))");
    EXPECT_NE(complaintOf(old).find(fmt::format("has schema 1, this gradus reads schema {}", latestSchema())),
              std::string::npos)
        << complaintOf(old);
}

TEST(Migration, ThatFailsHalfwayLeavesTheDatabaseAsItWas) {
    SampleStore sample;
    // The fifth table of the second migration is there already: four were made when it fails.
    makeOldDatabase(sample.state.database(), "create table revision (mine integer)");
    const std::string before = schemaOf(sample.state.database());
    EXPECT_NE(refusalOf(sample).find("table revision already exists"), std::string::npos) << refusalOf(sample);
    EXPECT_EQ(schemaOf(sample.state.database()), before);
}

TEST(Migration, KilledAtAnyMomentIsFinishedByTheNext) {
    GRADUS_CASES("CR16");
    std::mt19937 chance(20260304);
    for (int round = 0; round < test::roundsOf(20, 200); ++round) {
        SampleStore sample;
        makeOldDatabase(sample.state.database());
        test::Writers writers(test::writerProgram(), sample.state, 1, "migration");
        writers.listen(std::chrono::microseconds(chance() % 30'000));
        writers.killAll();
        const auto broken = test::brokenPromise(sample.state, writers.acknowledged(), test::After::kKill);
        EXPECT_FALSE(broken) << "round " << round << ": " << *broken;
    }
}

// --- Forbidden ---

/// Runs `work` as a user who owns nothing, and gives what it returned.
std::string asOrdinaryUser(const std::function<std::string()>& work) {
    constexpr uid_t kNobody = 65534;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return "pipe2 failed";
    const FileDescriptor reading(ends[0]);
    FileDescriptor writing(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
        const bool dropped =
            ::geteuid() != 0 || (::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0);
        writeAll(writing.get(), dropped ? work() : "cannot become an ordinary user", "the pipe");
        ::_exit(0);
    }
    writing = FileDescriptor();
    std::string out;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(reading.get(), buffer, sizeof buffer)) > 0;)
        out.append(buffer, static_cast<std::size_t>(got));
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? out : "crashed";
}

void openToEverybody(const fs::path& root) {
    ::chmod(root.parent_path().c_str(), 0755);
    ::chmod(root.c_str(), 0777);
    for (const auto& entry : fs::directory_iterator(root)) ::chmod(entry.path().c_str(), 0666);
}

std::string writeOne(SampleStore& sample) {
    try {
        Store store = sample.open();
        store.write([](Writer& w) { w.actor({ActorKind::kPerson, "somebody new"}); });
        return "written";
    } catch (const Error& e) {
        return e.what();
    }
}

TEST_F(Damage, AReadOnlyDirectoryIsSaidToBeOne) {
    openToEverybody(sample.state.root);
    ::chmod(sample.state.root.c_str(), 0555);
    const std::string said = asOrdinaryUser([&] { return writeOne(sample); });
    EXPECT_NE(said.find(sample.state.root.native() + " cannot be written: Permission denied"), std::string::npos)
        << said;
}

TEST_F(Damage, AReadOnlyDatabaseIsSaidToBeOneAndCanStillBeRead) {
    openToEverybody(sample.state.root);
    ::chmod(database.c_str(), 0444);
    const std::string said = asOrdinaryUser([&] { return writeOne(sample); });
    EXPECT_NE(said.find(database.native() + " cannot be written"), std::string::npos) << said;
    EXPECT_EQ(asOrdinaryUser([&] { return complaintOf(sample); }), "");
}

TEST_F(Damage, AnUnreadableDatabaseIsNamed) {
    openToEverybody(sample.state.root);
    ::chmod(database.c_str(), 0000);
    for (const std::string& said :
         {asOrdinaryUser([&] { return writeOne(sample); }), asOrdinaryUser([&] { return complaintOf(sample); })}) {
        EXPECT_NE(said.find(database.native()), std::string::npos) << said;
        EXPECT_NE(said.find("Permission denied"), std::string::npos) << said;
    }
}

TEST(StateLocation, WithoutAHomeSaysWhatToSet) {
    try {
        locateState([](const std::string&) { return std::nullopt; });
        FAIL();
    } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("GRADUS_HOME"), std::string::npos);
        EXPECT_NE(e.hint(), "");
    }
}

}  // namespace
}  // namespace gradus
