// What is remembered about races: through the store's public methods only.
#include <gtest/gtest.h>

#include "store/audit_verify.h"
#include "store/model/error.h"
#include "store/race_records.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;
using test::someSubmission;

class RaceRecordsTest : public testing::Test {
  protected:
    SampleStore sample;
    Store store = sample.open();
    Climb climb = Climb::begin(store);
    const ProcessIdentity owner{"b0075eed-0000-4000-8000-000000000000", 4026531836, 71, 5};

    std::int64_t start(const std::string& candidates) {
        std::int64_t id = 0;
        store.write([&](Writer& w) { id = startRace(w, {climb.project, owner, candidates}, climb.actor); });
        return id;
    }
    void expectWhole() {
        EXPECT_EQ(verifyAudit(store.sql(), store.anchor()).kind, Tampering::kNone);
        store.rebuild();
        EXPECT_EQ(verifyAudit(store.sql(), store.anchor()).kind, Tampering::kNone);
    }
};

TEST_F(RaceRecordsTest, AreRememberedFromStartToEnd) {
    const std::int64_t first = start(R"({"candidates":["a"]})");
    const std::int64_t second = start(R"({"candidates":["b"]})");
    std::int64_t change = 0;
    store.write([&](Writer& w) {
        change = w.submit(climb.project, climb.actor, someSubmission());
        endRace(w, {first, RaceOutcome::kWon, change, R"({"candidates":["a, compared"]})"}, climb.actor);
    });
    const RaceRecords races = store.records().races();
    const auto won = races.race(first);
    ASSERT_TRUE(won);
    EXPECT_EQ(won->outcome, RaceOutcome::kWon);
    EXPECT_EQ(won->change, change);
    EXPECT_EQ(won->candidates, R"({"candidates":["a, compared"]})");
    EXPECT_TRUE(won->endedAt);
    const auto running = races.race(second);
    ASSERT_TRUE(running);
    EXPECT_FALSE(running->outcome);
    EXPECT_EQ(running->owner, owner);
    EXPECT_EQ(running->candidates, R"({"candidates":["b"]})");
    const auto all = races.races(climb.project, 10);
    ASSERT_EQ(all.size(), 2);
    EXPECT_EQ(all.front().id, second) << "newest first";
    EXPECT_FALSE(races.race(3));
    expectWhole();
}

TEST_F(RaceRecordsTest, EndOnce) {
    const std::int64_t race = start("{}");
    const auto end = [&](RaceOutcome outcome) {
        store.write([&](Writer& w) { endRace(w, {race, outcome, {}, "{}"}, climb.actor); });
    };
    end(RaceOutcome::kNoWinner);
    EXPECT_THROW(end(RaceOutcome::kWon), Error);
    EXPECT_THROW(store.write([&](Writer& w) { endRace(w, {9, RaceOutcome::kWon, {}, "{}"}, climb.actor); }), Error);
    EXPECT_EQ(store.records().races().race(race)->outcome, RaceOutcome::kNoWinner);
    expectWhole();
}

TEST_F(RaceRecordsTest, WhatTheyWereCalledCanBeTakenAway) {
    const std::int64_t race = start(R"({"candidates":["secret"]})");
    const std::int64_t seq = store.sql().number("select max(seq) from event").value_or(0);
    store.write([&](Writer& w) { w.redact(seq, climb.actor); });
    EXPECT_FALSE(store.records().races().race(race)->candidates);
    expectWhole();
}

}  // namespace
}  // namespace gradus
