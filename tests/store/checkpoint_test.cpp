// Moving the write-ahead log into the database: often enough, and no oftener.
#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "store/writer_lock.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::Climb;
using test::SampleStore;
using test::someSubmission;

// More than a writer leaves behind, less than it carries along.
void writeMuch(Store& store) {
    const Climb climb = Climb::begin(store);
    for (int i = 0; i < 12; ++i) store.write([&](Writer& w) { climb.whole(w, "change " + std::to_string(i)); });
}

TEST(Checkpoint, HappensOnceTheLogIsLongAndNotAtEveryCommitAfterwards) {
    SampleStore sample;
    Store store = sample.open();
    const Climb climb = Climb::begin(store);
    const auto untouched = fs::last_write_time(sample.state.database());
    int commits = 0;
    while (fs::last_write_time(sample.state.database()) == untouched && ++commits < 400)
        store.write([&](Writer& w) { climb.whole(w, "change " + std::to_string(commits)); });
    EXPECT_LT(commits, 400) << "the log is never moved into the database";
    EXPECT_LT(store.sizes().writeAheadLog, std::uintmax_t{8} << 20);

    // Looked at from outside only: opening the database file here would drop SQLite's locks on it.
    std::set<fs::file_time_type> touched;
    for (int i = 0; i < 20; ++i) {
        store.write([&](Writer& w) { w.submit(climb.project, climb.actor, someSubmission()); });
        touched.insert(fs::last_write_time(sample.state.database()));
    }
    EXPECT_LE(touched.size(), 2U);
}

TEST(Checkpoint, AWriterThatEndsLeavesAShortLog) {
    SampleStore sample;
    { sample.open(); }
    const auto untouched = fs::last_write_time(sample.state.database());
    {
        Store store = sample.open();
        writeMuch(store);
        EXPECT_EQ(fs::last_write_time(sample.state.database()), untouched) << "moved before its end";
    }
    EXPECT_NE(fs::last_write_time(sample.state.database()), untouched);
    EXPECT_EQ(fs::file_size(fs::path(sample.state.database()) += "-wal"), 0U);
    EXPECT_GT(sample.openForReading()->records().counts().events, 12);
}

TEST(Checkpoint, ManyShortWritersNeverLeaveALongLog) {
    SampleStore sample;
    for (int i = 0; i < 40; ++i) {
        Store store = sample.open();
        const Climb climb = Climb::begin(store);
        store.write([&](Writer& w) { climb.whole(w, "change " + std::to_string(i)); });
    }
    EXPECT_LT(fs::file_size(fs::path(sample.state.database()) += "-wal"), 128U * 4096U);
}

TEST(Checkpoint, AWriterThatEndsLeavesTheLogToWhoeverHoldsTheLock) {
    SampleStore sample;
    { sample.open(); }
    const auto untouched = fs::last_write_time(sample.state.database());
    std::optional<WriterLock> lock;
    {
        Store store = sample.open();
        writeMuch(store);
        lock.emplace(sample.state.lock(), Milliseconds(1000));
    }
    EXPECT_EQ(fs::last_write_time(sample.state.database()), untouched);
}

}  // namespace
}  // namespace gradus
