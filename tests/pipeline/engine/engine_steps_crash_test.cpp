// The engine is killed before and after every intent, effect and result of a step, while it runs and while it recovers:
// what may not run twice never does, and what the records say is what is there.
#include <gtest/gtest.h>
#include <signal.h>

#include <iostream>

#include "tests/pipeline/engine/steps_world.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using S = PromotionState;

bool isLong() { return std::getenv("GRADUS_LONG") != nullptr; }

/// A project whose production holds something, a change for it, and steps of one kind around the switch.
struct Scene {
    Scene(const std::string& kind, Cause health) {
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
        rig.answers.after = [health](const std::string& stage) {
            return stage == "production" ? health : Cause::kPassed;
        };
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
    static std::size_t pointsOf(Scene& scene, std::size_t nth, bool isCountedAtOnce, const Work& work) {
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
    static std::size_t promote(Scene& scene, std::size_t nth) {
        return pointsOf(scene, nth, false,
                        [&](Engine& engine) { engine.promote(scene.change, "production", scene.rig.progress, {}); });
    }
    static int promoteAndDie(Scene& scene, std::size_t nth) {
        scene.rig.close();
        return inChild([&] { promote(scene, nth); });
    }
    static int recoverAndDie(Scene& scene, std::size_t nth) {
        scene.rig.close();
        return inChild(
            [&] { pointsOf(scene, nth, true, [&](Engine& engine) { engine.recover(scene.rig.progress, {}); }); });
    }
    static Promotion last(Scene& scene) { return scene.rig.promotions().back(); }

    /// The target and the world are as the promotion's end says.
    void expectWhole(Scene& scene, const std::string& when) {
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

    void killEverywhere(const std::string& kind, Cause health) {
        Scene whole(kind, health);
        const std::size_t points = promote(whole, 0);
        ASSERT_GT(points, 15U);
        std::size_t stuck = 0;
        for (std::size_t n = 1; n <= points; n += isLong() || points < 30 ? 1 : 2) {
            Scene scene(kind, health);
            ASSERT_EQ(promoteAndDie(scene, n), SIGKILL) << n;
            scene.rig.engine()->recover(scene.rig.progress, {});
            expectWhole(scene, fmt::format("{}, killed at point {} of {}", kind, n, points));
            judge(scene, kind, stuck);
            if (HasFailure()) return;
        }
        EXPECT_EQ(kind == "no", stuck > 0);
        std::cout << kind << ": " << points << " points, " << stuck << " times it ended in stuck\n";
    }

    void judge(Scene& scene, const std::string& kind, std::size_t& stuck) {
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

TEST_F(EngineStepsCrash, APersonsWordFreesWhatIsStuck) {
    for (const bool isDone : {true, false}) {
        Scene scene("no", Cause::kPassed);
        // The end of the first command: it ran, and nobody recorded it.
        scene.rig.close();
        ASSERT_EQ(inChild([&] {
                      scene.rig.ran = [] { dieNow(); };
                      scene.rig.engine()->promote(scene.change, "production", scene.rig.progress, {});
                  }),
                  SIGKILL);
        scene.rig.ran = nullptr;
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

TEST_F(EngineStepsCrash, PastAnIrreversibleOneARecoveryGoesOn) {
    Scene whole("yes", Cause::kPassed);
    const auto rules = [](Scene& scene) {
        scene.rig.moreRules =
            scene.world.step("a", "irreversible = true\nidempotence = \"yes\"") +
            scene.world.step("b", scene.world.undo() + "idempotence = \"yes\"") +
            scene.world.step("c", scene.world.undo() + "idempotence = \"yes\"\nwhen = \"after-switch\"");
        scene.rig.productionPolicy = "";
    };
    const auto promoteIt = [](Scene& scene, std::size_t nth) {
        return pointsOf(scene, nth, false, [&](Engine& engine) {
            engine.promote(scene.change, "production", scene.rig.progress, {},
                           {.overrides = {{Gate::kSteps, "a backup was made"}}});
        });
    };
    rules(whole);
    const std::size_t points = promoteIt(whole, 0);
    ASSERT_EQ(last(whole).state, S::kPromoted);
    for (std::size_t n = 1; n <= points; n += isLong() ? 1 : 2) {
        Scene scene("yes", Cause::kPassed);
        rules(scene);
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

TEST_F(EngineStepsCrash, KilledAgainAndAgainWhileRecovering) {
    GRADUS_CASES("CR3");
    for (const std::string kind : {"yes", "probe", "no"}) {
        Scene whole(kind, Cause::kFailed);
        const std::size_t points = promote(whole, 0);
        std::size_t deaths = 0;
        std::size_t stuck = 0;
        for (std::size_t n = 2; n <= points; n += isLong() ? 1 : 7) {
            Scene scene(kind, Cause::kFailed);
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
