#include "store/audit_query.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <set>

#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using namespace std::chrono_literals;
using test::Climb;

/// Three changes of two agents in two projects, an hour apart.
class AuditQueryTest : public testing::Test {
  protected:
    AuditQueryTest() : store(sample.open()), climb(Climb::begin(store)) {
        first = submit(climb);
        Climb second = climb;
        store.write([&](Writer& w) {
            second.actor = w.actor({ActorKind::kAgent, "mender"});
            other = w.project({"/srv/other", 2049, 4712}, second.actor);
        });
        second.project = other;
        mender = second.actor;
        submit(second);
        last = submit(climb);
    }

    std::int64_t submit(const Climb& who) {
        std::int64_t change = 0;
        sample.clock.advance(1h);
        store.write([&](Writer& w) { change = who.whole(w, "change at " + formatTime(sample.clock.now())); });
        return change;
    }

    std::vector<Event> ask(const AuditQuery& query) { return queryEvents(store.sql(), query); }

    /// Every event, filtered by the plainest means.
    std::vector<std::int64_t> expected(const std::function<bool(const Event&)>& wanted) {
        std::vector<std::int64_t> seqs;
        for (const Event& event : ask({.limit = 1'000'000}))
            if (wanted(event)) seqs.push_back(event.seq);
        return seqs;
    }

    void expectSame(AuditQuery query, const std::function<bool(const Event&)>& wanted) {
        query.limit = 1'000'000;
        const auto want = expected(wanted);
        EXPECT_FALSE(want.empty()) << "a filter that matches nothing proves nothing";
        EXPECT_EQ(seqsOf(ask(query)), want);
    }

    static std::vector<std::int64_t> seqsOf(const std::vector<Event>& events) {
        std::vector<std::int64_t> seqs;
        seqs.reserve(events.size());
        for (const Event& event : events) seqs.push_back(event.seq);
        return seqs;
    }

    test::SampleStore sample;
    Store store;
    Climb climb;
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::int64_t other = 0;
    ActorId mender = 0;
};

TEST_F(AuditQueryTest, GivesEverythingInOrderWithoutAFilter) {
    const auto seqs = seqsOf(ask({.limit = 1'000'000}));
    ASSERT_EQ(static_cast<std::int64_t>(seqs.size()), store.records().counts().events);
    for (std::size_t i = 0; i < seqs.size(); ++i) EXPECT_EQ(seqs[i], static_cast<std::int64_t>(i) + 1);
}

TEST_F(AuditQueryTest, FiltersByEachWordAlone) {
    expectSame({.actors = {mender}}, [&](const Event& e) { return e.actor == mender; });
    expectSame({.kind = EventKind::kCheckFinished}, [](const Event& e) { return e.kind == EventKind::kCheckFinished; });
    expectSame({.stage = "staging"}, [](const Event& e) { return e.stage == "staging"; });
    expectSame({.change = last}, [&](const Event& e) { return e.change == last; });
    expectSame({.project = other}, [&](const Event& e) { return e.project == other; });
    expectSame({.actors = {mender, climb.actor}},
               [&](const Event& e) { return e.actor == mender || e.actor == climb.actor; });
}

TEST_F(AuditQueryTest, FiltersByAllWordsTogether) {
    const Time now = sample.clock.now();
    expectSame({.since = now - 2h,
                .until = now + 1ms,
                .actors = {climb.actor},
                .kind = EventKind::kPromotionMoved,
                .stage = "production",
                .change = last,
                .project = climb.project},
               [&](const Event& e) {
                   return e.at >= now - 2h && e.actor == climb.actor && e.kind == EventKind::kPromotionMoved &&
                          e.stage == "production" && e.change == last && e.project == climb.project;
               });
    EXPECT_TRUE(ask({.change = first, .project = other}).empty());
    EXPECT_TRUE(ask({.stage = "nowhere"}).empty());
}

TEST_F(AuditQueryTest, CombinesEveryPairOfFilters) {
    const std::vector<std::pair<std::function<void(AuditQuery&)>, std::function<bool(const Event&)>>> filters{
        {[&](AuditQuery& q) { q.actors = {climb.actor}; }, [&](const Event& e) { return e.actor == climb.actor; }},
        {[](AuditQuery& q) { q.kind = EventKind::kPromotionMoved; },
         [](const Event& e) { return e.kind == EventKind::kPromotionMoved; }},
        {[](AuditQuery& q) { q.stage = "local"; }, [](const Event& e) { return e.stage == "local"; }},
        {[&](AuditQuery& q) { q.change = last; }, [&](const Event& e) { return e.change == last; }},
        {[&](AuditQuery& q) { q.project = climb.project; }, [&](const Event& e) { return e.project == climb.project; }},
        {[&](AuditQuery& q) { q.since = sample.clock.now() - 1h; },
         [&](const Event& e) { return e.at >= sample.clock.now() - 1h; }}};
    for (const auto& [narrow, holds] : filters)
        for (const auto& [narrowToo, holdsToo] : filters) {
            AuditQuery query;
            narrow(query);
            narrowToo(query);
            expectSame(query, [&, &a = holds, &b = holdsToo](const Event& e) { return a(e) && b(e); });
        }
}

TEST_F(AuditQueryTest, SinceIsIncludedAndUntilIsNot) {
    const Time now = sample.clock.now();
    const auto at = [&](Time from, Time to) { return ask({.since = from, .until = to, .change = last}).size(); };
    const std::size_t all = ask({.change = last}).size();
    EXPECT_EQ(at(now, now + 1ms), all);
    EXPECT_EQ(at(now - 1h, now), 0U);
    EXPECT_EQ(at(now + 1ms, now + 1h), 0U);
}

TEST_F(AuditQueryTest, ALimitKeepsTheNewestAndStillListsThemOldestFirst) {
    const auto all = seqsOf(ask({.stage = "local", .limit = 1000}));
    const auto some = seqsOf(ask({.stage = "local", .limit = 3}));
    EXPECT_EQ(some, std::vector<std::int64_t>(all.end() - 3, all.end()));
    EXPECT_EQ(ask({.limit = 1}).front().seq, store.records().counts().events);
}

TEST_F(AuditQueryTest, FollowingGivesOnlyWhatIsNewerAndTheOldestOfThatFirst) {
    const std::int64_t end = store.records().counts().events;
    EXPECT_TRUE(ask({.afterSeq = end}).empty());
    submit(climb);
    EXPECT_EQ(seqsOf(ask({.afterSeq = end, .limit = 2})), (std::vector<std::int64_t>{end + 1, end + 2}));
    expectSame({.stage = "local", .afterSeq = end}, [&](const Event& e) { return e.stage == "local" && e.seq > end; });
}

TEST_F(AuditQueryTest, FollowingMissesNothingWhenTheClockGoesBack) {
    const std::int64_t end = store.records().counts().events;
    sample.clock.advance(-10h);
    submit(climb);
    EXPECT_EQ(ask({.afterSeq = end, .limit = 1000}).size(),
              static_cast<std::size_t>(store.records().counts().events - end));
}

TEST_F(AuditQueryTest, FindsEveryActorOfAName) {
    ActorId person = 0;
    store.write([&](Writer& w) { person = w.actor({ActorKind::kPerson, "fixer"}); });
    const auto ids = actorsNamed(store.sql(), "fixer");
    EXPECT_EQ(std::set<ActorId>(ids.begin(), ids.end()), (std::set<ActorId>{climb.actor, person}));
    EXPECT_EQ(actorsNamed(store.sql(), "agent:fixer"), std::vector{climb.actor});
    EXPECT_EQ(actorsNamed(store.sql(), "person:fixer"), std::vector{person});
    EXPECT_TRUE(actorsNamed(store.sql(), "nobody").empty());
    EXPECT_TRUE(actorsNamed(store.sql(), "' or 1=1 --").empty());
}

TEST_F(AuditQueryTest, AValueIsNeverReadAsSql) {
    EXPECT_TRUE(ask({.stage = "local' or '1'='1"}).empty());
    EXPECT_TRUE(ask({.stage = "%"}).empty());
}

/// What SQLite plans for every statement that queries prepared on this connection.
std::string plansOf(Sql& sql) {
    sqlite3* handle = sql.database().getHandle();
    std::vector<std::string> texts;
    for (sqlite3_stmt* one = sqlite3_next_stmt(handle, nullptr); one != nullptr; one = sqlite3_next_stmt(handle, one))
        texts.emplace_back(sqlite3_sql(one));
    std::string plans;
    for (const std::string& text : texts) {
        if (text.find("from event") == std::string::npos || text.find("where") == std::string::npos) continue;
        SQLite::Statement plan(sql.database(), "explain query plan " + text);
        while (plan.executeStep()) plans += plan.getColumn(3).getString() + "\n";
    }
    return plans;
}

/// How many steps SQLite's engine takes for a query: what it costs, without a clock.
std::int64_t stepsOf(Store& store, const AuditQuery& query) {
    struct Counter {
        std::int64_t steps = 0;
    } counter;
    sqlite3* handle = store.sql().database().getHandle();
    constexpr int kEvery = 10;
    const auto count = [](void* told) {
        static_cast<Counter*>(told)->steps += kEvery;
        return 0;
    };
    sqlite3_progress_handler(handle, kEvery, count, &counter);
    queryEvents(store.sql(), query);
    sqlite3_progress_handler(handle, 0, nullptr, nullptr);
    return counter.steps;
}

TEST_F(AuditQueryTest, NeverWalksTheWholeLog) {
    const std::vector<AuditQuery> shapes{{.since = sample.clock.now()},
                                         {.actors = {mender}},
                                         {.actors = {mender, climb.actor}},
                                         {.kind = EventKind::kRulesTrusted},
                                         {.stage = "local"},
                                         {.change = first},
                                         {.project = other},
                                         {.afterSeq = 5},
                                         {.stage = "local", .afterSeq = 5},
                                         {.kind = EventKind::kCheckFinished, .change = first}};
    for (const AuditQuery& shape : shapes) ask(shape);
    const std::string plans = plansOf(store.sql());
    EXPECT_EQ(plans.find("SCAN event"), std::string::npos) << plans;
    for (const char* search : {"SEARCH event USING INTEGER PRIMARY KEY", "SEARCH event_index USING PRIMARY KEY"})
        EXPECT_NE(plans.find(search), std::string::npos) << plans;
}

TEST_F(AuditQueryTest, CostsHardlyMoreInALogTenTimesAsLong) {
    const Time moment = sample.clock.now() - 30min;
    const std::vector<AuditQuery> shapes{{.until = moment, .limit = 5},
                                         {.until = moment, .actors = {mender}, .limit = 5},
                                         {.until = moment, .kind = EventKind::kCheckFinished, .limit = 5},
                                         {.until = moment, .stage = "local", .limit = 5},
                                         {.change = first, .limit = 5},
                                         {.until = moment, .project = other, .limit = 5}};
    std::vector<std::int64_t> before;
    for (const AuditQuery& shape : shapes) before.push_back(stepsOf(store, shape));
    for (int i = 0; i < 27; ++i) submit(climb);
    for (std::size_t i = 0; i < shapes.size(); ++i)
        EXPECT_LE(stepsOf(store, shapes[i]), before[i] + 100) << "shape " << i;
}

}  // namespace
}  // namespace gradus
