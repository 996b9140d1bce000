// What machines may do in a stage within a time: it is spent for good, by whomever and through whatever process.
#include <gtest/gtest.h>

#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using namespace std::chrono_literals;
using S = PromotionState;

const Actor kFixer{ActorKind::kAgent, "fixer"};

class EngineBudget : public testing::Test {
  protected:
    void SetUp() override {
        build(rig.project(), sampleBefore());
        rig.productionPolicy = "budget = { promotions = 2, rollbacks = 1, per = \"1d\" }";
    }
    EngineRig rig;
    int made = 0;

    std::int64_t another(const Actor& by) {
        const std::string path = "made" + std::to_string(++made);
        return rig.submitChanges(changesBetween({}, {{path, file(path)}}, rig.objects()), by);
    }
    /// Everything opened anew: nothing is remembered but what is on record.
    StageReport promoted(std::int64_t change, const Actor& by) {
        rig.close();
        rig.actor = by;
        return rig.promote(change).stages.back();
    }
    static void expectSpent(const StageReport& report) {
        EXPECT_EQ(report.promotion.stage, "production");
        EXPECT_EQ(report.promotion.state, S::kWaiting) << report.reason;
        ASSERT_TRUE(report.gates);
        EXPECT_EQ(report.gates->at(Gate::kBudget).state, GateState::kClosed);
    }
    static void expectIn(const StageReport& report) { EXPECT_TRUE(report.succeeded()) << report.reason; }
};

TEST_F(EngineBudget, IsSpentOverRestarts) {
    GRADUS_CASES("I11");
    expectIn(promoted(another(kFixer), kFixer));
    expectIn(promoted(another(kFixer), kFixer));
    const std::int64_t third = another(kFixer);
    expectSpent(promoted(third, kFixer));
    expectSpent(promoted(third, {ActorKind::kAgent, "another"}));
    expectSpent(promoted(third, {ActorKind::kDaemon, "night"}));
    rig.clock().advance(23h);
    expectSpent(promoted(third, kFixer));
    rig.clock().advance(1h);
    expectIn(promoted(third, kFixer));
    rig.expectWhole();
}

TEST_F(EngineBudget, AFixOfAFixDrawsFromTheSame) {
    GRADUS_CASES("I11");
    const std::int64_t root = another(kFixer);
    expectIn(promoted(root, kFixer));
    const auto revise = [&](const std::string& text) {
        const Change was = *rig.store().records().change(root);
        const ChangeSet set = changesBetween({}, {{"made1", file("made1")}, {text, file(text)}}, rig.objects());
        rig.store().write([&](Writer& writer) {
            writer.revise(root, writer.actor(kFixer),
                          {rig.objects().put(set.encode()), was.base, sha256(set.encode()), text, {}, std::nullopt});
        });
    };
    revise("a fix");
    expectIn(promoted(root, kFixer));
    revise("a fix of the fix");
    expectSpent(promoted(root, kFixer));
}

TEST_F(EngineBudget, IsNotGivenBackByTakingBack) {
    GRADUS_CASES("I11");
    rig.productionPolicy = "budget = { promotions = 2, per = \"1d\" }";
    expectIn(promoted(another(kFixer), kFixer));
    const StageReport second = promoted(another(kFixer), kFixer);
    expectIn(second);
    rig.actor = kAda;
    ASSERT_TRUE(rig.engine()->rollBack(second.promotion.id, rig.progress, {}).succeeded());
    expectSpent(promoted(another(kFixer), kFixer));
}

TEST_F(EngineBudget, IsSpentOnWhatAPersonMadeAndAMachinePromotes) {
    GRADUS_CASES("I11");
    expectIn(promoted(another(kAda), kFixer));
    expectIn(promoted(another(kAda), kFixer));
    expectSpent(promoted(another(kAda), kFixer));
    expectIn(promoted(another(kAda), kAda));
}

TEST_F(EngineBudget, PeopleSpendNothing) {
    for (int i = 0; i < 3; ++i) expectIn(promoted(another(kAda), kAda));
    expectIn(promoted(another(kFixer), kFixer));
}

TEST_F(EngineBudget, OneRollbackClosesTheStageToMachines) {
    GRADUS_CASES("I11");
    rig.answers.after = [](const std::string& stage) {
        return stage == "production" ? Cause::kFailed : Cause::kPassed;
    };
    EXPECT_EQ(promoted(another(kFixer), kFixer).promotion.state, S::kRolledBack);
    rig.answers.after = [](const std::string&) { return Cause::kPassed; };
    expectSpent(promoted(another(kFixer), kFixer));
    expectIn(promoted(another(kAda), kAda));
}

TEST_F(EngineBudget, WhatTheMonitorTakesBackIsARollbackToo) {
    GRADUS_CASES("I11");
    rig.monitor = 24h;
    expectIn(promoted(another(kAda), kAda));
    expectIn(promoted(another(kFixer), kFixer));
    rig.answers.after = [](const std::string&) { return Cause::kFailed; };
    rig.actor = kAda;
    ASSERT_EQ(rig.engine()->monitor({}, rig.progress, {}).takenBack.size(), 1U);
    rig.answers.after = [](const std::string&) { return Cause::kPassed; };
    rig.monitor = 0h;
    expectSpent(promoted(another(kFixer), kFixer));
}

}  // namespace
}  // namespace gradus::test
