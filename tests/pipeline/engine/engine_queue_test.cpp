// Several that want into one stage: who is next, who is refused, and who ends without having had a turn.
#include <gtest/gtest.h>

#include "store/audit_query.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using namespace std::chrono_literals;
using S = PromotionState;

class EngineQueue : public testing::Test {
  protected:
    void SetUp() override {
        build(rig.project(), sampleBefore());
        rig.engine();
    }
    /// A change of a file of its own, as far as the stage before production.
    std::int64_t change(const std::string& name, const Actor& by = {ActorKind::kPerson, "ada"}) {
        const std::int64_t id = rig.submitChanges(changesBetween({}, {{name, file(name)}}, rig.objects()), by);
        EXPECT_TRUE(rig.promote(id, "local").succeeded());
        return id;
    }
    /// What is said in production, once, while the checks of somebody's promotion run there.
    void meanwhile(const std::function<void()>& work) {
        rig.answers.before = [this, work](const std::string& stage) {
            if (stage != "production" || busy_) return Cause::kPassed;
            busy_ = true;
            work();
            return Cause::kPassed;
        };
    }
    StageReport promoted(std::int64_t id) { return rig.promote(id).stages.back(); }
    /// Of those that are in production, in the order in which they came.
    std::vector<std::int64_t> landed() {
        std::vector<std::int64_t> changes;
        const Records& records = rig.store().records();
        for (auto at = records.stageState(1, "production").promotion; at; at = records.promotion(*at)->previous)
            changes.insert(changes.begin(), records.promotion(*at)->change);
        return changes;
    }
    Promotion latest(std::int64_t id) { return rig.store().records().promotionsOf(id).back(); }
    void say(const std::function<void(WordWriter&)>& work) {
        rig.store().write([&](Writer& writer) {
            WordWriter words(writer, writer.actor(rig.actor), 0);
            work(words);
        });
    }
    void hold(std::int64_t id) {
        say([&](WordWriter& words) { words.hold({.project = 1, .change = id, .reason = "not now"}); });
    }
    void release(std::int64_t id) {
        say([&](WordWriter& words) { words.release(1, id, std::nullopt); });
    }

    EngineRig rig;

  private:
    bool busy_ = false;
};

TEST_F(EngineQueue, WhoComesWhileAnotherIsAtWorkWaitsAndSaysForWhom) {
    const std::int64_t first = change("first");
    const std::int64_t second = change("second");
    StageReport waits;
    meanwhile([&] { waits = promoted(second); });
    EXPECT_TRUE(promoted(first).succeeded());
    ASSERT_EQ(waits.promotion.state, S::kWaiting);
    const GateAnswer gate = waits.gates->at(Gate::kQueue);
    EXPECT_EQ(gate.state, GateState::kClosed);
    EXPECT_EQ(gate.reason, "before it: " + promotionHandle(latest(first).id));
    EXPECT_EQ(rig.store().records().lastReason(waits.promotion.id), gate.reason);
    const StageReport again = promoted(second);
    EXPECT_TRUE(again.succeeded()) << again.reason;
    EXPECT_EQ(again.promotion.id, waits.promotion.id) << "it kept its place";
    EXPECT_EQ(landed(), (std::vector{first, second}));
    rig.expectWhole();
}

// I15: nobody is overtaken by who came later, however many they are and whoever is driven by hand.
TEST_F(EngineQueue, WhoIsReadyLandsBeforeAllThatCameLater) {
    GRADUS_CASES("I15");
    const std::int64_t first = change("first");
    const std::int64_t patient = change("patient");
    std::vector<std::int64_t> newer;
    for (int i = 0; i < 5; ++i) newer.push_back(change("newer" + std::to_string(i)));
    meanwhile([&] {
        EXPECT_EQ(promoted(patient).promotion.state, S::kWaiting);
        for (const std::int64_t id : newer) EXPECT_EQ(promoted(id).promotion.state, S::kWaiting);
    });
    ASSERT_TRUE(promoted(first).succeeded());
    const Climb climb = rig.promote(newer.back());
    EXPECT_TRUE(climb.succeeded()) << climb.stages.back().reason;
    EXPECT_EQ(climb.others.size(), 5U) << "nobody else was there to drive them";
    std::vector<std::int64_t> wanted{first, patient};
    wanted.insert(wanted.end(), newer.begin(), newer.end());
    EXPECT_EQ(landed(), wanted);
    rig.expectWhole();
}

TEST_F(EngineQueue, WhoWaitsForAPersonIsInNobodysWayAndGetsThePlaceBack) {
    GRADUS_CASES("I15");
    const std::int64_t held = change("held");
    const std::int64_t second = change("second");
    const std::int64_t third = change("third");
    hold(held);
    EXPECT_EQ(promoted(held).promotion.state, S::kWaiting);
    EXPECT_TRUE(promoted(second).succeeded());
    release(held);
    EXPECT_TRUE(promoted(third).succeeded());
    EXPECT_EQ(landed(), (std::vector{second, held, third}));
    rig.expectWhole();
}

TEST_F(EngineQueue, WhatIsDrivenForSomebodyIsStillTheirs) {
    const Actor fixer{ActorKind::kAgent, "fixer"};
    const std::int64_t first = change("first");
    const std::int64_t machine = change("machine", fixer);
    const std::int64_t last = change("last");
    meanwhile([&] {
        rig.actor = fixer;
        EXPECT_EQ(promoted(machine).promotion.state, S::kWaiting);
        rig.actor = {ActorKind::kPerson, "ada"};
    });
    ASSERT_TRUE(promoted(first).succeeded());
    EXPECT_TRUE(promoted(last).succeeded());
    EXPECT_EQ(landed(), (std::vector{first, machine, last}));
    EXPECT_EQ(rig.store().records().movedBy(latest(machine).id), fixer);
    EXPECT_EQ(rig.store().records().movedBy(latest(last).id), rig.actor);
}

TEST_F(EngineQueue, AFullQueueRefusesAndGoingBackIsNot) {
    GRADUS_CASES("I17");
    const std::int64_t first = change("first");
    const std::int64_t second = change("second");
    const std::int64_t third = change("third");
    ASSERT_TRUE(promoted(first).succeeded());
    rig.productionPolicy = "queue = 1\n";
    hold(second);
    EXPECT_EQ(promoted(second).promotion.state, S::kWaiting);
    const std::int64_t events = rig.store().records().counts().events;
    const StageReport refused = promoted(third);
    ASSERT_TRUE(refused.fault) << "it was let in";
    EXPECT_EQ(refused.fault->code(), ErrorCode::kBusy);
    EXPECT_NE(std::string(refused.fault->what()).find("the queue of production is full"), std::string::npos);
    EXPECT_NE(refused.fault->hint().find("gradus cancel " + promotionHandle(latest(second).id)), std::string::npos);
    EXPECT_EQ(refused.promotion.id, 0) << "none was opened";
    EXPECT_EQ(rig.store().records().counts().events, events) << "nothing is on record of what was not let in";
    EXPECT_TRUE(rig.engine()->rollBack(latest(first).id, rig.progress, {}).succeeded());
    EXPECT_EQ(rig.productionTree(), std::nullopt);
    release(second);
    EXPECT_TRUE(promoted(second).succeeded()) << "who has a place keeps it";
    EXPECT_TRUE(promoted(third).succeeded());
}

TEST_F(EngineQueue, ALaterRevisionTakesThePlaceOfWhatWaits) {
    GRADUS_CASES("I14");
    const std::int64_t first = change("first");
    const std::int64_t second = change("second");
    hold(first);
    const std::int64_t old = promoted(first).promotion.id;
    hold(second);
    EXPECT_EQ(promoted(second).promotion.state, S::kWaiting);
    const Change was = *rig.store().records().change(first);
    const ChangeSet better = changesBetween({}, {{"first", file("better")}}, rig.objects());
    rig.store().write([&](Writer& writer) {
        writer.revise(first, writer.actor(rig.actor),
                      {rig.objects().put(better.encode()), was.base, sha256("better"), "better", {}, std::nullopt});
    });
    release(first);
    // The work tree has the first one already, and takes the second as well.
    std::filesystem::remove(rig.project() / "first");
    const StageReport now = promoted(first);
    EXPECT_TRUE(now.succeeded()) << now.reason;
    EXPECT_EQ(now.promotion.revision, 2);
    EXPECT_EQ(rig.store().records().promotion(old)->state, S::kSuperseded);
    EXPECT_EQ(rig.store().records().lastReason(old),
              fmt::format("c{}.2 took its place with p{}", first, now.promotion.id));
    auto moves = queryEvents(rig.store().sql(), {.kind = EventKind::kPromotionMoved, .change = first});
    std::erase_if(moves, [&](const Event& move) { return move.promotion != old; });
    EXPECT_EQ(moves.back().fields.optionalNumber("by"), now.promotion.id) << "not only in words, which can be redacted";
    release(second);
    EXPECT_TRUE(promoted(second).succeeded());
}

TEST_F(EngineQueue, WhoIsOvertakenByALaterRevisionWhileItIsCheckedEnds) {
    GRADUS_CASES("I14");
    const std::int64_t id = change("first");
    StageReport newer;
    meanwhile([&] {
        const Change was = *rig.store().records().change(id);
        rig.store().write([&](Writer& writer) {
            writer.revise(id, writer.actor(rig.actor),
                          {was.changeSet, was.base, was.patch, "the same on other ground", {}, std::nullopt});
        });
        newer = promoted(id);
    });
    const StageReport older = promoted(id);
    EXPECT_EQ(older.promotion.state, S::kSuperseded) << older.reason;
    EXPECT_EQ(older.reason, fmt::format("c{}.2 took its place with p{}", id, newer.promotion.id));
    EXPECT_EQ(newer.promotion.state, S::kWaiting);
    EXPECT_TRUE(promoted(id).succeeded());
    EXPECT_EQ(latest(id).id, newer.promotion.id);
    rig.expectWhole();
}

// I18: nothing waits for ever, and nobody's clock ends it early.
TEST_F(EngineQueue, WhatWaitsTooLongIsExpired) {
    GRADUS_CASES("I14", "I18");
    rig.productionPolicy = "wait-limit = \"2d\"\n";
    const std::int64_t id = change("first");
    hold(id);
    const std::int64_t waiting = promoted(id).promotion.id;
    rig.clock().advance(47h);
    EXPECT_TRUE(rig.engine()->expire().empty());
    const Time before = rig.clock().now();
    rig.clock().set(before + 24h * 365);
    EXPECT_TRUE(rig.engine()->expire().empty()) << "the clock was set, no time has passed";
    rig.clock().set(before);
    rig.clock().advance(1h);
    const auto ended = rig.engine()->expire();
    ASSERT_EQ(ended.size(), 1U);
    EXPECT_EQ(ended.front().id, waiting);
    EXPECT_EQ(ended.front().state, S::kExpired);
    EXPECT_EQ(rig.store().records().lastReason(waiting), "it waited 2d, and wait-limit is 2d");
    EXPECT_NE(promoted(id).promotion.id, waiting) << "an end is final";
}

TEST_F(EngineQueue, ADeadlineIsTheSameAfterARestart) {
    GRADUS_CASES("I18");
    rig.productionPolicy = "wait-limit = \"2d\"\n";
    const std::int64_t id = change("first");
    hold(id);
    promoted(id);
    rig.close();
    rig.clock().reboot(24h);
    EXPECT_TRUE(rig.engine()->expire().empty());
    rig.clock().advance(24h);
    EXPECT_EQ(rig.engine()->expire().size(), 1U);
}

// Only one is at work in a stage at any time, and a killed one keeps nobody waiting.
TEST_F(EngineQueue, WhoWaitsGoesOnWhenTheOneBeforeItIsKilled) {
    const std::int64_t first = change("first");
    const std::int64_t second = change("second");
    rig.close();
    EXPECT_EQ(inChild([&] {
                  meanwhile([] { dieNow(); });
                  rig.promote(first);
              }),
              SIGKILL);
    rig.engine();
    const Climb climb = rig.engine()->promote(second, "production", rig.progress, {}, {.patience = 1min});
    EXPECT_TRUE(climb.succeeded()) << climb.stages.back().reason;
    EXPECT_EQ(latest(first).state, S::kCancelled);
    EXPECT_EQ(landed(), std::vector{second});
    rig.expectWhole();
}

TEST_F(EngineQueue, WhatBecameReadyIsDrivenInOrder) {
    const std::int64_t first = change("first");
    const std::int64_t second = change("second");
    for (const std::int64_t id : {first, second}) {
        hold(id);
        EXPECT_EQ(promoted(id).promotion.state, S::kWaiting);
    }
    EXPECT_TRUE(rig.engine()->driveReady(rig.progress, {}).empty());
    release(second);
    release(first);
    EXPECT_EQ(rig.engine()->driveReady(rig.progress, {}).size(), 2U);
    EXPECT_EQ(landed(), (std::vector{first, second}));
    rig.expectWhole();
}

TEST_F(EngineQueue, WhatIsWrongWithOneStageKeepsNobodyFromBeingDriven) {
    ASSERT_TRUE(promoted(change("first")).succeeded());
    const std::int64_t waits = change("second");
    hold(waits);
    ASSERT_EQ(promoted(waits).promotion.state, S::kWaiting);
    release(waits);
    std::filesystem::rename(rig.production(), rig.outside() / "elsewhere");
    EXPECT_TRUE(rig.engine()->driveReady(rig.progress, {}).empty());
    EXPECT_EQ(latest(waits).state, S::kWaiting);
    std::filesystem::rename(rig.outside() / "elsewhere", rig.production());
    EXPECT_EQ(rig.engine()->driveReady(rig.progress, {}).size(), 1U);
}

}  // namespace
}  // namespace gradus::test
