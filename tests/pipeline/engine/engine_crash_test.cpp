// The engine is killed at every call that changes a target and after every commit, while it runs and while it recovers:
// one end for every promotion, every target wholly before or after, and a log that verifies.
#include <gtest/gtest.h>
#include <signal.h>

#include <iostream>

#include "store/model/error.h"
#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using S = PromotionState;

bool isLong() { return std::getenv("GRADUS_LONG") != nullptr; }

/// Counts what changes anything and dies, or fails, at the Nth.
class Countdown {
  public:
    explicit Countdown(std::size_t nth, int error = 0) : nth_(nth), error_(error) {}
    int call() {
        if (++count_ != nth_) return 0;
        if (error_ == 0) dieNow();
        return error_;
    }
    std::size_t count() const { return count_; }

  private:
    std::size_t nth_;
    int error_;
    std::size_t count_ = 0;
};

class EngineCrash : public testing::Test {
  protected:
    /// A project whose production holds the first tree, and a change to the second one.
    std::unique_ptr<EngineRig> scene(Cause health) {
        auto rig = std::make_unique<EngineRig>();
        build(rig->project(), sampleBefore());
        first_ = rig->submit(with(sampleBefore(), "first"));
        EXPECT_TRUE(rig->promote(first_).succeeded());
        change_ = rig->submit(with(sampleAfter(), "first"));
        rig->answers.after = [health](const std::string& stage) {
            return stage == "production" ? health : Cause::kPassed;
        };
        projectBefore_ = rig->projectTree();
        return rig;
    }
    static Tree with(Tree tree, const std::string& name) {
        tree[name] = file(name);
        return tree;
    }

    /// Promotes in a process that dies at the Nth point; the number of points when it came through.
    int promoteAndDie(EngineRig& rig, std::size_t nth, int error = 0, std::size_t* points = nullptr) {
        Countdown countdown(nth, error);
        const auto work = [&] {
            WatchedOperations files([&](std::size_t, std::string_view, std::string_view) { return countdown.call(); });
            rig.progress.moved = [&](const Promotion&, const std::string&) { countdown.call(); };
            rig.engine(files)->promote(change_, "production", rig.progress, {});
        };
        if (points != nullptr) {
            work();
            *points = countdown.count();
            return 0;
        }
        rig.close();
        return inChild(work);
    }
    int recoverAndDie(EngineRig& rig, std::size_t nth) {
        rig.close();
        return inChild([&] {
            Countdown countdown(nth);
            WatchedOperations files([&](std::size_t, std::string_view, std::string_view) { return countdown.call(); });
            rig.progress.moved = [&](const Promotion&, const std::string&) { countdown.call(); };
            rig.engine(files)->recover(rig.progress, {});
        });
    }

    /// Each target is as the last word about it says, and nothing in between.
    void expectWhole(EngineRig& rig, const std::string& when) {
        SCOPED_TRACE(when);
        rig.progress = {};
        rig.expectWhole();
        const Tree production = plain(*rig.productionTree());
        const Tree local = plain(rig.projectTree());
        const bool isLocal = lastState(rig, "local") == S::kPromoted;
        const bool isProduction = lastState(rig, "production") == S::kPromoted;
        EXPECT_EQ(difference(local, isLocal ? with(sampleAfter(), "first") : with(sampleBefore(), "first")), "");
        EXPECT_EQ(difference(production, isProduction ? with(sampleAfter(), "first") : with(sampleBefore(), "first")),
                  "");
        // A release that nothing shows is no harm, but none may be half there under a name that counts.
        EXPECT_FALSE(std::filesystem::exists(rig.project() / ".gradus-staging"));
    }
    S lastState(EngineRig& rig, const std::string& stage) {
        S state = S::kQueued;
        for (const Promotion& promotion : rig.promotions())
            if (promotion.change == change_ && promotion.stage == stage) state = promotion.state;
        return state;
    }

    void killEverywhere(Cause health) {
        std::size_t points = 0;
        promoteAndDie(*scene(health), 0, 0, &points);
        ASSERT_GT(points, 50U);
        std::size_t through = 0;
        for (std::size_t n = 1; n <= points; ++n) {
            const auto rig = scene(health);
            const int end = promoteAndDie(*rig, n);
            ASSERT_EQ(end, SIGKILL) << n;
            rig->engine()->recover(rig->progress = {}, {});
            expectWhole(*rig, fmt::format("killed at point {} of {}", n, points));
            if (lastState(*rig, "production") == S::kPromoted) ++through;
            if (HasFailure()) return;
        }
        std::cout << points << " points, killed at each; " << through << " times it was through already\n";
    }

    std::int64_t first_ = 0;
    std::int64_t change_ = 0;
    Tree projectBefore_;
};

TEST_F(EngineCrash, KilledAnywhereOnTheWayUp) {
    GRADUS_CASES("CR1", "TX17", "I1");
    killEverywhere(Cause::kPassed);
}

TEST_F(EngineCrash, KilledAnywhereOnTheWayBack) {
    GRADUS_CASES("CR1", "I1");
    killEverywhere(Cause::kFailed);
}

TEST_F(EngineCrash, KilledAgainAndAgainWhileRecovering) {
    GRADUS_CASES("CR3");
    std::size_t points = 0;
    promoteAndDie(*scene(Cause::kPassed), 0, 0, &points);
    std::size_t deaths = 0;
    const std::size_t step = isLong() ? 1 : 9;
    for (std::size_t n = 3; n <= points; n += step) {
        const auto rig = scene(Cause::kPassed);
        ASSERT_EQ(promoteAndDie(*rig, n), SIGKILL);
        std::size_t nth = 1;
        while (recoverAndDie(*rig, nth) == SIGKILL) {
            ++deaths;
            nth += isLong() ? 1 : 2;  // it converges although it never gets further than a little each time
            ASSERT_LT(nth, 2000U);
        }
        expectWhole(*rig, fmt::format("killed at {}, then while recovering", n));
        if (HasFailure()) return;
    }
    std::cout << deaths << " deaths while recovering\n";
}

TEST_F(EngineCrash, AFullOrBrokenDiskAtAnyCallEndsInOrder) {
    GRADUS_CASES("CR6");
    for (const int error : {ENOSPC, EIO}) {
        std::size_t points = 0;
        promoteAndDie(*scene(Cause::kPassed), 0, 0, &points);
        const std::size_t step = isLong() ? 1 : 3;
        for (std::size_t n = 1; n <= points; n += step) {
            const auto rig = scene(Cause::kPassed);
            EXPECT_NE(promoteAndDie(*rig, n, error), SIGKILL);
            rig->engine()->recover(rig->progress = {}, {});
            expectWhole(*rig, fmt::format("error {} at point {} of {}", error, n, points));
            if (HasFailure()) return;
        }
        std::cout << points << " points, each failing with " << errnoText(error) << "\n";
    }
}

}  // namespace
}  // namespace gradus::test
