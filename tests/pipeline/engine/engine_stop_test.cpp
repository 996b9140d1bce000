// A promotion that is told to stop, or rejected, while it is on its way; and a disk that fails for a moment while it is
// taken back. Over real drivers, made-up checks and a clock that is told the time.
#include <gtest/gtest.h>

#include "store/model/error.h"
#include "tests/pipeline/engine/engine_rig.h"

namespace gradus::test {
namespace {

using S = PromotionState;

class EngineStop : public testing::Test {
  protected:
    void SetUp() override {
        build(rig.project(), sampleBefore());
        before = rig.projectTree();
    }
    StageReport promoted(std::int64_t change, const std::string& to = "production") {
        rig.actor = kAda;
        return rig.engine()->promote(change, to, rig.progress, stop.get_token()).stages.back();
    }
    std::optional<Promotion> rejected(std::int64_t change, const std::string& stage) {
        rig.actor = {ActorKind::kPerson, "ben"};
        auto ended = rig.engine()->reject(change, stage, "not today");
        rig.actor = kAda;
        return ended;
    }
    /// Does it once, when a promotion into that stage has come to that state.
    void when(const std::string& stage, S state, std::function<void()> work) {
        rig.progress.moved = [=, isDone = false](const Promotion& promotion, const std::string&) mutable {
            if (promotion.stage == stage && promotion.state == state && !std::exchange(isDone, true)) work();
        };
    }
    void expectTakenBack(const StageReport& report) {
        EXPECT_EQ(report.promotion.state, S::kRolledBack) << report.reason;
        EXPECT_EQ(report.promotion.cause, Cause::kCancelled);
        rig.progress = {};
        rig.expectWhole();
    }
    EngineRig rig;
    Tree before;
    std::stop_source stop;
};

TEST_F(EngineStop, AStopWhileItIsAppliedTakesTheChangeBack) {
    when("local", S::kApplying, [&] { stop.request_stop(); });
    expectTakenBack(promoted(rig.submit(sampleAfter()), "local"));
    EXPECT_EQ(difference(rig.projectTree(), before), "");
}

TEST_F(EngineStop, AStopAfterTheSwitchTakesTheChangeBackWithoutChecksToo) {
    bool isApplied = false;
    WatchedOperations files([&](std::size_t, std::string_view, std::string_view) {
        if (std::filesystem::exists(rig.production() / "current") && !std::exchange(isApplied, true))
            stop.request_stop();
        return 0;
    });
    const std::int64_t change = rig.submit(sampleAfter());
    ASSERT_TRUE(rig.promote(change, "local").succeeded());
    const StageReport report =
        rig.engine(files)->promote(change, "production", rig.progress, stop.get_token()).stages.back();
    ASSERT_TRUE(isApplied);
    expectTakenBack(report);
    EXPECT_EQ(rig.productionTree(), std::nullopt);
}

TEST_F(EngineStop, AStopBeforeAnythingIsTouchedEndsAsCancelled) {
    when("local", S::kChecking, [&] { stop.request_stop(); });
    const StageReport report = promoted(rig.submit(sampleAfter()), "local");
    EXPECT_EQ(report.promotion.state, S::kCancelled);
    EXPECT_EQ(difference(rig.projectTree(), before), "");
}

TEST_F(EngineStop, ARejectionWhileItIsAppliedTakesTheChangeBack) {
    const std::int64_t change = rig.submit(sampleAfter());
    for (const S state : {S::kApplying, S::kVerifying}) {
        std::optional<Promotion> told;
        when("local", state, [&] { told = rejected(change, "local"); });
        expectTakenBack(promoted(change, "local"));
        ASSERT_TRUE(told);
        EXPECT_EQ(told->state, state);
        EXPECT_EQ(difference(rig.projectTree(), before), "");
    }
    EXPECT_TRUE(promoted(change, "local").succeeded()) << "a person may try again";
}

TEST_F(EngineStop, ARejectionWhileItSoaksTakesTheChangeBack) {
    rig.soak = Milliseconds(60'000);
    const std::int64_t change = rig.submit(sampleAfter());
    rig.woken = [&, isDone = false]() mutable {
        if (!std::exchange(isDone, true)) rejected(change, "production");
    };
    const StageReport report = promoted(change);
    rig.woken = nullptr;
    expectTakenBack(report);
    EXPECT_EQ(rig.productionTree(), std::nullopt);
}

// The very last transaction asks again.
TEST_F(EngineStop, ARejectionJustBeforeItIsPromotedTakesTheChangeBack) {
    const std::int64_t change = rig.submit(sampleAfter());
    rig.answers.after = [&, isDone = false](const std::string& stage) mutable {
        if (stage == "production" && !std::exchange(isDone, true)) rejected(change, "production");
        return Cause::kPassed;
    };
    expectTakenBack(promoted(change));
    EXPECT_EQ(rig.productionTree(), std::nullopt);
}

TEST_F(EngineStop, ARejectionWhileItIsCheckedEndsItAlthoughAGateClosesMeanwhile) {
    const std::int64_t change = rig.submit(sampleAfter());
    rig.answers.before = [&](const std::string& stage) {
        if (stage != "production") return Cause::kPassed;
        rejected(change, "production");
        rig.store().write([&](Writer& writer) {
            WordWriter(writer, writer.actor(kAda), 0).hold({.project = 1, .stage = "production", .reason = "an audit"});
        });
        return Cause::kPassed;
    };
    EXPECT_EQ(promoted(change).promotion.state, S::kRejected);
}

struct FailingCase {
    std::string name;
    std::string driver;
    int error = EIO;
};

class EngineFailingDisk : public testing::TestWithParam<FailingCase> {
  protected:
    /// Takes a change back over a disk whose Nth call fails; gives how many calls there were.
    static std::size_t undone(std::size_t nth) {
        const std::string driver = GetParam().driver;
        EngineRig rig({.name = "x", .driver = driver, .withGit = false, .isSmall = true});
        rig.place().prepare();
        const std::string last = rig.lastStage();
        EXPECT_TRUE(rig.promote(rig.submit(rig.place().base()), last).succeeded());
        const Tree shown = plain(rig.place().shown());
        const std::int64_t change = rig.submit(rig.place().goal());
        EXPECT_TRUE(rig.promote(change, last).succeeded());
        std::size_t calls = 0;
        WatchedOperations files(
            [&](std::size_t, std::string_view, std::string_view) { return ++calls == nth ? GetParam().error : 0; });
        const std::int64_t promotion = rig.store().records().promotionsOf(change).back().id;
        StageReport report;
        try {
            report = rig.engine(files)->rollBack(promotion, rig.progress, {});
        } catch (const Error&) {
            // Refused before anything was touched: the same words work a moment later.
            report = rig.engine()->rollBack(promotion, rig.progress, {});
        }
        EXPECT_TRUE(report.isOut()) << nth << ": " << report.reason;
        EXPECT_EQ(difference(plain(rig.place().shown()), shown), "") << nth;
        rig.expectWhole();
        return calls;
    }
};

TEST_P(EngineFailingDisk, OneFaultWhileAChangeIsTakenBackIsTriedAgain) {
    const std::size_t calls = undone(0);
    ASSERT_GE(calls, 2U);
    const std::size_t step = isLong() ? 1 : calls / 6 + 1;
    for (std::size_t n = 1; n <= calls && !HasFailure(); n += step) undone(n);
}

INSTANTIATE_TEST_SUITE_P(All, EngineFailingDisk,
                         testing::Values(FailingCase{"WorktreeEio", "worktree", EIO},
                                         FailingCase{"WorktreeEmfile", "worktree", EMFILE},
                                         FailingCase{"ReleaseDirectoryEnospc", "release-directory", ENOSPC},
                                         FailingCase{"BranchEio", "branch", EIO},
                                         FailingCase{"CommandEio", "command", EIO}),
                         [](const auto& one) { return one.param.name; });

// Longer than its patience: a person puts it right, and recovery goes on by itself.
TEST_F(EngineStop, WhatIsStuckIsTriedAgainByRecovery) {
    const std::int64_t change = rig.submit(sampleAfter());
    ASSERT_TRUE(rig.promote(change).succeeded());
    const Tree shown = *rig.productionTree();
    Tree more = sampleAfter();
    more["more"] = file("more");
    const std::int64_t second = rig.submit(more);
    ASSERT_TRUE(rig.promote(second).succeeded());
    bool isBroken = false;
    WatchedOperations files([&](std::size_t, std::string_view, std::string_view) { return isBroken ? EIO : 0; });
    auto engine = rig.engine(files);
    isBroken = true;
    rig.progress.moved = [&](const Promotion&, const std::string&) { isBroken = true; };
    const std::int64_t promotion = rig.store().records().promotionsOf(second).back().id;
    const auto back = [&]() -> std::optional<StageReport> {
        try {
            return engine->rollBack(promotion, rig.progress, {});
        } catch (const Error&) {
            return std::nullopt;
        }
    }();
    rig.progress = {};
    isBroken = false;
    if (!back) GTEST_SKIP() << "refused before anything was touched";
    ASSERT_EQ(back->promotion.state, S::kStuck);
    const auto all = rig.engine()->retryStuck(rig.progress, {});
    ASSERT_EQ(all.size(), 1U);
    EXPECT_TRUE(all.front().report.isOut()) << all.front().report.reason;
    EXPECT_EQ(difference(*rig.productionTree(), shown), "");
    rig.expectWhole();
}

}  // namespace
}  // namespace gradus::test
