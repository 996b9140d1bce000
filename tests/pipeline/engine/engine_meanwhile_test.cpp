// What others do while a change is on its way, over real drivers, made-up checks and a clock that is told the time.
#include <gtest/gtest.h>

#include "store/model/error.h"
#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using S = PromotionState;

const Actor kBen{ActorKind::kPerson, "ben"};

class EngineMeanwhile : public testing::Test {
  protected:
    void SetUp() override { build(rig.project(), sampleBefore()); }
    EngineRig rig;
    int made = 0;

    std::int64_t another(const Actor& by = kAda) {
        const std::string path = "made" + std::to_string(++made);
        return rig.submitChanges(changesBetween({}, {{path, file(path)}}, rig.objects()), by);
    }
    /// While the checks of production run, once.
    void whileChecked(const std::function<void()>& work) {
        rig.answers.before = [work, isDone = false](const std::string& stage) mutable {
            if (stage == "production" && !std::exchange(isDone, true)) work();
            return Cause::kPassed;
        };
    }
    std::unique_ptr<Engine> as(const Actor& actor) {
        rig.actor = actor;
        return rig.engine();
    }
    StageReport promoted(std::int64_t change, const Actor& by = kAda) {
        return as(by)->promote(change, "production", rig.progress, {}).stages.back();
    }
    std::vector<Promotion> intoProduction() { return rig.store().records().promotionsIn(1, "production", 100); }
    void say(const std::function<void(WordWriter&)>& what) {
        rig.store().write([&](Writer& writer) {
            WordWriter words(writer, writer.actor(kBen), 0);
            what(words);
        });
    }
    void hold() {
        say([](WordWriter& words) { words.hold({.project = 1, .stage = "production", .reason = "an audit"}); });
    }
    void unhold() {
        say([](WordWriter& words) { words.release(1, std::nullopt, "production"); });
    }
};

// Both have looked, and neither has seen the other.
TEST_F(EngineMeanwhile, OfTwoThatWantTheSameOneOpensAPromotion) {
    GRADUS_CASES("I1", "I20");
    const std::int64_t change = another();
    ASSERT_TRUE(as(kAda)->promote(change, "local", rig.progress, {}).succeeded());
    hold();
    EngineProgress progress = rig.progress;
    progress.looked = [&, isDone = false](const std::string& stage, std::chrono::nanoseconds) mutable {
        if (stage != "production" || std::exchange(isDone, true)) return;
        EXPECT_EQ(promoted(change).promotion.state, S::kWaiting);
    };
    const StageReport second = as(kAda)->promote(change, "production", progress, {}).stages.back();
    ASSERT_TRUE(second.fault);
    EXPECT_EQ(second.fault->code(), ErrorCode::kBusy);
    EXPECT_EQ(intoProduction().size(), 1U);
}

TEST_F(EngineMeanwhile, WhatAnotherBroughtInIsNotBroughtInAgain) {
    GRADUS_CASES("I1");
    ASSERT_TRUE(promoted(another()).succeeded());
    const std::int64_t change = another();
    ASSERT_TRUE(as(kAda)->promote(change, "local", rig.progress, {}).succeeded());
    EngineProgress progress = rig.progress;
    progress.looked = [&, isDone = false](const std::string& stage, std::chrono::nanoseconds) mutable {
        if (stage != "production" || std::exchange(isDone, true)) return;
        EXPECT_TRUE(promoted(change).succeeded());
    };
    const StageReport second = as(kAda)->promote(change, "production", progress, {}).stages.back();
    EXPECT_TRUE(second.already) << second.reason;
    EXPECT_EQ(intoProduction().size(), 2U);
    rig.expectWhole();
}

TEST_F(EngineMeanwhile, ANoWhileItIsCheckedIsItsEnd) {
    const std::int64_t change = another();
    whileChecked([&] {
        rig.clock().advance(Milliseconds(1000));
        as(kBen)->reject(change, "production", "not today");
    });
    const StageReport report = promoted(change);
    EXPECT_EQ(report.promotion.state, S::kRejected);
    EXPECT_EQ(report.promotion.cause, Cause::kCancelled);
    EXPECT_EQ(report.reason, "ben said no: not today");
    EXPECT_EQ(rig.productionTree(), std::nullopt);
    rig.answers.before = [](const std::string&) { return Cause::kPassed; };
    rig.clock().advance(Milliseconds(1000));
    EXPECT_TRUE(promoted(change).succeeded()) << "a person may try again";
    rig.expectWhole();
}

TEST_F(EngineMeanwhile, RulesThatAreTrustedWhileItIsCheckedStopIt) {
    GRADUS_CASES("I16");
    const std::int64_t change = another();
    whileChecked([&] {
        rig.store().write([&](Writer& writer) {
            writer.trustRules(1, writer.actor(kBen), sha256("other rules"), sha256("other files"));
        });
    });
    const StageReport report = promoted(change);
    EXPECT_EQ(report.promotion.state, S::kWaiting);
    EXPECT_NE(report.reason.find("the rules in force are others"), std::string::npos) << report.reason;
    EXPECT_EQ(rig.productionTree(), std::nullopt);
}

TEST_F(EngineMeanwhile, WhoStopsDrivingAnothersPromotionLeavesItWaiting) {
    const std::int64_t first = another();
    hold();
    ASSERT_EQ(promoted(first, kAda).promotion.state, S::kWaiting);
    unhold();
    std::stop_source stop;
    whileChecked([&] { stop.request_stop(); });
    as(kBen)->promote(another(kBen), "production", rig.progress, stop.get_token());
    const auto all = rig.store().records().promotionsOf(first);
    EXPECT_EQ(all.back().state, S::kWaiting) << "it is ada's";
    EXPECT_EQ(rig.store().records().movedBy(all.back().id), kAda);
    rig.answers.before = [](const std::string&) { return Cause::kPassed; };
    EXPECT_TRUE(promoted(first).succeeded());
}

TEST_F(EngineMeanwhile, AMachinesChangeOfWhatGitReadsWaitsForAPerson) {
    GRADUS_CASES("CA13");
    const std::int64_t change =
        rig.submitChanges(changesBetween({}, {{".gitattributes", file("* text\n")}}, rig.objects()), kBot);
    const StageReport report = as(kBot)->promote(change, "production", rig.progress, {}).stages.back();
    EXPECT_EQ(report.promotion.state, S::kWaiting) << report.reason;
    ASSERT_TRUE(report.gates);
    EXPECT_EQ(report.gates->at(Gate::kRules).state, GateState::kClosed);
    as(kBen)->approve(change, report.promotion.stage, "", false);
    EXPECT_TRUE(as(kBot)->promote(change, report.promotion.stage, rig.progress, {}).succeeded());
}

TEST_F(EngineMeanwhile, WhereTheStageMustBeExactlyAsItWasWhatWaitedIsStale) {
    ASSERT_TRUE(promoted(another()).succeeded());
    rig.productionPolicy = "freshness = \"exact\"\napprovals = [{ count = 1 }]";
    const std::int64_t first = another();
    const std::int64_t second = another();
    ASSERT_EQ(promoted(first).promotion.state, S::kWaiting);
    ASSERT_EQ(promoted(second).promotion.state, S::kWaiting);
    as(kBen)->approve(first, "production", "", false);
    ASSERT_TRUE(promoted(first).succeeded());
    EXPECT_EQ(promoted(second).promotion.state, S::kStale);
}

}  // namespace
}  // namespace gradus::test
