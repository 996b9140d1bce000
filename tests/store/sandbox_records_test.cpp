// What is remembered about sandboxes, through the store's public methods.
#include <gtest/gtest.h>

#include "store/audit_verify.h"
#include "store/sandbox_writer.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

using test::Climb;
using test::SampleStore;
using test::someDigest;

const ProcessIdentity kOwner{"9c1b7e0a-0000-4000-8000-000000000001", 4026531836, 4242, 123456};

class SandboxStore : public testing::Test {
  protected:
    SampleStore sample;
    Store store = sample.open();
    Climb climb = Climb::begin(store);

    void write(const std::function<void(SandboxWriter&)>& work) {
        store.write([&](Writer& writer) {
            SandboxWriter sandboxes(writer, climb.actor);
            work(sandboxes);
        });
    }
    SandboxRecord create(SandboxKind kind, std::optional<std::string> name = {}) {
        SandboxRecord record;
        SandboxDraft draft;
        draft.project = climb.project;
        draft.kind = kind;
        draft.name = std::move(name);
        draft.since = {1772366400, 7};
        draft.lifetime = kind == SandboxKind::kKept ? Milliseconds(1000) : Milliseconds(0);
        if (kind == SandboxKind::kTransient) draft.owner = kOwner;
        write([&](SandboxWriter& w) { record = w.create(draft); });
        return record;
    }
    std::int64_t start(std::int64_t sandbox) {
        std::int64_t id = 0;
        write([&](SandboxWriter& w) {
            id = w.start({sandbox, kOwner, "namespaces", {Guarantee::kNoNetwork}, {"echo", "\xff"}, "/srv/shop"});
        });
        return id;
    }
    SandboxRecords records() { return store.records().sandboxes(); }
    void expectRebuilt() {
        const AuditVerdict before = verifyAudit(store.sql(), store.anchor());
        EXPECT_EQ(before.kind, Tampering::kNone) << before.detail;
        store.rebuild();
        const AuditVerdict after = verifyAudit(store.sql(), store.anchor());
        EXPECT_EQ(after.kind, Tampering::kNone) << after.detail;
    }
};

TEST_F(SandboxStore, GivesBackWhatWasCreated) {
    const SandboxRecord kept = create(SandboxKind::kKept, "fix");
    const auto found = records().sandbox(kept.id);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->name, "fix");
    EXPECT_EQ(found->since.tv_sec, 1772366400);
    EXPECT_EQ(found->since.tv_nsec, 7);
    EXPECT_EQ(found->expiresAt(), sample.clock.now() + Milliseconds(1000));
    EXPECT_FALSE(found->owner);
    EXPECT_EQ(create(SandboxKind::kTransient).owner, kOwner);
    EXPECT_EQ(records().named("fix"), kept.id);
    EXPECT_EQ(records().latest(), kept.id);
    EXPECT_EQ(records().living(SandboxKind::kTransient).size(), 1U);
}

SideEffects someEffects() {
    SideEffects effects;
    effects.callsSeen = effects.connectionsSeen = true;
    effects.outsideWrites = {"/tmp/a", "/tmp/\xff"};
    effects.moreOutsideWrites = 3;
    effects.leftoverProcesses = {"sleep"};
    effects.leftoverCount = 2;
    effects.networkAllowed = {{"svc.test", 443, "93.184.215.14", 2, 1}};
    effects.networkDenied = {{"tcp", "192.0.2.7", 80, "not-allowed", "", 1000, false},
                             {"tcp", "flip.test", 80, "private-address", "10.0.0.1", 1, true}};
    effects.moreDenied = 4;
    effects.syscallsDenied = {{"mount", 2, true}};
    return effects;
}

TEST_F(SandboxStore, SideEffectsAreRecordedNamesApartFromNumbers) {
    const SandboxRecord kept = create(SandboxKind::kKept, "fix");
    std::int64_t id = 0;
    write([&](SandboxWriter& w) {
        ExecutionDraft draft{kept.id, kOwner, "namespaces", {Guarantee::kNoNetwork}, {"x"}, "/srv/shop"};
        draft.network = ExecutionNetwork::kByName;
        draft.destinations = {"svc.test:443"};
        id = w.start(draft);
    });
    Execution execution = *records().execution(id);
    EXPECT_EQ(execution.network, ExecutionNetwork::kByName);
    EXPECT_EQ(execution.destinations, std::vector<std::string>{"svc.test:443"});
    execution.verdict = Verdict::kOk;
    execution.sideEffects = someEffects();
    write([&](SandboxWriter& w) { w.finish(execution); });
    SideEffects expected = someEffects();
    expected.outsideWrites[1] = "/tmp/\xef\xbf\xbd";  // JSON holds no other bytes
    EXPECT_EQ(records().execution(id)->sideEffects, expected);
    expectRebuilt();
    EXPECT_EQ(records().execution(id)->sideEffects, expected);
    EXPECT_TRUE(
        store.sql().number("select 1 from event where kind = 'execution.finished' and body like '%5 2 2 1005 2%'"));
    EXPECT_FALSE(store.sql().number("select 1 from event where body like '%svc.test%' or body like '%/tmp/%'"))
        << "names are in payloads alone";

    execution.id = start(kept.id);
    execution.sideEffects = SideEffects();
    write([&](SandboxWriter& w) { w.finish(execution); });
    EXPECT_EQ(records().execution(execution.id)->sideEffects, SideEffects()) << "nobody looked";
    execution.id = start(kept.id);
    execution.sideEffects.callsSeen = execution.sideEffects.connectionsSeen = true;
    write([&](SandboxWriter& w) { w.finish(execution); });
    EXPECT_EQ(records().execution(execution.id)->sideEffects, execution.sideEffects) << "looked, and saw nothing";
}

TEST(SideEffects, NumbersAreWhatIsLeftWithoutNames) {
    EXPECT_EQ(formatEffectCounts(someEffects()), "5 2 2 1005 2");
    const SideEffects left = parseEffectCounts("5 2 2 1005 2");
    EXPECT_EQ(formatEffectCounts(left), "5 2 2 1005 2");
    EXPECT_TRUE(left.outsideWrites.empty());
    EXPECT_EQ(formatEffectCounts(SideEffects()), "0 0 - - -");
    EXPECT_EQ(parseEffectCounts("0 0 - - -"), SideEffects());
    EXPECT_THROW(parseEffectCounts("1 2"), Error);
    EXPECT_EQ(parseSideEffects("nonsense"), SideEffects());
    EXPECT_EQ(parseSideEffects("{\"network_denied\": [1, {\"port\": -1}]}").networkDenied.size(), 1U);
}

TEST_F(SandboxStore, ANameIsTakenOnlyWhileItsSandboxLives) {
    const SandboxRecord first = create(SandboxKind::kKept, "fix");
    EXPECT_THROW(create(SandboxKind::kKept, "fix"), Error);
    write([&](SandboxWriter& w) { w.end(first.id, SandboxEnd::kRemoved, someDigest("changes")); });
    EXPECT_EQ(records().sandbox(first.id)->changeSet, someDigest("changes"));
    EXPECT_NE(create(SandboxKind::kKept, "fix").id, first.id);
    EXPECT_THROW(write([&](SandboxWriter& w) { w.end(first.id, SandboxEnd::kRemoved); }), Error) << "it ended before";
    expectRebuilt();
}

TEST_F(SandboxStore, GivesBackAnExecutionWholly) {
    const SandboxRecord sandbox = create(SandboxKind::kTransient);
    Execution execution;
    execution.id = start(sandbox.id);
    EXPECT_EQ(records().running().front().owner, kOwner);
    EXPECT_TRUE(records().layer(sandbox.layer)->used);
    execution.sandbox = sandbox.id;
    execution.network = ExecutionNetwork::kNone;
    execution.state = ExecutionState::kFinished;
    execution.backend = "namespaces";
    execution.guarantees = {Guarantee::kReadOnlyHost, Guarantee::kMemoryLimit};
    execution.without = {Guarantee::kNoNetwork};
    execution.verdict = Verdict::kLimit;
    execution.exitCode = 3;
    execution.out = someDigest("out");
    execution.outBytes = 1U << 30;
    execution.truncated = true;
    execution.startedAt = sample.clock.now();
    execution.wallMillis = 12;
    execution.cpuMillis = 11;
    execution.peakMemoryBytes = 4096;
    execution.limits = {{LimitName::kMemory, 1U << 20, Enforcer::kCgroupV1, 4096, true},
                        {LimitName::kTasks, 64, Enforcer::kNone, std::nullopt, false}};
    write([&](SandboxWriter& w) { w.finish(execution); });
    execution.arguments = {"echo", "\xef\xbf\xbd"};  // what is not UTF-8 is replaced
    EXPECT_EQ(records().execution(execution.id), execution);
    EXPECT_THROW(write([&](SandboxWriter& w) { w.finish(execution); }), Error) << "it ended before";
    EXPECT_TRUE(records().running().empty());
    expectRebuilt();
    EXPECT_EQ(records().execution(execution.id), execution);
}

TEST_F(SandboxStore, AnExecutionCanBeLost) {
    const SandboxRecord sandbox = create(SandboxKind::kTransient);
    const std::int64_t id = start(sandbox.id);
    write([&](SandboxWriter& w) {
        w.lose(w.records().running().front());
        w.end(sandbox.id, SandboxEnd::kReaped);
    });
    EXPECT_EQ(records().execution(id)->state, ExecutionState::kLost);
    EXPECT_FALSE(records().execution(id)->verdict);
    expectRebuilt();
}

TEST_F(SandboxStore, LayersAreReachableAsLongAsSomethingLivingStandsOnThem) {
    const SandboxRecord parent = create(SandboxKind::kKept);
    SnapshotRecord snapshot;
    SandboxRecord child;
    write([&](SandboxWriter& w) { snapshot = w.snapshot(parent.id, "before"); });
    EXPECT_EQ(snapshot.layer, parent.layer);
    write([&](SandboxWriter& w) {
        SandboxDraft draft;
        draft.project = climb.project;
        draft.kind = SandboxKind::kKept;
        draft.below = w.freeze(parent.id);
        draft.forkedFrom = parent.id;
        child = w.create(draft);
    });
    EXPECT_EQ(records().chain(child.layer).size(), 3U);
    EXPECT_EQ(records().standingOn(snapshot.layer, parent.id), std::vector{child.id});
    std::int64_t dropped = 0;
    write([&](SandboxWriter& w) { dropped = w.restore(snapshot); });
    EXPECT_FALSE(records().reachableLayers().contains(dropped));
    EXPECT_EQ(records().chain(records().sandbox(parent.id)->layer).size(), 2U);
    write([&](SandboxWriter& w) { w.end(parent.id, SandboxEnd::kRemoved); });
    EXPECT_TRUE(records().reachableLayers().contains(snapshot.layer)) << "the fork stands on it";
    write([&](SandboxWriter& w) { w.end(child.id, SandboxEnd::kRemoved); });
    EXPECT_TRUE(records().reachableLayers().empty());
    expectRebuilt();
}

TEST_F(SandboxStore, SquashingChangesNothingForOthers) {
    const SandboxRecord parent = create(SandboxKind::kKept);
    SnapshotRecord first;
    write([&](SandboxWriter& w) { first = w.snapshot(parent.id, "a"); });
    write([&](SandboxWriter& w) { w.snapshot(parent.id, "b"); });
    std::int64_t merged = 0;
    write([&](SandboxWriter& w) { merged = w.squash(parent.id); });
    const auto chain = records().chain(records().sandbox(parent.id)->layer);
    ASSERT_EQ(chain.size(), 2U);
    EXPECT_EQ(chain.back().id, merged);
    EXPECT_TRUE(chain.back().frozen);
    EXPECT_TRUE(records().reachableLayers().contains(first.layer)) << "its snapshot still needs it";
    expectRebuilt();
}

TEST_F(SandboxStore, AKeptOneIsNoLongerItsOwners) {
    const SandboxRecord transient = create(SandboxKind::kTransient);
    write([&](SandboxWriter& w) { w.keep(transient.id, "tried", Milliseconds(5000)); });
    const auto kept = records().sandbox(transient.id);
    EXPECT_EQ(kept->kind, SandboxKind::kKept);
    EXPECT_EQ(kept->name, "tried");
    EXPECT_FALSE(kept->owner);
    EXPECT_EQ(kept->lifetime, Milliseconds(5000));
    expectRebuilt();
}

TEST_F(SandboxStore, RedactingANameOrCommandChangesNoState) {
    const SandboxRecord sandbox = create(SandboxKind::kKept, "secret");
    const std::int64_t execution = start(sandbox.id);
    const auto seqs = [&](std::string_view kind) {
        return store.sql().number("select max(seq) from event where kind = ?", kind).value();
    };
    store.write([&](Writer& w) {
        w.redact(seqs("sandbox.created"), climb.actor);
        w.redact(seqs("execution.started"), climb.actor);
    });
    EXPECT_FALSE(records().sandbox(sandbox.id)->name);
    EXPECT_TRUE(records().execution(execution)->arguments.empty());
    expectRebuilt();
}

TEST(ExecutionText, IsReadBackOrRefused) {
    for (const char* bad : {"memory", "memory 1 none - 2 3", "speed 1 none - 0", "memory x none - 0",
                            "memory 1 magic - 0", "memory 1 none ? 0"})
        EXPECT_THROW(parseLimits(bad), Error) << bad;
    EXPECT_THROW(parseGuarantees("no-network no-bugs"), Error);
    EXPECT_TRUE(parseLimits("").empty());
    EXPECT_EQ(parseOwner(formatOwner(kOwner)), kOwner);
    for (const char* bad : {"", "boot", "boot 1 2", "boot 1 2 x", "boot 1 2 3 4", "boot 1 2 3 "})
        EXPECT_THROW(parseOwner(bad), Error) << bad;
}

}  // namespace
}  // namespace gradus
