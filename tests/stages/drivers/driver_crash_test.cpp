// Every driver is killed before each of its calls, or one of them fails: the target is wholly before or wholly after.
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <fstream>
#include <iostream>

#include "store/model/error.h"
#include "tests/stages/drivers/driver_scene.h"
#include "tests/support/case.h"
#include "tests/support/effort.h"

namespace gradus::test {
namespace {

using Observed = StageDriver::Observed;
using Work = std::function<void(StageDriver&)>;

/// In a process of its own that is killed before its Nth call; whether it came to that.
bool dies(StageUnderTest& stage, std::size_t nth, const Work& work) {
    return inChild([&] {
               WatchedOperations files([&](std::size_t number, std::string_view, std::string_view) {
                   if (number == nth) dieNow();
                   return 0;
               });
               work(*stage.rig().driver(files));
           }) == SIGKILL;
}

/// Here, with the Nth call failing; whether it came to that call.
bool fails(StageUnderTest& stage, std::size_t nth, int error, const Work& work) {
    WatchedOperations files(
        [&](std::size_t number, std::string_view, std::string_view) { return number == nth ? error : 0; });
    try {
        work(*stage.rig().driver(files));
    } catch (const Error&) {
    }
    return files.count() >= nth;
}

class DriverCrash : public testing::TestWithParam<Scene> {
  protected:
    /// After `apply` was stopped somewhere: goes on as recovery does. True if the change is in place.
    static bool recover(StageUnderTest& stage, const Checkpoint& checkpoint, const std::string& before) {
        if (stage.driver()->observe(checkpoint) == Observed::kAfter) {
            stage.driver()->tidy({checkpoint});
            EXPECT_EQ(difference(plain(stage.shown()), stage.after()), "");
            return true;
        }
        const RollbackOutcome outcome = stage.driver()->rollback(checkpoint);
        EXPECT_TRUE(outcome.complete && outcome.kept.empty());
        EXPECT_EQ(stage.driver()->observe(checkpoint), Observed::kBefore);
        expectBefore(stage, before);
        return false;
    }

    /// Going back to nothing takes the marker with it, and whoever comes next makes it anew.
    static void expectBefore(StageUnderTest& stage, const std::string& before) {
        if (GetParam().isEmpty) stage.lockAgain();
        EXPECT_EQ(stage.world(), before);
    }

    static void say(const std::string& text) { std::cout << GetParam().name << ": " << text << "\n"; }
};

TEST_P(DriverCrash, KilledAtAnyCallOfPreparingNothingIsSeenAndNothingIsLeft) {
    GRADUS_CASES("CR1");
    std::size_t calls = 0;
    for (std::size_t n = 1;; n += nextCall()) {
        StageUnderTest stage(GetParam());
        const std::string before = stage.world();
        const StageChange change = stage.change();
        if (!dies(stage, n, [&](StageDriver& driver) { driver.checkpoint(change); })) break;
        ++calls;
        EXPECT_EQ(difference(plain(stage.shown()), stage.before()), "") << n;
        stage.driver()->tidy({});
        EXPECT_EQ(stage.world(), before) << n;
        if (HasFailure()) return;
    }
    say(fmt::format("killed before {} calls of checkpoint", calls));
    EXPECT_GE(calls * nextCall(), GetParam().fewestCalls());
}

TEST_P(DriverCrash, KilledAtAnyCallOfApplyingItIsWholeAfterRecovery) {
    GRADUS_CASES("CR1", "TX17");
    std::size_t calls = 0;
    std::size_t applied = 0;
    for (std::size_t n = 1;; n += nextCall()) {
        StageUnderTest stage(GetParam());
        const std::string before = stage.world();
        const Checkpoint checkpoint = stage.checkpoint();
        if (!dies(stage, n, [&](StageDriver& driver) { driver.apply(checkpoint); })) break;
        ++calls;
        if (recover(stage, checkpoint, before)) ++applied;
        if (HasFailure()) FAIL() << "killed before call " << n;
    }
    say(fmt::format("killed before {} calls of apply; {} times it was in place already", calls, applied));
    EXPECT_GE(calls * nextCall(), GetParam().fewestCalls());
}

TEST_P(DriverCrash, KilledAtAnyCallOfApplyingAndAppliedAgainItIsWhole) {
    for (std::size_t n = 1;; n += nextCall()) {
        StageUnderTest stage(GetParam());
        const std::string before = stage.world();
        const Checkpoint checkpoint = stage.checkpoint();
        if (!dies(stage, n, [&](StageDriver& driver) { driver.apply(checkpoint); })) break;
        const bool isApplied = stage.driver()->apply(checkpoint).applied;
        EXPECT_EQ(difference(plain(stage.shown()), isApplied ? stage.after() : stage.before()), "") << n;
        EXPECT_TRUE(stage.driver()->rollback(checkpoint).complete) << n;
        expectBefore(stage, before);
        if (HasFailure()) FAIL() << "killed before call " << n;
    }
}

TEST_P(DriverCrash, KilledAtAnyCallOfRollingBackItIsBackAfterTheNext) {
    GRADUS_CASES("CR3");
    std::size_t calls = 0;
    for (std::size_t n = 1;; n += nextCall()) {
        StageUnderTest stage(GetParam());
        const std::string before = stage.world();
        const Checkpoint checkpoint = stage.checkpoint();
        stage.driver()->apply(checkpoint);
        if (!dies(stage, n, [&](StageDriver& driver) { driver.rollback(checkpoint); })) break;
        ++calls;
        const RollbackOutcome outcome = stage.driver()->rollback(checkpoint);
        EXPECT_TRUE(outcome.complete && outcome.kept.empty()) << n;
        expectBefore(stage, before);
        if (HasFailure()) FAIL() << "killed before call " << n;
    }
    say(fmt::format("killed before {} calls of rollback", calls));
    EXPECT_GE(calls * nextCall(), GetParam().fewestCalls());
}

// However often recovery itself is killed, and wherever.
// CR3
TEST_P(DriverCrash, KilledAgainAndAgainWhileRecoveringItConverges) {
    std::size_t deaths = 0;
    for (std::size_t n = 1;; n += 3) {
        StageUnderTest stage(GetParam());
        const std::string before = stage.world();
        const Checkpoint checkpoint = stage.checkpoint();
        if (!dies(stage, n, [&](StageDriver& driver) { driver.apply(checkpoint); })) break;
        for (std::size_t m = 1; dies(stage, m, [&](StageDriver& driver) { driver.rollback(checkpoint); }); ++m)
            ++deaths;
        expectBefore(stage, before);
        if (HasFailure()) FAIL() << "killed before call " << n;
    }
    say(std::to_string(deaths) + " deaths while recovering");
}

// The disk is full for one call, broken for the next; the long form takes both for each.
TEST_P(DriverCrash, OneFailingCallLeavesItWhole) {
    GRADUS_CASES("CR6");
    std::size_t calls = 0;
    for (const int first : {ENOSPC, EIO}) {
        if (first == EIO && !isLong()) break;
        const auto errorOf = [&](std::size_t n) { return (n % 2 == 1) == (first == ENOSPC) ? ENOSPC : EIO; };
        for (std::size_t n = 1;; ++n) {
            StageUnderTest stage(GetParam());
            const std::string before = stage.world();
            const StageChange change = stage.change();
            if (!fails(stage, n, errorOf(n), [&](StageDriver& driver) { driver.checkpoint(change); })) break;
            ++calls;
            EXPECT_EQ(difference(plain(stage.shown()), stage.before()), "") << n;
            stage.driver()->tidy({});
            EXPECT_EQ(stage.world(), before) << "checkpoint, call " << n << ": " << errnoText(errorOf(n));
            if (HasFailure()) return;
        }
        for (std::size_t n = 1;; ++n) {
            StageUnderTest stage(GetParam());
            const std::string before = stage.world();
            const Checkpoint checkpoint = stage.checkpoint();
            if (!fails(stage, n, errorOf(n), [&](StageDriver& driver) { driver.apply(checkpoint); })) break;
            ++calls;
            recover(stage, checkpoint, before);
            if (HasFailure()) FAIL() << "apply, call " << n << ": " << errnoText(errorOf(n));
        }
        for (std::size_t n = 1;; ++n) {
            StageUnderTest stage(GetParam());
            const std::string before = stage.world();
            const Checkpoint checkpoint = stage.checkpoint();
            stage.driver()->apply(checkpoint);
            if (!fails(stage, n, errorOf(n), [&](StageDriver& driver) { driver.rollback(checkpoint); })) break;
            ++calls;
            EXPECT_TRUE(stage.driver()->rollback(checkpoint).complete);
            expectBefore(stage, before);
            if (HasFailure()) FAIL() << "rollback, call " << n << ": " << errnoText(errorOf(n));
        }
    }
    say(std::to_string(calls) + " calls failed, half of them with ENOSPC, half with EIO");
}

INSTANTIATE_TEST_SUITE_P(All, DriverCrash, testing::ValuesIn(scenesToBreak()),
                         [](const auto& scene) { return scene.param.name; });

// What a person edited since is told by whoever comes to the end, wherever those before were killed.
TEST(KeptCrash, KilledAtAnyCallOfRollingBackTheNextTellsWhatWasKept) {
    GRADUS_CASES("CR3");
    const Tree before = {{"a", file("one\n")}, {"b", file("two\n")}, {"gone", file("x\n")}};
    const Tree after = {{"a", file("uno\n")}, {"b", file("due\n")}, {"new", file("y\n")}};
    std::size_t calls = 0;
    for (std::size_t n = 1;; ++n) {
        DriverRig rig("worktree");
        build(rig.project(), before);
        const Checkpoint checkpoint = rig.driver()->checkpoint(changeTo(rig, before, after));
        ASSERT_TRUE(rig.driver()->apply(checkpoint).applied);
        std::ofstream(rig.project() / "a") << "mine\n";
        const int end = inChild([&] {
            WatchedOperations files([&](std::size_t number, std::string_view, std::string_view) {
                if (number == n) dieNow();
                return 0;
            });
            rig.driver(files)->rollback(checkpoint);
        });
        const RollbackOutcome outcome = rig.driver()->rollback(checkpoint);
        EXPECT_TRUE(outcome.complete);
        EXPECT_EQ(outcome.kept, (std::vector<Kept>{{"a", "edited by somebody since"}})) << "killed before call " << n;
        if (end == 0 || HasFailure()) break;
        ASSERT_EQ(end, SIGKILL);
        ++calls;
    }
    EXPECT_GT(calls, 10U);
}

// What somebody else put there is taken over: `current` leads to the same files at every instant, and whoever comes
// next finishes it.
TEST(AdoptCrash, KilledAtAnyCallItIsShownThroughoutAndTakenByTheNext) {
    GRADUS_CASES("CR1", "CR3");
    std::size_t calls = 0;
    for (std::size_t n = 1;; ++n) {
        DriverRig rig("release-directory", false);
        std::filesystem::create_directories(rig.target() / "current");
        build(rig.target() / "current", sampleBefore());
        const TargetLock lock = rig.lock();
        const int end = inChild([&] {
            WatchedOperations files([&](std::size_t number, std::string_view, std::string_view) {
                if (number == n) dieNow();
                return 0;
            });
            rig.driver(files)->adopt(StageDriver::Adopting::kTake);
        });
        const auto shown = [&] { return plain(readTree(std::filesystem::canonical(rig.target() / "current"))); };
        EXPECT_EQ(difference(shown(), sampleBefore()), "") << "killed before call " << n;
        const HeldTree held = rig.driver()->adopt(StageDriver::Adopting::kTake);
        EXPECT_TRUE(std::filesystem::is_symlink(rig.target() / "current"));
        EXPECT_EQ(rig.driver()->held()->digest, held.digest);
        EXPECT_EQ(difference(shown(), sampleBefore()), "") << "killed before call " << n;
        if (end == 0 || HasFailure()) break;
        ASSERT_EQ(end, SIGKILL);
        ++calls;
    }
    EXPECT_GT(calls, 3U);
    std::cout << calls << " calls of adopting, killed before each\n";
}

}  // namespace
}  // namespace gradus::test
