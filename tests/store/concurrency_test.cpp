// Many Stores on one directory, in threads and in processes: every commit lands, and readers only ever see whole ones.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "store/audit_verify.h"
#include "store/model/error.h"
#include "tests/store/crash_rig.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;
using test::someSubmission;

constexpr int kThreads = 4;
constexpr int kCommits = 15;

struct Surrounding {
    SystemClock clock;
    SystemRandom random;
    Store open(const StateDirectory& state) { return Store::openForWriting(state, {.clock = clock, .random = random}); }
};

void writeMany(const StateDirectory& state, int thread) {
    Surrounding around;
    Store store = around.open(state);
    const Climb climb = Climb::begin(store);
    for (int i = 0; i < kCommits; ++i)
        store.write([&](Writer& w) {
            const auto change = w.submit(climb.project, climb.actor, someSubmission(fmt::format("{}.{}", thread, i)));
            climb.stage(w, change, "staging", PromotionState::kPromoted);
        });
}

/// Puts texts in and takes them away again.
void redactMany(const StateDirectory& state) {
    Surrounding around;
    Store store = around.open(state);
    const Climb climb = Climb::begin(store);
    for (int i = 0; i < kCommits; ++i) {
        std::int64_t seq = 0;
        store.write([&](Writer& w) {
            w.submit(climb.project, climb.actor, someSubmission("a secret"));
            seq = w.counts().events;
        });
        store.write([&](Writer& w) { w.redact(seq, climb.actor); });
    }
}

/// What a reader must never see: half of a transaction.
std::optional<std::string> halfTransaction(Store& store) {
    if (store.sql().number("select 1 from promotion where state <> 'promoted'")) return "a promotion on its way";
    if (store.sql().number("select 1 from change c where not exists (select 1 from revision r where r.change = c.id)"))
        return "a change without its revision";
    if (store.sql().number("select 1 from (select count(*) as n, max(seq) as last from event) where n <> last"))
        return "a gap in the log";
    return std::nullopt;
}

/// Verifies again and again until the writers are done; gives the first thing that is wrong.
std::optional<std::string> watch(const StateDirectory& state, const std::atomic<int>& writing, int& times) {
    Surrounding around;
    auto store = Store::openForReading(state, {.clock = around.clock, .random = around.random});
    do {
        if (auto half = halfTransaction(*store)) return half;
        const AuditVerdict verdict = verifyAudit(store->sql(), store->anchor());
        if (verdict.kind != Tampering::kNone)
            return fmt::format("{} at {}: {}", nameOf(kTamperings, verdict.kind), verdict.seq, verdict.detail);
        ++times;
    } while (writing > 0);
    return std::nullopt;
}

class Concurrency : public testing::Test {
  protected:
    SampleStore sample;

    /// Runs every job in a thread of its own and watches meanwhile.
    void runWatched(const std::vector<std::function<void()>>& jobs) {
        std::atomic<int> writing = static_cast<int>(jobs.size());
        std::vector<std::thread> threads;
        for (const auto& job : jobs)
            threads.emplace_back([&] {
                EXPECT_NO_THROW(job());
                --writing;
            });
        int times = 0;
        const auto wrong = watch(sample.state, writing, times);
        for (std::thread& thread : threads) thread.join();
        EXPECT_FALSE(wrong) << *wrong;
        EXPECT_GT(times, 0);
        std::cout << "verified " << times << " times while " << jobs.size() << " wrote\n";
    }
};

TEST_F(Concurrency, ThreadsWithStoresOfTheirOwnLoseNothing) {
    test::prepareStore(sample.state);
    std::vector<std::function<void()>> jobs;
    for (int i = 0; i < kThreads; ++i) jobs.emplace_back([&, i] { writeMany(sample.state, i); });
    runWatched(jobs);
    auto store = sample.openForReading();
    EXPECT_EQ(store->records().counts().changes, kThreads * kCommits);
    EXPECT_EQ(store->records().counts().events, 3 + kThreads * kCommits * 9);
}

TEST_F(Concurrency, ThreadsThatCreateTheStoreTogetherCreateOne) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { EXPECT_NO_THROW(writeMany(sample.state, i)); });
    for (std::thread& thread : threads) thread.join();
    auto store = sample.openForReading();
    EXPECT_EQ(store->records().counts().events, 3 + kThreads * kCommits * 9);
    EXPECT_EQ(verifyAudit(store->sql(), store->anchor()).kind, Tampering::kNone);
}

TEST_F(Concurrency, ARedactionDuringAVerificationIsNoTampering) {
    test::prepareStore(sample.state);
    runWatched({[&] { redactMany(sample.state); }, [&] { redactMany(sample.state); }});
}

TEST_F(Concurrency, ProcessesLoseNothing) {
    test::prepareStore(sample.state);
    test::Writers writers(test::writerProgram(), sample.state, 4, "process");
    EXPECT_TRUE(writers.await(120)) << writers.complaints().front();
    auto store = sample.openForReading();
    const AuditVerdict verdict = verifyAudit(store->sql(), store->anchor());
    EXPECT_EQ(verdict.kind, Tampering::kNone) << verdict.detail;
    writers.killAll();
    const auto broken = test::brokenPromise(sample.state, writers.acknowledged(), test::After::kKill);
    EXPECT_FALSE(broken) << *broken;
}

TEST_F(Concurrency, AForeignProgramThatHoldsTheDatabaseIsAnErrorAfterAWhile) {
    Store store = sample.open();
    const Climb climb = Climb::begin(store);
    Sql foreign(sample.state.database(), Sql::Mode::kReadWrite);
    foreign.script("begin immediate");
    try {
        store.write([&](Writer& w) { climb.whole(w, "never written"); });
        FAIL() << "written under a foreign lock";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kBusy);
        EXPECT_NE(e.hint(), "");
    }
    foreign.script("rollback");
    store.write([&](Writer& w) { climb.whole(w, "written after all"); });
    EXPECT_EQ(verifyAudit(store.sql(), store.anchor()).kind, Tampering::kNone);
}

}  // namespace
}  // namespace gradus
