#include "pipeline/engine/watcher.h"

#include <gtest/gtest.h>

#include "store/boot_id.h"
#include "tests/support/scratch.h"

namespace gradus::test {
namespace {

using namespace std::chrono_literals;

class WatcherTest : public testing::Test {
  protected:
    FakeClock clock;
    std::vector<WatchedCheck> checks{{"fast", 5s, 10s}, {"slow", 60s, 60s}};
    Moment start = clock.moment();
    Watcher watcher{checks, start};
    using Names = std::vector<std::string>;

    Watcher::Time lookAfter(Milliseconds pause, Milliseconds takes = Milliseconds(0)) {
        clock.advance(pause);
        const Moment began = clock.moment();
        const Names names = watcher.due(began);
        clock.advance(takes);
        return watcher.ran(names, began, clock.moment());
    }
};

TEST_F(WatcherTest, EachIsDueByItsOwnInterval) {
    EXPECT_EQ(watcher.untilNext(start), 5s);
    clock.advance(5s);
    EXPECT_EQ(watcher.due(clock.moment()), Names{"fast"});
    watcher.ran({"fast"}, clock.moment(), clock.moment());
    EXPECT_EQ(watcher.untilNext(clock.moment()), 5s);
    clock.advance(55s);
    EXPECT_EQ(watcher.due(clock.moment()), (Names{"fast", "slow"}));
}

TEST_F(WatcherTest, TimeOnScheduleCountsWithWhatTheChecksTook) {
    EXPECT_EQ(lookAfter(5s, 3s).counted, 8s);
    EXPECT_EQ(lookAfter(6s).counted, 6s) << "a busy machine is a little late";
}

TEST_F(WatcherTest, TimeInWhichNobodyLookedDoesNotCount) {
    const Watcher::Time asleep = lookAfter(10min);
    EXPECT_EQ(asleep.counted, 0s);
    EXPECT_EQ(asleep.gap, 10min);
    EXPECT_EQ(lookAfter(5s).counted, 5s) << "and it goes on";
}

TEST_F(WatcherTest, ARunThatTookLongerThanItMayDoesNotCount) {
    const Watcher::Time stopped = lookAfter(5s, 10min);
    EXPECT_EQ(stopped.counted, 0s);
    EXPECT_EQ(stopped.gap, 10min + 5s);
}

TEST_F(WatcherTest, AClockThatIsSetMakesNoTimeAndNoneCounts) {
    clock.set(clock.now() + 24h);
    const Watcher::Time forward = lookAfter(5s);
    EXPECT_EQ(forward.counted, 0s);
    EXPECT_EQ(forward.gap, 5s);
    clock.set(clock.now() - 48h);
    EXPECT_EQ(lookAfter(5s).counted, 0s);
    EXPECT_EQ(lookAfter(5s).counted, 5s);
}

TEST_F(WatcherTest, OneThatIsOverdueIsNotOnScheduleBecauseAnotherIs) {
    for (int i = 0; i < 24; ++i) {
        clock.advance(5s);
        watcher.ran({"fast"}, clock.moment(), clock.moment());
    }
    clock.advance(5s);
    EXPECT_EQ(watcher.ran({"fast"}, clock.moment(), clock.moment()).counted, 0s);
}

TEST(Moment, OfOneBootIsWhatTheMachineCounted) {
    FakeClock clock;
    const Moment before = clock.moment();
    clock.advance(1h);
    clock.set(clock.now() + 24h * 365);
    EXPECT_EQ(elapsed(before, clock.moment()), 1h);
    clock.set(clock.now() - 24h * 730);
    EXPECT_EQ(elapsed(before, clock.moment()), 1h);
}

TEST(Moment, OverARebootTheClockIsBelievedAsFarAsItCanBe) {
    FakeClock clock;
    const Moment before = clock.moment();
    clock.reboot(2h);
    EXPECT_EQ(elapsed(before, clock.moment()), 2h);
    clock.set(before.at - 24h);
    clock.advance(5min);
    EXPECT_EQ(elapsed(before, clock.moment()), 5min) << "it was up that long at least";
}

TEST(Moment, OfThisMachineGoesOn) {
    const SystemClock clock(bootId());
    const Moment first = clock.moment();
    EXPECT_FALSE(first.boot.empty());
    EXPECT_GT(first.uptime, Milliseconds(0));
    EXPECT_LT(elapsed(first, clock.moment()), 10s);
}

}  // namespace
}  // namespace gradus::test
