// What is looked at after the switch: while it soaks and once it is promoted, with a clock that is told the time.
#include <gtest/gtest.h>
#include <signal.h>

#include "store/model/error.h"
#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using namespace std::chrono_literals;
using S = PromotionState;

class EngineWatch : public testing::Test {
  protected:
    void SetUp() override {
        build(rig.project(), sampleBefore());
        first_ = rig.submit(with(sampleBefore(), "first"));
    }
    static Tree with(Tree tree, const std::string& name) {
        tree[name] = file(name);
        return tree;
    }
    void landFirst() {
        const Milliseconds soak = std::exchange(rig.soak, 0ms);
        const Milliseconds monitor = std::exchange(rig.monitor, 0ms);
        ASSERT_TRUE(rig.promote(first_).succeeded());
        rig.soak = soak;
        rig.monitor = monitor;
        before_ = *rig.productionTree();
        change_ = rig.submit(with(with(sampleBefore(), "first"), "second"));
    }
    /// Asked of production; everywhere else all is well.
    void health(const std::function<Cause()>& say) {
        rig.answers.after = [say](const std::string& stage) { return stage == "production" ? say() : Cause::kPassed; };
    }
    StageReport promoted() { return rig.promote(change_).stages.back(); }
    MonitorReport monitored(std::optional<Milliseconds> most = std::nullopt) {
        return rig.engine()->monitor({"production", most}, rig.progress, {});
    }
    Watch watch(std::int64_t promotion) { return *rig.store().records().watches().watch(promotion); }
    bool isBack() { return difference(plain(*rig.productionTree()), plain(before_)).empty(); }

    EngineRig rig;
    std::int64_t first_ = 0;
    std::int64_t change_ = 0;
    Tree before_;
};

TEST_F(EngineWatch, TimeInWhichTheMachineSleptIsSoakedAgain) {
    landFirst();
    rig.soak = 60s;
    int wakes = 0;
    int looks = 0;
    rig.woken = [&] {
        if (++wakes == 3) rig.clock().advance(10min);
    };
    health([&] {
        ++looks;
        return Cause::kPassed;
    });
    const StageReport report = promoted();
    EXPECT_TRUE(report.succeeded()) << report.reason;
    EXPECT_EQ(looks, 1 + 1 + 12 + 1) << "before and after the switch, on schedule for a minute, and once too late";
    EXPECT_EQ(watch(report.promotion.id).gap, 10min + 5s);
    rig.expectWhole();
}

TEST_F(EngineWatch, AClockThatIsSetDoesNotShortenASoak) {
    GRADUS_CASES("I18");
    landFirst();
    rig.soak = 60s;
    int wakes = 0;
    int looks = 0;
    rig.woken = [&] {
        if (++wakes == 3) rig.clock().set(rig.clock().now() + 24h);
    };
    health([&] {
        ++looks;
        return Cause::kPassed;
    });
    EXPECT_TRUE(promoted().succeeded());
    EXPECT_EQ(looks, 1 + 1 + 12 + 1);
}

TEST_F(EngineWatch, AfterTooLongAGapItIsTakenBackAndNobodyIsBlamed) {
    landFirst();
    rig.soak = 60s;
    rig.productionPolicy = "gap-limit = \"5m\"";
    bool slept = false;
    rig.woken = [&] {
        if (!std::exchange(slept, true)) rig.clock().advance(10min);
    };
    const StageReport report = promoted();
    EXPECT_EQ(report.promotion.state, S::kRolledBack);
    EXPECT_EQ(report.promotion.cause, Cause::kInconclusive);
    EXPECT_NE(report.reason.find("gap-limit = 5m"), std::string::npos) << report.reason;
    EXPECT_TRUE(rig.store().records().words().holds(1).empty());
    EXPECT_TRUE(isBack());
    rig.expectWhole();
}

TEST_F(EngineWatch, OnlyTheChecksThatAreListedKeepRunning) {
    rig.moreRules = "[check.once]\nrun = \"true\"\non = \"host\"\nwhen = \"after\"\n";
    landFirst();
    rig.soak = 20s;
    int looks = 0;
    health([&] {
        ++looks;
        return Cause::kPassed;
    });
    EXPECT_TRUE(promoted().succeeded());
    EXPECT_EQ(looks, 1 + 5) << "once before the switch";
    EXPECT_EQ(rig.stage("production").monitorChecks, std::vector<std::string>{"health"});
}

TEST_F(EngineWatch, KilledWhileItSoaksItGoesOnFromWhatIsOnRecord) {
    GRADUS_CASES("CR1");
    landFirst();
    rig.soak = 10min;
    rig.close();
    int looks = 0;
    EXPECT_EQ(inChild([&] {
                  health([&] {
                      if (++looks == 61) dieNow();
                      return Cause::kPassed;
                  });
                  promoted();
              }),
              SIGKILL);
    rig.clock().advance(1h);
    looks = 0;
    health([&] {
        ++looks;
        return Cause::kPassed;
    });
    const auto all = rig.engine()->recover(rig.progress, {});
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all.front().before.state, S::kSoaking);
    EXPECT_TRUE(all.front().report.succeeded());
    EXPECT_LE(looks, 1 + 66) << "the first half was on record, but for half a minute";
    EXPECT_GE(looks, 1 + 60) << "and nothing else counted";
    const Watch soaked = watch(all.front().report.promotion.id);
    EXPECT_GT(soaked.gap, 50min);
    rig.expectWhole();
}

TEST_F(EngineWatch, WhatFailsSixHoursLaterIsTakenBackByANewPromotion) {
    GRADUS_CASES("I2", "I20", "I23");
    landFirst();
    rig.monitor = 24h;
    const StageReport report = promoted();
    ASSERT_TRUE(report.succeeded()) << report.reason;
    const Moment landed = rig.clock().moment();
    health([&] { return elapsed(landed, rig.clock().moment()) >= 6h ? Cause::kFailed : Cause::kPassed; });
    const MonitorReport monitor = monitored();
    ASSERT_EQ(monitor.takenBack.size(), 1U);
    const StageReport& back = monitor.takenBack.front();
    EXPECT_TRUE(back.succeeded());
    EXPECT_EQ(back.promotion.undoes, report.promotion.id);
    EXPECT_TRUE(isBack());
    const Records& records = rig.store().records();
    EXPECT_EQ(records.promotion(report.promotion.id)->state, S::kPromoted) << "an end is final";
    EXPECT_NE(back.reason.find("health: it said no"), std::string::npos) << back.reason;
    EXPECT_NE(back.reason.find("it was well here for 5h59m"), std::string::npos) << back.reason;
    EXPECT_TRUE(records.words().vetoes(1).empty());
    EXPECT_EQ(watch(report.promotion.id).gap, 30s) << "the last look";
    EXPECT_TRUE(monitored().stages.empty()) << "what came back is not next";
    rig.actor = {ActorKind::kAgent, "fixer"};
    EXPECT_EQ(promoted().promotion.state, S::kWaiting) << "machines do not try again";
    rig.actor = {ActorKind::kPerson, "ada"};
    health([] { return Cause::kPassed; });
    EXPECT_TRUE(promoted().succeeded()) << "a person may";
    rig.expectWhole();
}

TEST_F(EngineWatch, AMonitorEndsAndSaysHowMuchItSaw) {
    landFirst();
    rig.monitor = 1h;
    const std::int64_t id = promoted().promotion.id;
    monitored(20min);
    EXPECT_EQ(watch(id).counted, 20min);
    rig.clock().advance(10min);
    const MonitorReport report = monitored();
    ASSERT_EQ(report.stages.size(), 1U);
    EXPECT_TRUE(report.stages.front().watch.ended);
    EXPECT_GE(report.stages.front().watch.counted, 49min);
    EXPECT_GE(report.stages.front().watch.gap, 10min);
    EXPECT_TRUE(monitored().stages.empty());
}

TEST_F(EngineWatch, WhoCannotJudgeTakesNothingBack) {
    landFirst();
    rig.monitor = 1h;
    const std::int64_t id = promoted().promotion.id;
    health([] { return Cause::kErrored; });
    const MonitorReport report = monitored();
    EXPECT_TRUE(report.takenBack.empty());
    EXPECT_FALSE(isBack());
    EXPECT_EQ(watch(id).counted, 0ms);
}

TEST_F(EngineWatch, WhatIsNotHeldAnyMoreIsNotTakenBack) {
    landFirst();
    rig.monitor = 24h;
    ASSERT_TRUE(promoted().succeeded());
    rig.monitor = 0ms;
    const std::int64_t newer = rig.submitChanges(changesBetween({}, {{"newer", file("newer")}}, rig.objects()));
    ASSERT_TRUE(rig.promote(newer).succeeded());
    rig.monitor = 24h;
    rig.clock().advance(6h);
    health([] { return Cause::kFailed; });
    EXPECT_TRUE(monitored().takenBack.empty());
    EXPECT_EQ(rig.productionTree()->count("newer"), 1U);
}

// Whoever comes to bring something in looks first.
TEST_F(EngineWatch, ALookIsTakenWhereOneIsDue) {
    landFirst();
    rig.monitor = 24h;
    ASSERT_TRUE(promoted().succeeded());
    int looks = 0;
    health([&] {
        ++looks;
        return Cause::kPassed;
    });
    rig.engine()->lookWhereDue(rig.progress, {});
    EXPECT_EQ(looks, 0) << "it was looked at a moment ago";
    rig.clock().advance(1h);
    rig.engine()->lookWhereDue(rig.progress, {});
    EXPECT_EQ(looks, 1);
    rig.engine()->lookWhereDue(rig.progress, {});
    EXPECT_EQ(looks, 1);
    rig.clock().advance(1h);
    health([] { return Cause::kFailed; });
    EXPECT_EQ(rig.engine()->lookWhereDue(rig.progress, {}).takenBack.size(), 1U);
    EXPECT_TRUE(isBack());
}

TEST_F(EngineWatch, WhereAPersonTakesBackTheMonitorOnlySaysSo) {
    landFirst();
    rig.monitor = 24h;
    rig.rollback = "manual";
    ASSERT_TRUE(promoted().succeeded());
    health([] { return Cause::kFailed; });
    const MonitorReport report = monitored();
    EXPECT_TRUE(report.takenBack.empty());
    ASSERT_EQ(report.stages.size(), 1U);
    EXPECT_NE(report.stages.front().note.find("to a person"), std::string::npos);
    EXPECT_FALSE(isBack());
}

TEST_F(EngineWatch, KilledAnywhereWhileItIsTakenBack) {
    GRADUS_CASES("CR1", "I1");
    for (std::size_t nth = 1; nth < 1000; ++nth) {
        EngineRig other;
        build(other.project(), sampleBefore());
        ASSERT_TRUE(other.promote(other.submit(with(sampleBefore(), "first"))).succeeded());
        const Tree before = *other.productionTree();
        other.monitor = 24h;
        ASSERT_TRUE(other.promote(other.submit(with(with(sampleBefore(), "first"), "second"))).succeeded());
        bool isWell = false;
        other.answers.after = [&](const std::string& stage) {
            return stage == "production" && !isWell ? Cause::kFailed : Cause::kPassed;
        };
        other.close();
        const int end = inChild([&] {
            std::size_t count = 0;
            const auto tick = [&] {
                if (++count == nth) dieNow();
                return 0;
            };
            WatchedOperations files([&](std::size_t, std::string_view, std::string_view) { return tick(); });
            other.progress.moved = [&](const Promotion&, const std::string&) { tick(); };
            other.engine(files)->monitor({}, other.progress, {});
        });
        other.progress = {};
        other.engine()->recover(other.progress, {});
        other.clock().advance(1min);
        other.engine()->monitor({}, other.progress, {});
        EXPECT_EQ(difference(plain(*other.productionTree()), plain(before)), "") << nth;
        other.expectWhole();
        std::size_t undone = 0;
        for (const Promotion& promotion : other.promotions()) undone += promotion.undoes ? 1 : 0;
        EXPECT_EQ(undone, 1U) << nth;
        if (end == 0) {
            EXPECT_GT(nth, 10U);
            return;
        }
        ASSERT_EQ(end, SIGKILL);
        if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace gradus::test
