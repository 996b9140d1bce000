// Moving the write-ahead log into the database: often enough, and no oftener.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/sample_store.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::Climb;
using test::SampleStore;
using test::someSubmission;

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

}  // namespace
}  // namespace gradus
