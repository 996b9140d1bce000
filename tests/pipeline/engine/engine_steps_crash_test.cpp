// The engine is killed before and after every intent, effect and result of a step, while it runs and while it recovers:
// what may not run twice never does, and what the records say is what is there.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <iostream>
#include <thread>

#include "tests/pipeline/engine/steps_world.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using S = PromotionState;

/// A project whose production holds something, a change for it, and steps of one kind around the switch.
struct StepScene {
    /// The step `failing`, if any, says no.
    StepScene(const std::string& kind, Cause health, const std::string& failing = "") {
        build(rig.project(), sampleBefore());
        Tree first = sampleBefore();
        first["first"] = file("first");
        EXPECT_TRUE(rig.promote(rig.submit(first)).succeeded());
        before = *rig.productionTree();
        first["second"] = file("second");
        change = rig.submit(first);
        const std::string rule = kind == "probe" ? world.probe() : fmt::format("idempotence = \"{}\"\n", kind);
        rig.moreRules = world.step("a", world.undo() + rule) + world.step("b", world.undo() + rule) +
                        world.step("c", world.undo() + rule + "when = \"after-switch\"");
        if (!failing.empty()) world.fail("run", failing);
        rig.answers.after = [health](const std::string& stage) {
            return stage == "production" ? health : Cause::kPassed;
        };
    }

    /// Promotes in a process that is killed when its first command has run and nobody has recorded it.
    int dieAfterTheFirstCommand() {
        rig.close();
        return inChild([&] {
            rig.ran = [] { dieNow(); };
            rig.engine()->promote(change, "production", rig.progress, {});
        });
    }

    EngineRig rig;
    StepsWorld world{rig};
    Tree before;
    std::int64_t change = 0;
};

class EngineStepsCrash : public testing::Test {
  protected:
    /// Every call that changes something, every commit, and the end of every command, once production is entered.
    template <typename Work>
    static std::size_t pointsOf(StepScene& scene, std::size_t nth, bool isCountedAtOnce, const Work& work) {
        std::size_t count = 0;
        bool isCounted = isCountedAtOnce;
        const auto point = [&] {
            if (isCounted && ++count == nth) dieNow();
            return 0;
        };
        WatchedOperations files([&](std::size_t, std::string_view, std::string_view) { return point(); });
        scene.rig.progress.moved = [&](const Promotion& promotion, const std::string&) {
            isCounted = isCounted || (promotion.stage == "production" && promotion.state == S::kApplying);
            point();
        };
        scene.rig.progress.stepped = [&](const StepRecord&) { point(); };
        scene.rig.ran = point;
        work(*scene.rig.engine(files));
        scene.rig.progress = {};
        scene.rig.ran = nullptr;
        return count;
    }
    static std::size_t promote(StepScene& scene, std::size_t nth) {
        return pointsOf(scene, nth, false,
                        [&](Engine& engine) { engine.promote(scene.change, "production", scene.rig.progress, {}); });
    }
    static int promoteAndDie(StepScene& scene, std::size_t nth) {
        scene.rig.close();
        return inChild([&] { promote(scene, nth); });
    }
    static int recoverAndDie(StepScene& scene, std::size_t nth) {
        scene.rig.close();
        return inChild(
            [&] { pointsOf(scene, nth, true, [&](Engine& engine) { engine.recover(scene.rig.progress, {}); }); });
    }
    static Promotion last(StepScene& scene) { return scene.rig.promotions().back(); }

    /// The target and the world are as the promotion's end says.
    void expectWhole(StepScene& scene, const std::string& when) {
        SCOPED_TRACE(when);
        scene.rig.progress = {};
        scene.rig.ran = nullptr;
        scene.rig.expectWhole();
        const Promotion promotion = last(scene);
        const Tree now = *scene.rig.productionTree();
        if (promotion.state == S::kStuck) return;
        const bool isThrough = promotion.state == S::kPromoted;
        EXPECT_EQ(now.contains("second"), isThrough) << nameOf(kPromotionStates, promotion.state);
        for (const char* name : {"a", "b", "c"}) EXPECT_EQ(scene.world.isDone(name), isThrough) << name;
        if (!isThrough) {
            EXPECT_EQ(difference(now, scene.before), "");
        }
    }

    void killEverywhere(const std::string& kind, Cause health, const std::string& failing = "") {
        StepScene whole(kind, health, failing);
        const std::size_t points = promote(whole, 0);
        ASSERT_GT(points, 15U);
        std::size_t stuck = 0;
        for (std::size_t n = 1; n <= points; n += isLong() || points < 30 ? 1 : 2) {
            StepScene scene(kind, health, failing);
            ASSERT_EQ(promoteAndDie(scene, n), SIGKILL) << n;
            scene.rig.engine()->recover(scene.rig.progress, {});
            expectWhole(scene, fmt::format("{}, killed at point {} of {}", kind, n, points));
            judge(scene, kind, stuck);
            if (HasFailure()) return;
        }
        EXPECT_EQ(kind == "no", stuck > 0);
        std::cout << kind << ": " << points << " points, " << stuck << " times it ended in stuck\n";
    }

    void judge(StepScene& scene, const std::string& kind, std::size_t& stuck) {
        const bool isStuck = last(scene).state == S::kStuck;
        if (isStuck) ++stuck;
        EXPECT_TRUE(kind == "no" || !isStuck);
        for (const std::string name : {"a", "b", "c"}) {
            if (kind == "no" || kind == "probe") {
                EXPECT_LE(scene.world.count("run " + name), 1U) << name;
                EXPECT_LE(scene.world.count("undo " + name), 1U) << name;
            }
        }
    }
};

TEST_F(EngineStepsCrash, WhatMayRunAgainComesToAnEnd) {
    GRADUS_CASES("CR1", "I1");
    killEverywhere("yes", Cause::kPassed);
    killEverywhere("yes", Cause::kFailed);
}

TEST_F(EngineStepsCrash, WhatHasAKeyComesToAnEnd) {
    GRADUS_CASES("I1");
    killEverywhere("keyed", Cause::kFailed);
}

TEST_F(EngineStepsCrash, WhatCanBeAskedNeverRunsTwice) {
    GRADUS_CASES("I1");
    killEverywhere("probe", Cause::kPassed);
    killEverywhere("probe", Cause::kFailed);
}

TEST_F(EngineStepsCrash, WhatMayNotRunTwiceNeverDoesAndEndsInStuck) {
    GRADUS_CASES("I1");
    killEverywhere("no", Cause::kPassed);
    killEverywhere("no", Cause::kFailed);
}

TEST_F(EngineStepsCrash, WhatSaidNoGoesBackWhoeverComesAfter) {
    killEverywhere("yes", Cause::kPassed, "c");
    killEverywhere("probe", Cause::kPassed, "c");
    killEverywhere("no", Cause::kPassed, "c");
    killEverywhere("yes", Cause::kPassed, "b");
}

TEST_F(EngineStepsCrash, APersonsWordFreesWhatIsStuck) {
    for (const bool isDone : {true, false}) {
        StepScene scene("no", Cause::kPassed);
        ASSERT_EQ(scene.dieAfterTheFirstCommand(), SIGKILL);
        scene.rig.engine()->recover(scene.rig.progress, {});
        const Promotion stuck = last(scene);
        ASSERT_EQ(stuck.state, S::kStuck);
        EXPECT_THROW(scene.rig.engine()->rollBack(stuck.id, scene.rig.progress, {}), Error);
        EXPECT_EQ(scene.world.count("run a"), 1U);
        const auto back =
            scene.rig.engine()->rollBack(stuck.id, scene.rig.progress, {}, {.insist = {}, .words = {{"a", isDone}}});
        EXPECT_TRUE(back.succeeded()) << back.reason;
        EXPECT_EQ(scene.world.count("undo a"), isDone ? 1U : 0U);
        EXPECT_EQ(difference(*scene.rig.productionTree(), scene.before), "");
        scene.rig.expectWhole();
    }
}

/// Whose step `a` cannot be undone.
void makeIrreversible(StepScene& scene) {
    scene.rig.moreRules = scene.world.step("a", "irreversible = true\nidempotence = \"yes\"") +
                          scene.world.step("b", scene.world.undo() + "idempotence = \"yes\"") +
                          scene.world.step("c", scene.world.undo() + "idempotence = \"yes\"\nwhen = \"after-switch\"");
}

class EngineStepsCrashPast : public EngineStepsCrash {
  protected:
    static std::size_t promoteIt(StepScene& scene, std::size_t nth) {
        return pointsOf(scene, nth, false, [&](Engine& engine) {
            engine.promote(scene.change, "production", scene.rig.progress, {},
                           {.overrides = {{Gate::kSteps, "a backup was made"}}});
        });
    }
};

TEST_F(EngineStepsCrashPast, AnIrreversibleOneARecoveryGoesOn) {
    StepScene whole("yes", Cause::kPassed);
    makeIrreversible(whole);
    const std::size_t points = promoteIt(whole, 0);
    ASSERT_EQ(last(whole).state, S::kPromoted);
    for (std::size_t n = 1; n <= points; n += isLong() ? 1 : 2) {
        StepScene scene("yes", Cause::kPassed);
        makeIrreversible(scene);
        scene.rig.close();
        ASSERT_EQ(inChild([&] { promoteIt(scene, n); }), SIGKILL) << n;
        scene.rig.engine()->recover(scene.rig.progress, {});
        SCOPED_TRACE(n);
        scene.rig.expectWhole();
        // Once it may have run, the way leads on; before, back.
        const bool isThrough = last(scene).state == S::kPromoted;
        EXPECT_EQ(isThrough, scene.world.count("run a") > 0 || isThrough);
        EXPECT_EQ(scene.rig.productionTree()->contains("second"), isThrough);
        EXPECT_EQ(scene.world.isDone("c"), isThrough);
        if (HasFailure()) return;
    }
}

TEST_F(EngineStepsCrashPast, AnIrreversibleOneWhatSaidNoStandsStill) {
    for (const std::string failing : {"b", "c"}) {
        StepScene whole("yes", Cause::kPassed, failing);
        makeIrreversible(whole);
        const std::size_t points = promoteIt(whole, 0);
        ASSERT_EQ(last(whole).state, S::kStuck);
        for (std::size_t n = 1; n <= points; n += isLong() ? 1 : 2) {
            StepScene scene("yes", Cause::kPassed, failing);
            makeIrreversible(scene);
            scene.rig.close();
            ASSERT_EQ(inChild([&] { promoteIt(scene, n); }), SIGKILL) << n;
            scene.rig.engine()->recover(scene.rig.progress, {});
            SCOPED_TRACE(fmt::format("{} fails, killed at point {} of {}", failing, n, points));
            scene.rig.expectWhole();
            EXPECT_EQ(last(scene).state == S::kStuck, scene.world.isDone("a"));
            if (last(scene).state != S::kStuck) {
                EXPECT_EQ(difference(*scene.rig.productionTree(), scene.before), "");
            }
            EXPECT_EQ(scene.world.count("undo " + failing), 0U) << "half of it stands as it is";
            if (HasFailure()) return;
        }
    }
}

TEST_F(EngineStepsCrashPast, AnIrreversibleOneSomebodyInsistedIsRemembered) {
    const auto insist = [](StepScene& scene, std::int64_t promotion, std::size_t nth) {
        return pointsOf(scene, nth, true, [&](Engine& engine) {
            engine.rollBack(promotion, scene.rig.progress, {}, {.insist = "a backup was restored"});
        });
    };
    // Taken back while it waits for a person to: it is the same promotion that goes back.
    const auto waiting = [&](StepScene& scene) {
        makeIrreversible(scene);
        scene.rig.rollback = "manual";
        promoteIt(scene, 0);
        EXPECT_EQ(last(scene).state, S::kVerifying);
        return last(scene).id;
    };
    StepScene whole("yes", Cause::kFailed);
    const std::size_t points = insist(whole, waiting(whole), 0);
    ASSERT_EQ(last(whole).state, S::kRolledBack);
    std::size_t back = 0;
    for (std::size_t n = 1; n <= points; n += isLong() ? 1 : 2) {
        StepScene scene("yes", Cause::kFailed);
        const std::int64_t promotion = waiting(scene);
        scene.rig.close();
        ASSERT_EQ(inChild([&] { insist(scene, promotion, n); }), SIGKILL) << n;
        scene.rig.engine()->recover(scene.rig.progress, {});
        SCOPED_TRACE(n);
        // Killed before it was on record, nobody has insisted on anything.
        if (last(scene).state == S::kVerifying) continue;
        ++back;
        EXPECT_EQ(last(scene).state, S::kRolledBack);
        EXPECT_EQ(difference(*scene.rig.productionTree(), scene.before), "");
        if (HasFailure()) return;
    }
    EXPECT_GT(back, 3U);
}

TEST_F(EngineStepsCrash, AProbeThatCannotTellHasNotSaidNo) {
    for (const std::string probe : {"exit 2", "no-such-program"}) {
        StepScene scene("yes", Cause::kPassed);
        scene.rig.moreRules = scene.world.step(
            "a",
            fmt::format("{}idempotence = \"probe\"\nprobe = [\"sh\", \"-c\", \"{}\"]\n", scene.world.undo(), probe));
        ASSERT_EQ(scene.dieAfterTheFirstCommand(), SIGKILL);
        scene.rig.engine()->recover(scene.rig.progress, {});
        EXPECT_EQ(last(scene).state, S::kStuck) << probe;
        EXPECT_EQ(scene.world.count("undo a"), 0U) << probe;
    }
}

/// A step that runs until it is told to end, and says then that it was done.
struct SlowScene : StepScene {
    SlowScene() : StepScene("yes", Cause::kPassed) {
        const std::string place = rig.outside().native();
        rig.moreRules = fmt::format(
            "[[stage.production.step]]\nname = \"slow\"\nidempotence = \"probe\"\n"
            "run = [\"sh\", \"-c\", \"touch {0}/begun; while test -d {0} -a ! -e {0}/end; do sleep 0.01; done; touch "
            "{0}/done\"]\n"
            "undo = [\"rm\", \"{0}/done\"]\nprobe = [\"sh\", \"-c\", \"echo asked >> {0}/asked; test -e {0}/done\"]\n",
            place);
    }
    void await(const std::string& name) const {
        for (int i = 0; i < 10'000 && !std::filesystem::exists(rig.outside() / name); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    bool has(const std::string& name) const { return std::filesystem::exists(rig.outside() / name); }
    void put(const std::string& name) const { std::ofstream(rig.outside() / name) << ""; }
};

TEST_F(EngineStepsCrash, NobodySettlesADoubtWhileTheStepStillRuns) {
    SlowScene scene;
    scene.rig.close();
    ASSERT_EQ(inChild([&] {
                  const std::jthread killer([&] {
                      scene.await("begun");
                      dieNow();
                  });
                  scene.rig.engine()->promote(scene.change, "production", scene.rig.progress, {});
              }),
              SIGKILL);
    const auto early = scene.rig.engine()->recover(scene.rig.progress, {});
    ASSERT_EQ(early.size(), 1U);
    ASSERT_TRUE(early.front().fault);
    EXPECT_EQ(early.front().fault->code(), ErrorCode::kBusy);
    EXPECT_FALSE(scene.has("asked"));
    EXPECT_EQ(last(scene).state, S::kApplying);
    scene.put("end");
    // Its end is waited for, as long as one waits for a target.
    scene.await("done");
    const auto late = scene.rig.engine()->recover(scene.rig.progress, {});
    ASSERT_EQ(late.size(), 1U);
    EXPECT_FALSE(late.front().fault);
    EXPECT_TRUE(scene.has("asked"));
    EXPECT_FALSE(scene.has("done")) << "it was undone";
    EXPECT_EQ(last(scene).state, S::kRolledBack);
    EXPECT_TRUE(std::filesystem::is_empty(scene.rig.outside() / "state/running"));
    scene.rig.expectWhole();
}

TEST_F(EngineStepsCrash, WhatAStepLeftInTheBackgroundKeepsNobodyFromRecovering) {
    SlowScene scene;
    const std::string place = scene.rig.outside().native();
    scene.rig.moreRules = fmt::format(
        "[[stage.production.step]]\nname = \"server\"\nidempotence = \"yes\"\n"
        "run = [\"sh\", \"-c\", \"(touch {0}/begun; while test -d {0} -a ! -e {0}/end; do sleep 0.01; done; touch "
        "{0}/done) "
        ">/dev/null 2>&1 &\"]\n",
        place);
    ASSERT_EQ(scene.dieAfterTheFirstCommand(), SIGKILL);
    scene.await("begun");
    const auto recovered = scene.rig.engine()->recover(scene.rig.progress, {});
    EXPECT_FALSE(scene.has("done"));
    scene.put("end");
    ASSERT_EQ(recovered.size(), 1U);
    EXPECT_FALSE(recovered.front().fault) << recovered.front().fault->what();
    EXPECT_EQ(last(scene).state, S::kRolledBack);
    scene.await("done");
}

TEST_F(EngineStepsCrash, KilledAgainAndAgainWhileRecovering) {
    GRADUS_CASES("CR3");
    for (const std::string kind : {"yes", "probe", "no"}) {
        StepScene whole(kind, Cause::kFailed);
        const std::size_t points = promote(whole, 0);
        std::size_t deaths = 0;
        std::size_t stuck = 0;
        for (std::size_t n = 2; n <= points; n += isLong() ? 1 : 7) {
            StepScene scene(kind, Cause::kFailed);
            ASSERT_EQ(promoteAndDie(scene, n), SIGKILL);
            std::size_t nth = 1;
            while (recoverAndDie(scene, nth) == SIGKILL) {
                ++deaths;
                nth += isLong() ? 1 : 2;
                ASSERT_LT(nth, 500U);
            }
            expectWhole(scene, fmt::format("{}, killed at {}, then while recovering", kind, n));
            judge(scene, kind, stuck);
            if (HasFailure()) return;
        }
        std::cout << kind << ": " << deaths << " deaths while recovering, " << stuck << " times stuck\n";
    }
}

}  // namespace
}  // namespace gradus::test
