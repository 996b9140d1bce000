// The audit log at size: durable appends, bytes, indexed queries, verification; with the events of four-stage climbs.
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "store/audit_query.h"
#include "store/audit_verify.h"
#include "tests/bench/report.h"
#include "tests/support/sample_store.h"

namespace gradus::bench {

namespace {

constexpr int kClimbsPerCommit = 30;  // about a thousand events

double durableCommitMicroseconds(Store& store, const test::Climb& climb) {
    std::vector<double> times;
    for (int i = 0; i < 200; ++i)
        times.push_back(microseconds([&] {
            store.write([&](Writer& w) { w.submit(climb.project, climb.actor, test::someSubmission("one")); });
        }));
    return median(times);
}

void fill(Store& store, test::Climb& climb, test::FakeClock& clock, std::int64_t events) {
    std::int64_t total = 0;
    int climbs = 0;
    double processor = 0;
    const double elapsed = microseconds([&] {
        processor = processorMicroseconds([&] {
            while (total < events) {
                store.write([&](Writer& w) {
                    for (int i = 0; i < kClimbsPerCommit; ++i)
                        climb.whole(w, fmt::format("Change number {}", ++climbs));
                });
                clock.advance(Milliseconds(700));
                total = store.records().counts().events;
            }
        });
    });
    const double rate = static_cast<double>(total) / elapsed * 1e6;
    row(fmt::format("durable events/s, batches of {} climbs", kClimbsPerCommit), fmt::format("{:.0f}/s", rate),
        ">= 100000/s", rate >= 1e5);
    note("the same per second of processor time",
         fmt::format("{:.0f}/s", static_cast<double>(total) / processor * 1e6));
}

void size(Store& store) {
    store.sql().script("pragma wal_checkpoint(truncate)");
    const double bytes =
        static_cast<double>(store.sizes().database) / static_cast<double>(store.records().counts().events);
    row("bytes per event, indexes and state tables included", fmt::format("{:.0f} B", bytes), "<= 400 B", bytes <= 400);
}

void query(Store& store, const std::string& name, const std::function<AuditQuery(int)>& make) {
    std::vector<double> times;
    std::vector<double> processor;
    std::size_t rows = 0;
    for (int i = 0; i < 1000; ++i) {
        const AuditQuery wanted = make(i);
        times.push_back(microseconds([&] {
            processor.push_back(processorMicroseconds([&] { rows = queryEvents(store.sql(), wanted).size(); }));
        }));
    }
    const double p99 = quantile(times, 0.99) / 1000;
    row(fmt::format("query {} ({} rows)", name, rows),
        fmt::format("median {:.3f} p99 {:.3f} ms", median(times) / 1000, p99), "p99 <= 0.5 ms", p99 <= 0.5);
    note("  of that, processor time",
         fmt::format("median {:.3f} p99 {:.3f} ms", median(processor) / 1000, quantile(processor, 0.99) / 1000));
}

void queries(Store& store, const test::Climb& climb, Time start, Time end) {
    const StoreCounts counts = store.records().counts();
    const auto span = (end - start).count();
    const auto moment = [&](int i) { return start + Milliseconds(span / 1000 * (i * 7919 % 1000)); };
    constexpr std::int64_t kPage = 50;
    query(store, "newest", [&](int) { return AuditQuery{.limit = kPage}; });
    query(store, "one change's history",
          [&](int i) { return AuditQuery{.change = 1 + (i * 104729LL) % counts.changes, .limit = kPage}; });
    query(store, "one kind before a moment",
          [&](int i) { return AuditQuery{.until = moment(i), .kind = EventKind::kCheckFinished, .limit = kPage}; });
    query(store, "one stage before a moment",
          [&](int i) { return AuditQuery{.until = moment(i), .stage = "production", .limit = kPage}; });
    query(store, "one actor before a moment",
          [&](int i) { return AuditQuery{.until = moment(i), .actors = {climb.actor}, .limit = kPage}; });
    query(store, "one project before a moment",
          [&](int i) { return AuditQuery{.until = moment(i), .project = climb.project, .limit = kPage}; });
    query(store, "any event before a moment", [&](int i) { return AuditQuery{.until = moment(i), .limit = kPage}; });
}

void verify(Store& store) {
    AuditVerdict verdict;
    double processor = 0;
    const double elapsed =
        microseconds([&] { processor = processorMicroseconds([&] { verdict = verifyChain(store.sql()); }); });
    const double rate = static_cast<double>(verdict.events) / elapsed * 1e6;
    row(fmt::format("chain verified, {} events, {}", verdict.events, nameOf(kTamperings, verdict.kind)),
        fmt::format("{:.2f} M/s", rate / 1e6), ">= 1 M/s", rate >= 1e6);
    note("  per second of processor time, of all threads together",
         fmt::format("{:.2f} M/s", static_cast<double>(verdict.events) / processor));
    const double whole = microseconds([&] { verdict = verifyAudit(store.sql(), store.anchor()); });
    note(fmt::format("everything verified (payloads, anchor, state), {}", nameOf(kTamperings, verdict.kind)),
         fmt::format("{:.2f} M/s", static_cast<double>(verdict.events) / whole));
}

}  // namespace

void benchAudit(std::int64_t events) {
    test::SampleStore sample;
    Store store = sample.open();
    test::Climb climb = test::Climb::begin(store);
    const double commit = durableCommitMicroseconds(store, climb);
    note("one durable commit of one submission", fmt::format("{:.3f} ms", commit / 1000));
    const Time start = sample.clock.now();
    fill(store, climb, sample.clock, events);
    size(store);
    queries(store, climb, start, sample.clock.now());
    verify(store);
}

}  // namespace gradus::bench
