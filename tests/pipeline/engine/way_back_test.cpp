// What was asked about again came in again without writing anything: all of it goes out as one, however often that is
// cut off.
#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>

#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using S = PromotionState;

class WayBack : public testing::Test {
  protected:
    void SetUp() override {
        build(rig.project(), sampleBefore());
        change = rig.submit(sampleAfter());
        EXPECT_TRUE(rig.promote(change).succeeded());
        for (int i = 0; i < 2; ++i) {
            PromoteWish wish;
            wish.recheck = true;
            EXPECT_TRUE(rig.engine()->promote(change, "production", rig.progress, {}, wish).succeeded());
        }
    }
    EngineRig rig;
    std::int64_t change = 0;

    std::int64_t newest() { return rig.store().records().promotionsIn(1, "production", 1).front().id; }
    std::size_t toRecover() {
        return needRecovery(rig.store().records(), {rig.outside() / "state"}, rig.engine()->project());
    }

    /// As if killed once so many ways back have come to their ends.
    void cutOffAfter(int wanted, const std::function<void(const EngineProgress&)>& takeOut) {
        EngineProgress progress = rig.progress;
        progress.moved = [&](const Promotion& promotion, const std::string&) {
            if (promotion.undoes && promotion.state == S::kPromoted && --wanted == 0) throw std::runtime_error("cut");
        };
        EXPECT_THROW(takeOut(progress), std::runtime_error);
        rig.close();
        rig.engine();
    }
    void expectRecoveredWhole() {
        EXPECT_EQ(toRecover(), 1U);
        EXPECT_NE(rig.productionTree(), std::nullopt) << "nothing of it wrote anything yet";
        const auto recovered = rig.engine()->recover(rig.progress, {});
        ASSERT_EQ(recovered.size(), 1U);
        EXPECT_TRUE(recovered.front().report.isOut()) << recovered.front().report.reason;
        EXPECT_EQ(rig.productionTree(), std::nullopt);
        EXPECT_EQ(toRecover(), 0U);
        EXPECT_TRUE(rig.engine()->recover(rig.progress, {}).empty());
        rig.expectWhole();
    }
};

TEST_F(WayBack, IsGoneToItsEndByRecovery) {
    GRADUS_CASES("CR1");
    for (const int after : {1, 2}) {
        SCOPED_TRACE(after);
        cutOffAfter(after, [&](const EngineProgress& progress) { rig.engine()->rollBack(newest(), progress, {}); });
        expectRecoveredWhole();
        ASSERT_TRUE(rig.promote(change).succeeded());
        PromoteWish wish;
        wish.recheck = true;
        for (int i = 0; i < 2; ++i) ASSERT_TRUE(rig.engine()->promote(change, "production", {}, {}, wish).succeeded());
    }
}

TEST_F(WayBack, WhatTheMonitorBeganIsGoneToItsEndToo) {
    GRADUS_CASES("CR1");
    rig.monitor = std::chrono::hours(1);
    PromoteWish wish;
    wish.recheck = true;
    ASSERT_TRUE(rig.engine()->promote(change, "production", rig.progress, {}, wish).succeeded());
    rig.answers.after = [](const std::string&) { return Cause::kFailed; };
    cutOffAfter(1, [&](const EngineProgress& progress) { rig.engine()->monitor({}, progress, {}); });
    rig.answers.after = [](const std::string&) { return Cause::kPassed; };
    expectRecoveredWhole();
}

TEST_F(WayBack, WhatCameInAgainMeanwhileStays) {
    cutOffAfter(1, [&](const EngineProgress& progress) { rig.engine()->rollBack(newest(), progress, {}); });
    PromoteWish wish;
    wish.recheck = true;
    ASSERT_TRUE(rig.engine()->promote(change, "production", rig.progress, {}, wish).succeeded());
    EXPECT_EQ(toRecover(), 0U);
    EXPECT_TRUE(rig.engine()->recover(rig.progress, {}).empty());
    EXPECT_NE(rig.productionTree(), std::nullopt);
}

TEST_F(WayBack, WhereNothingWasCutOffThereIsNothingToRecover) {
    EXPECT_EQ(toRecover(), 0U);
    ASSERT_TRUE(rig.engine()->rollBack(newest(), rig.progress, {}).isOut());
    EXPECT_EQ(toRecover(), 0U);
    EXPECT_EQ(rig.productionTree(), std::nullopt);
}

class WayOut : public testing::Test {
  protected:
    void SetUp() override { build(rig.project(), sampleBefore()); }
    EngineRig rig;

    Climb promoteAs(const Actor& actor, std::int64_t change, const std::string& to) {
        rig.actor = actor;
        Climb climb = rig.promote(change, to);
        rig.actor = {ActorKind::kPerson, "ada"};
        return climb;
    }
    std::int64_t another(const std::string& path) {
        return rig.submitChanges(changesBetween({}, {{path, file(path)}}, rig.objects()));
    }
    StageState production() { return rig.store().records().stageState(1, "production"); }
};


// It was switched back by hand, so what is asked for again is brought in again; only that goes out.
TEST_F(WayOut, WhatWasBroughtInAnewGoesOutAlone) {
    const std::int64_t change = another("one");
    ASSERT_TRUE(rig.promote(change, "local").succeeded());
    std::filesystem::remove(rig.project() / "one");
    const Climb again = rig.promote(change, "local");
    ASSERT_TRUE(again.succeeded()) << again.stages.back().reason;
    ASSERT_FALSE(again.stages.back().already);
    const StageReport back = rig.engine()->rollBack(again.stages.back().promotion.id, rig.progress, {});
    EXPECT_TRUE(back.isOut()) << back.reason;
    EXPECT_TRUE(back.also.empty());
    EXPECT_FALSE(std::filesystem::exists(rig.project() / "one"));
    EXPECT_TRUE(rig.engine()->recover(rig.progress, {}).empty());
    rig.expectWhole();
}

TEST_F(WayOut, WhatWasKeptIsToldAndLookedAtByWhoeverEndsIt) {
    GRADUS_CASES("CR1", "DL1");
    const std::int64_t change = another("one");
    ASSERT_TRUE(rig.promote(change, "local").succeeded());
    std::ofstream(rig.project() / "one") << "by hand";
    EngineProgress progress = rig.progress;
    progress.moved = [](const Promotion& promotion, const std::string&) {
        if (promotion.undoes && promotion.state == S::kVerifying) throw std::runtime_error("cut");
    };
    const std::int64_t in = rig.store().records().promotionsIn(1, "local", 1).front().id;
    EXPECT_THROW(rig.engine()->rollBack(in, progress, {}), std::runtime_error);
    rig.close();
    int asked = 0;
    rig.answers.after = [&](const std::string&) {
        ++asked;
        return Cause::kPassed;
    };
    const auto recovered = rig.engine()->recover(rig.progress, {});
    ASSERT_EQ(recovered.size(), 1U);
    EXPECT_TRUE(recovered.front().report.isOut());
    EXPECT_NE(recovered.front().report.reason.find("kept: one"), std::string::npos) << recovered.front().report.reason;
    EXPECT_EQ(asked, 1);
    rig.expectWhole();
}

TEST_F(WayOut, WhereSomethingWasKeptMachinesWaitForAPersonToLook) {
    GRADUS_CASES("DL1");
    ASSERT_TRUE(rig.promote(another("one"), "local").succeeded());
    std::ofstream(rig.project() / "one") << "by hand";
    const std::int64_t in = rig.store().records().promotionsIn(1, "local", 1).front().id;
    ASSERT_TRUE(rig.engine()->rollBack(in, rig.progress, {}).isOut());
    const std::int64_t next = another("two");
    EXPECT_EQ(promoteAs(kBot, next, "local").stages.back().promotion.state, S::kWaiting);
    EXPECT_TRUE(rig.promote(next, "local").succeeded()) << "a person has looked";
    rig.store().write([&](Writer& writer) {
        WordWriter(writer, writer.actor({ActorKind::kPerson, "ada"}), 0).release(1, std::nullopt, "local");
    });
    EXPECT_TRUE(promoteAs(kBot, another("three"), "local").succeeded());
}

TEST_F(WayOut, WhatIsLeftToAPersonNeedsNoRecoveryAndIsHeldOnceItIsOut) {
    GRADUS_CASES("I20");
    rig.rollback = "manual";
    rig.answers.after = [](const std::string& stage) {
        return stage == "production" ? Cause::kFailed : Cause::kPassed;
    };
    const std::int64_t change = another("one");
    const StageReport report = rig.promote(change).stages.back();
    ASSERT_EQ(report.promotion.state, S::kVerifying);
    EXPECT_EQ(needRecovery(rig.store().records(), {rig.outside() / "state"}, rig.engine()->project()), 0U);
    const StageReport back = rig.engine()->rollBack(report.promotion.id, rig.progress, {});
    EXPECT_EQ(back.promotion.state, S::kRolledBack);
    rig.answers.after = [](const std::string&) { return Cause::kPassed; };
    EXPECT_EQ(promoteAs(kBot, change, "production").stages.back().promotion.state, S::kWaiting);
    EXPECT_TRUE(rig.promote(change).succeeded()) << "a person may";
    rig.expectWhole();
}

TEST_F(WayOut, WhatAMonitorLeavesToAPersonIsHeld) {
    GRADUS_CASES("I20");
    rig.rollback = "manual";
    rig.monitor = std::chrono::hours(1);
    const std::int64_t change = another("one");
    ASSERT_TRUE(rig.promote(change).succeeded());
    rig.answers.after = [](const std::string&) { return Cause::kFailed; };
    const MonitorReport report = rig.engine()->monitor({}, rig.progress, {});
    ASSERT_EQ(report.stages.size(), 1U);
    EXPECT_TRUE(report.stages.front().isLeftToAPerson);
    const auto holds = rig.store().records().words().holds(1);
    ASSERT_EQ(holds.size(), 1U);
    EXPECT_EQ(holds.front().change, change);
}

}  // namespace
}  // namespace gradus::test
