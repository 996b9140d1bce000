// Whatever is asked of whatever log, by whatever clock: the indexes give what a plain filter over every event gives.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "store/audit_query.h"
#include "store/audit_verify.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;

/// Every event, by the walk that uses no index.
std::vector<Event> allOf(Store& store) {
    return queryEvents(store.sql(), {.afterSeq = 0, .limit = std::numeric_limits<std::int64_t>::max()});
}

bool fits(const AuditQuery& query, const Event& event) {
    const auto holds = [](const auto& wanted, const auto& is) { return !wanted || is == *wanted; };
    return (!query.since || event.at >= *query.since) && (!query.until || event.at < *query.until) &&
           holds(query.kind, event.kind) && holds(query.stage, event.stage) && holds(query.change, event.change) &&
           holds(query.project, event.project) &&
           (query.actors.empty() ||
            std::ranges::any_of(query.actors, [&](ActorId actor) { return event.actor == actor; }));
}

std::vector<std::int64_t> expected(const std::vector<Event>& all, const AuditQuery& query) {
    std::vector<std::int64_t> seqs;
    for (const Event& event : all)
        if (fits(query, event)) seqs.push_back(event.seq);
    const auto limit = static_cast<std::size_t>(query.limit);
    if (seqs.size() > limit) seqs.erase(seqs.begin(), seqs.end() - static_cast<std::ptrdiff_t>(limit));
    return seqs;
}

std::vector<std::int64_t> given(Store& store, const AuditQuery& query) {
    std::vector<std::int64_t> seqs;
    for (const Event& event : queryEvents(store.sql(), query)) seqs.push_back(event.seq);
    return seqs;
}

/// A clock mostly goes on, often stands, is now and then put right a little, and sometimes jumps.
rc::Gen<std::int64_t> anyTick() {
    return rc::gen::weightedOneOf<std::int64_t>({{4, rc::gen::inRange<std::int64_t>(0, 2000)},
                                                 {2, rc::gen::just<std::int64_t>(0)},
                                                 {2, rc::gen::inRange<std::int64_t>(-900, 0)},
                                                 {1, rc::gen::inRange<std::int64_t>(-20'000, 20'000)}});
}

const std::vector<std::string> kStages{"sandbox", "local", "staging"};

struct RandomLog {
    SampleStore sample;
    Store store = sample.open();
    std::vector<ActorId> actors;
    std::vector<std::int64_t> projects;
    std::int64_t changes = 0;

    RandomLog() {
        store.write([&](Writer& w) {
            for (const char* name : {"fixer", "mender", "joiner"}) actors.push_back(w.actor({ActorKind::kAgent, name}));
            for (int i = 0; i < 2; ++i)
                projects.push_back(w.project({"/srv/" + std::to_string(i), 2049, i + 1}, actors.front()));
        });
        const int commits = *rc::gen::inRange(1, 16);
        for (int i = 0; i < commits; ++i) commit();
    }

    void commit() {
        sample.clock.advance(Milliseconds(*anyTick()));
        const Climb climb{*rc::gen::elementOf(actors), *rc::gen::elementOf(projects)};
        const int steps = *rc::gen::inRange(1, 6);
        store.write([&](Writer& w) {
            for (int i = 0; i < steps; ++i) {
                if (changes == 0 || *rc::gen::arbitrary<bool>())
                    changes = w.submit(climb.project, climb.actor, test::someSubmission());
                else
                    climb.stage(w, *rc::gen::inRange<std::int64_t>(1, changes + 1), *rc::gen::elementOf(kStages),
                                *rc::gen::element(PromotionState::kPromoted, PromotionState::kRejected));
            }
        });
    }
};

template <typename T>
std::optional<T> perhaps(const rc::Gen<T>& gen) {
    return *rc::gen::inRange(0, 3) == 0 ? std::optional<T>(*gen) : std::nullopt;
}

/// Mostly a moment at which something happened, or a millisecond beside it: where off-by-one shows.
rc::Gen<Time> anyMoment(const std::vector<Event>& all) {
    return rc::gen::map(rc::gen::pair(rc::gen::elementOf(all), rc::gen::inRange(-1, 2)),
                        [](const auto& drawn) { return drawn.first.at + Milliseconds(drawn.second); });
}

AuditQuery anyQuery(const RandomLog& log, const std::vector<Event>& all) {
    AuditQuery query;
    query.since = perhaps(anyMoment(all));
    query.until = perhaps(anyMoment(all));
    query.kind = perhaps(rc::gen::map(rc::gen::elementOf(all), [](const Event& event) { return event.kind; }));
    query.stage = perhaps(rc::gen::elementOf(kStages));
    query.change = perhaps(rc::gen::inRange<std::int64_t>(1, log.changes + 2));
    query.project = perhaps(rc::gen::elementOf(log.projects));
    const int actors = *rc::gen::element(0, 0, 1, 2, 3);
    query.actors.assign(log.actors.begin(), log.actors.begin() + actors);
    query.limit = *rc::gen::element<std::int64_t>(1, 3, 50, 1000);
    return query;
}

RC_GTEST_PROP(AuditQueryProperty, TheIndexesGiveWhatAPlainFilterGives, ()) {
    RandomLog log;
    const std::vector<Event> all = allOf(log.store);
    for (int i = 0; i < 20; ++i) {
        const AuditQuery query = anyQuery(log, all);
        RC_ASSERT(given(log.store, query) == expected(all, query));
    }
    const AuditVerdict verdict = verifyAudit(log.store.sql(), log.store.anchor());
    RC_LOG() << verdict.detail;
    RC_ASSERT(verdict.kind == Tampering::kNone);
}

RC_GTEST_PROP(AuditQueryProperty, RebuiltIndexesGiveTheSame, ()) {
    RandomLog log;
    const std::vector<Event> all = allOf(log.store);
    log.store.rebuild();
    for (int i = 0; i < 10; ++i) {
        const AuditQuery query = anyQuery(log, all);
        RC_ASSERT(given(log.store, query) == expected(all, query));
    }
}

// A listing and then a follow from its last event must miss nothing: the newest are those recorded last.
TEST(AuditQueryClock, TheNewestAreThoseRecordedLastWhateverTheirClockSaid) {
    SampleStore sample;
    Store store = sample.open();
    const Climb climb = Climb::begin(store);
    store.write([&](Writer& w) { climb.whole(w, "before the jump"); });
    sample.clock.advance(Milliseconds(-86'400'000));
    store.write([&](Writer& w) { climb.whole(w, "after the jump"); });
    const std::int64_t end = store.records().counts().events;
    EXPECT_EQ(given(store, {.limit = 2}), (std::vector<std::int64_t>{end - 1, end}));
    EXPECT_EQ(given(store, {.stage = "production", .limit = 2}), (std::vector<std::int64_t>{end - 1, end}));
}

TEST(AuditQueryClock, AFilterOverMoreEventsThanOnePageLosesNone) {
    SampleStore sample;
    Store store = sample.open();
    const Climb climb = Climb::begin(store);
    for (int commit = 0; commit < 4; ++commit) {
        store.write([&](Writer& w) {
            for (int i = 0; i < 30; ++i) climb.whole(w, "change");
        });
        sample.clock.advance(Milliseconds(commit == 2 ? -5000 : 5000));
    }
    const std::vector<Event> all = allOf(store);
    for (const AuditQuery& query : {AuditQuery{.kind = EventKind::kPromotionMoved, .limit = 100'000},
                                    AuditQuery{.project = climb.project, .limit = 2500}})
        EXPECT_EQ(given(store, query), expected(all, query));
}

}  // namespace
}  // namespace gradus
