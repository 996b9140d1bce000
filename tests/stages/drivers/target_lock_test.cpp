// Who may work on a target.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <fstream>
#include <thread>

#include "stages/drivers/target_lock.h"
#include "store/model/error.h"
#include "tests/stages/drivers/driver_rig.h"
#include "tests/support/case.h"
#include "tests/support/error_of.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class TargetLocks : public testing::Test {
  protected:
    ScratchDirectory scratch_;
    TargetIdentity target_{"release-directory", "x", scratch_ / "target/.gradus-target"};
    TargetClaim claim_{"store-1", "/home/a/.local/state/gradus", "/home/a/shop", "staging", 3, false};
    TargetLock::Options impatient_{Milliseconds(0), false};
    RealFileOperations files_;

    TargetLock take(const TargetClaim& claim) { return TargetLock::take(target_, claim, files_, impatient_); }
};

TEST_F(TargetLocks, ASecondProcessIsBusyUntilTheFirstHasEnded) {
    GRADUS_CASES("I3", "TX5");
    std::optional<TargetLock> first = take(claim_);
    EXPECT_EQ(inChild([&] {
                  try {
                      take(claim_);
                      ::_exit(8);
                  } catch (const Error& fault) {
                      ::_exit(fault.code() == ErrorCode::kBusy ? 0 : 9);
                  }
              }),
              0);
    first.reset();
    EXPECT_NO_THROW(take(claim_));
}

TEST_F(TargetLocks, OnlyOneHasItWhenSeveralMakeTheTargetAtOnce) {
    GRADUS_CASES("I3", "TX5");
    constexpr int kTakers = 4;
    constexpr int kRounds = 150;
    std::atomic<int> inside{0};
    std::atomic<int> together{0};
    std::vector<std::string> faults(kTakers);
    std::barrier round(kTakers, [&]() noexcept { fs::remove_all(scratch_ / "target"); });
    const auto taker = [&](int index) {
        RealFileOperations files;
        TargetClaim claim = claim_;
        claim.promotion = index;
        for (int i = 0; i < kRounds; ++i) {
            round.arrive_and_wait();
            try {
                const TargetLock lock = TargetLock::take(target_, claim, files, {Milliseconds(20'000), false});
                if (inside.fetch_add(1) != 0) ++together;
                std::this_thread::sleep_for(std::chrono::microseconds(200));
                inside.fetch_sub(1);
            } catch (const Error& fault) {
                faults[static_cast<std::size_t>(index)] = fault.what();
            }
            round.arrive_and_wait();
        }
    };
    std::vector<std::jthread> takers;
    for (int index = 0; index < kTakers; ++index) takers.emplace_back(taker, index);
    takers.clear();
    EXPECT_EQ(together, 0);
    for (const std::string& fault : faults) EXPECT_EQ(fault, "");
}

TEST_F(TargetLocks, TheClaimStaysAndTheLockGoesWithAKilledProcess) {
    GRADUS_CASES("I3");
    EXPECT_EQ(inChild([&] {
                  const TargetLock lock = take(claim_);
                  dieNow();
              }),
              SIGKILL);
    EXPECT_EQ(TargetLock::claimOf(target_.marker)->promotion, 3);
    EXPECT_NO_THROW(take(claim_));
}

TEST_F(TargetLocks, AnotherStoreIsRefusedWithWhatToDo) {
    GRADUS_CASES("I3");
    take(claim_);
    TargetClaim other = claim_;
    other.store = "store-2";
    try {
        take(other);
        FAIL() << "two stores on one target";
    } catch (const Error& fault) {
        EXPECT_EQ(fault.code(), ErrorCode::kNotAllowed);
        EXPECT_NE(
            std::string(fault.what()).find("store store-1, project /home/a/shop, stage staging, last promotion p3"),
            std::string::npos)
            << fault.what();
        EXPECT_NE(fault.hint().find("GRADUS_HOME=/home/a/.local/state/gradus"), std::string::npos) << fault.hint();
    }
    EXPECT_EQ(TargetLock::claimOf(target_.marker)->store, "store-1");
    const TargetLock taken = TargetLock::take(target_, other, files_, {Milliseconds(0), true});
    EXPECT_EQ(TargetLock::claimOf(target_.marker)->store, "store-2");
}

TEST_F(TargetLocks, RemembersWhetherTheDirectoryWasThere) {
    { const TargetLock first = take(claim_); }
    EXPECT_TRUE(TargetLock::claimOf(target_.marker)->madeDirectory);
    claim_.promotion = 4;
    { const TargetLock second = take(claim_); }
    EXPECT_TRUE(TargetLock::claimOf(target_.marker)->madeDirectory);
    fs::remove_all(scratch_ / "target");
    fs::create_directory(scratch_ / "target");
    const TargetLock third = take(claim_);
    EXPECT_FALSE(TargetLock::claimOf(target_.marker)->madeDirectory);
}

TEST_F(TargetLocks, HoldsThroughTheRewritingOfTheClaim) {
    take(claim_);
    claim_.promotion = 5;
    const TargetLock lock = take(claim_);
    EXPECT_EQ(TargetLock::claimOf(target_.marker)->promotion, 5);
    EXPECT_THROW(take(claim_), Error);
}

TEST_F(TargetLocks, AWayBackWritesNothingWhereTheClaimIsOurs) {
    GRADUS_CASES("I3");
    take(claim_);
    claim_.promotion = 0;
    WatchedOperations full([](std::size_t, std::string_view, std::string_view) { return ENOSPC; });
    const TargetLock lock = TargetLock::take(target_, claim_, full, {.patience = Milliseconds(0), .isWayBack = true});
    EXPECT_EQ(TargetLock::claimOf(target_.marker)->promotion, 3) << "the last that came in";
    EXPECT_THROW(take(claim_), Error) << "it is held all the same";
}

TEST_F(TargetLocks, AWayBackIsRefusedWhereTheClaimIsAnothers) {
    GRADUS_CASES("I3");
    take(claim_);
    claim_.store = "store-2";
    const TargetLock::Options back{.patience = Milliseconds(0), .isWayBack = true};
    EXPECT_EQ(errorOf([&] { TargetLock::take(target_, claim_, files_, back); }).code(), ErrorCode::kNotAllowed);
}

TEST_F(TargetLocks, AChangedMarkerIsNotBelieved) {
    take(claim_);
    std::string text = claim_.encode();
    std::ofstream(target_.marker, std::ios::trunc) << text.replace(text.find("store-1"), 7, "store-2");
    EXPECT_THROW(take(claim_), Error);
    EXPECT_THROW(TargetLock::claimOf(target_.marker), Error);
}

TEST_F(TargetLocks, AMarkerIsNeverReachedThroughALink) {
    fs::create_directories(scratch_ / "target");
    std::ofstream(scratch_ / "victim") << claim_.encode();
    fs::create_symlink(scratch_ / "victim", target_.marker);
    try {
        take(claim_);
        FAIL() << "a link was followed";
    } catch (const Error& fault) {
        EXPECT_EQ(fault.code(), ErrorCode::kNotAllowed) << fault.what();
    }
    std::ifstream in(scratch_ / "victim");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), claim_.encode());
}

TEST_F(TargetLocks, AnyTextIsOneLine) {
    claim_.project = "/srv/a\nstore evil\\x";
    EXPECT_EQ(TargetClaim::decode(claim_.encode()), claim_);
}

TEST_F(TargetLocks, KilledAtAnyCallTheNextOneTakesIt) {
    std::size_t calls = 0;
    for (std::size_t n = 1;; ++n) {
        fs::remove_all(scratch_ / "target");
        const int end = inChild([&] {
            WatchedOperations files([&](std::size_t number, std::string_view, std::string_view) {
                if (number == n) dieNow();
                return 0;
            });
            TargetLock::take(target_, claim_, files, impatient_);
        });
        const TargetLock next = take(claim_);
        EXPECT_EQ(TargetLock::claimOf(target_.marker)->store, "store-1");
        EXPECT_TRUE(TargetLock::claimOf(target_.marker)->madeDirectory) << "killed before call " << n;
        EXPECT_FALSE(fs::exists(target_.marker.native() + ".part"));
        EXPECT_FALSE(fs::exists(scratch_ / ".target.gradus-new"));
        if (end == 0) break;
        ++calls;
    }
    EXPECT_GT(calls, 5U);
    std::cout << calls << " calls, killed before each\n";
}

}  // namespace
}  // namespace gradus::test
