// The walk hashes in batches and in another thread; what it finds is what a walk event by event finds.
#include <gtest/gtest.h>

#include "store/audit_log.h"
#include "store/audit_verify.h"
#include "tests/support/case.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;

/// More events than several batches hold, the last batch not a full one.
class LongChain : public testing::Test {
  protected:
    void SetUp() override {
        const Climb climb = Climb::begin(store);
        store.write([&](Writer& w) {
            while (w.counts().events < 7000) climb.whole(w, "change");
        });
        events = store.records().counts().events;
        store.sql().script("drop trigger event_is_never_updated; drop trigger event_is_never_deleted");
    }

    AuditVerdict walk() { return verifyChain(store.sql()); }

    SampleStore sample;
    Store store = sample.open();
    std::int64_t events = 0;
};

TEST_F(LongChain, IsWhole) {
    const AuditVerdict verdict = walk();
    EXPECT_EQ(verdict.kind, Tampering::kNone) << verdict.detail;
    EXPECT_EQ(verdict.events, events);
}

TEST_F(LongChain, NamesTheFirstBrokenEventWhereverItIsInABatch) {
    for (const std::int64_t seq : {std::int64_t{1}, std::int64_t{2}, std::int64_t{1999}, std::int64_t{2000},
                                   std::int64_t{2001}, std::int64_t{3333}, std::int64_t{4000}, events - 1, events}) {
        store.sql().run("update event set at = at + 1 where seq = ?", seq);
        const AuditVerdict verdict = walk();
        EXPECT_EQ(verdict.kind, Tampering::kAltered) << seq;
        EXPECT_EQ(verdict.seq, seq);
        EXPECT_EQ(verdict.events, seq - 1) << "every event before it was found whole";
        store.sql().run("update event set at = at - 1 where seq = ?", seq);
    }
    EXPECT_EQ(walk().kind, Tampering::kNone);
}

TEST_F(LongChain, NamesTheEarlierOfTwoBrokenEvents) {
    store.sql().script("update event set at = at + 1 where seq = 2500 or seq = 2501 or seq = 6500");
    EXPECT_EQ(walk().seq, 2500);
}

TEST_F(LongChain, NamesAGapAndAHashOfTheWrongLength) {
    store.sql().script("pragma ignore_check_constraints = on; update event set hash = zeroblob(31) where seq = 5000");
    EXPECT_EQ(walk().seq, 5000);
    store.sql().script("pragma foreign_keys = off; delete from event where seq = 4001");
    const AuditVerdict verdict = walk();
    EXPECT_EQ(verdict.kind, Tampering::kDeleted) << verdict.detail;
    EXPECT_EQ(verdict.seq, 4001);
}

TEST_F(LongChain, SaysHowFarItIs) {
    std::vector<std::int64_t> told;
    verifyChain(store.sql(), [&](std::int64_t done, std::int64_t total) {
        told.push_back(done);
        EXPECT_EQ(total, events);
    });
    EXPECT_TRUE(told.empty()) << "a log of one piece is over before there is anything to tell";
}

// A walk over a large log reads in pieces: between two of them nothing is held, and the log of writes can be cut.
TEST_F(LongChain, LetsTheWriteAheadLogBeCutMeanwhile) {
    GRADUS_CASES("DL11");
    const Climb climb = Climb::begin(store);
    store.write([&](Writer& w) {
        while (w.counts().events < 51'000) climb.whole(w, "change");
    });
    auto reader = sample.openForReading();
    bool cut = false;
    const AuditVerdict verdict = verifyChain(reader->sql(), [&](std::int64_t, std::int64_t) {
        store.write([&](Writer& w) { climb.whole(w, "meanwhile"); });
        cut = store.forgetDeleted();
    });
    EXPECT_EQ(verdict.kind, Tampering::kNone) << verdict.detail;
    EXPECT_TRUE(cut);
    EXPECT_EQ(std::filesystem::file_size(std::filesystem::path(sample.state.database()) += "-wal"), 0U);
}

}  // namespace
}  // namespace gradus
