// The writer is killed before each of its calls, or one of them fails: the tree is wholly before or wholly after.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "stages/changes/tree_writer.h"
#include "store/model/error.h"
#include "tests/stages/changes/tree_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class TreeWriterCrash : public testing::Test {
  protected:
    void SetUp() override {
        rig_.reset(sampleBefore());
        before_ = rig_.now();
        changes_ = rig_.changesTo(sampleAfter());
    }

    /// Plans, seals and applies in a process that is killed before its Nth call. The signal, or 0 when it came through.
    int applyAndDie(std::size_t nth, int how = 0) {
        return inChild([&] {
            WatchedOperations files([&](std::size_t number, std::string_view, std::string_view) {
                if (number == nth && how == 0) dieNow();
                return number == nth ? how : 0;
            });
            rig_.apply(changes_, files);
        });
    }

    int recoverAndDie(const JournalRef& ref, std::size_t nth) {
        return inChild([&] {
            WatchedOperations files([&](std::size_t number, std::string_view, std::string_view) {
                if (number == nth) dieNow();
                return 0;
            });
            rig_.writer(files).recover(ref);
        });
    }

    int undoAndDie(const JournalRef& ref, std::size_t nth) {
        return inChild([&] {
            WatchedOperations files([&](std::size_t number, std::string_view, std::string_view) {
                if (number == nth) dieNow();
                return 0;
            });
            rig_.writer(files).undo(ref);
        });
    }

    /// The journal that the dead process left, if it came that far.
    std::optional<JournalRef> journal() {
        RealFileOperations files;
        const auto refs = JournalDirectory(rig_.journals(), files).list();
        EXPECT_LE(refs.size(), 1U);
        return refs.empty() ? std::nullopt : std::optional(refs.front());
    }

    void startOver() {
        fs::remove_all(rig_.journals());
        rig_.reset(sampleBefore());
        before_ = rig_.now();
    }

    /// Wholly before or wholly after, as the journal says, and nothing left over.
    void expectWhole(const std::optional<JournalRef>& ref, const std::string& when) {
        const bool isApplied = ref && rig_.writer().stateOf(*ref) == WriteState::kApplied;
        EXPECT_EQ(isApplied ? difference(plain(rig_.now()), sampleAfter()) : difference(rig_.now(), before_), "")
            << when;
    }

    std::size_t callsOfApply() {
        WatchedOperations files;
        EXPECT_TRUE(rig_.apply(changes_, files).report.applied);
        startOver();
        return files.count();
    }

    TreeRig rig_;
    Tree before_;
    ChangeSet changes_;
};

TEST_F(TreeWriterCrash, KilledBeforeAnyCallItIsWholeAfterRecovery) {
    GRADUS_CASES("CR1", "TX17");
    const std::size_t calls = callsOfApply();
    std::size_t applied = 0;
    for (std::size_t n = 1; n <= calls + 1; ++n) {
        const int end = applyAndDie(n);
        ASSERT_EQ(end, n <= calls ? SIGKILL : 0) << n;
        const auto ref = journal();
        if (ref) rig_.writer().recover(*ref);
        if (ref && rig_.writer().stateOf(*ref) == WriteState::kApplied) ++applied;
        expectWhole(ref, "killed before call " + std::to_string(n));
        if (HasFailure()) return;
        startOver();
    }
    EXPECT_GT(applied, 0U);
    std::cout << calls << " calls, killed before each; " << applied << " times the change was in place already\n";
}

// A record or a content that is only half there when the process dies.
TEST_F(TreeWriterCrash, KilledInTheMiddleOfAWriteItIsWholeAfterRecovery) {
    const std::size_t calls = callsOfApply();
    for (std::size_t n = 1; n <= calls; ++n) {
        ASSERT_EQ(applyAndDie(n, WatchedOperations::kTear), SIGKILL) << n;
        const auto ref = journal();
        if (ref) rig_.writer().recover(*ref);
        expectWhole(ref, "torn at call " + std::to_string(n));
        if (HasFailure()) return;
        startOver();
    }
}

// However often recovery itself is killed, and wherever, it ends in the same tree.
TEST_F(TreeWriterCrash, KilledAgainAndAgainWhileRecoveringItConverges) {
    GRADUS_CASES("CR3");
    const std::size_t calls = callsOfApply();
    std::size_t deaths = 0;
    for (std::size_t n = 1; n <= calls; ++n) {
        ASSERT_EQ(applyAndDie(n), SIGKILL);
        const auto ref = journal();
        for (std::size_t m = 1; ref && recoverAndDie(*ref, m) == SIGKILL; ++m) ++deaths;
        expectWhole(ref, "killed before call " + std::to_string(n) + ", then at every call of recovering");
        if (HasFailure()) return;
        startOver();
    }
    std::cout << deaths << " deaths while recovering from " << calls << " deaths while applying\n";
}

// Every pair: killed before call N, recovery killed before call M. The long form takes all N.
TEST_F(TreeWriterCrash, KilledOnceMoreAtAnyCallOfRecoveringItIsWhole) {
    const std::size_t calls = callsOfApply();
    const std::size_t stride = std::getenv("GRADUS_LONG") != nullptr ? 1 : 17;
    std::size_t pairs = 0;
    for (std::size_t n = 1; n <= calls; n += stride) {
        for (std::size_t m = 1;; ++m) {
            startOver();
            ASSERT_EQ(applyAndDie(n), SIGKILL);
            const auto ref = journal();
            const bool isDead = ref && recoverAndDie(*ref, m) == SIGKILL;
            if (ref) rig_.writer().recover(*ref);
            expectWhole(ref, "killed before " + std::to_string(n) + ", recovering before " + std::to_string(m));
            if (HasFailure()) return;
            if (!isDead) break;
            ++pairs;
        }
    }
    std::cout << pairs << " pairs of deaths\n";
}

// Recovery alone: what was still applied stays so, what was being undone is.
TEST_F(TreeWriterCrash, KilledAtAnyCallOfUndoingWhatWasAppliedItIsWholeAfterRecovery) {
    std::size_t deaths = 0;
    std::size_t still = 0;
    for (std::size_t m = 1;; ++m) {
        startOver();
        const JournalRef ref = rig_.apply(changes_).ref;
        const bool isDead = undoAndDie(ref, m) == SIGKILL;
        EXPECT_TRUE(rig_.writer().recover(ref).kept.empty()) << m;
        expectWhole(ref, "undo killed before call " + std::to_string(m));
        if (rig_.writer().stateOf(ref) == WriteState::kApplied) ++still;
        EXPECT_TRUE(rig_.writer().undo(ref).kept.empty()) << m;
        EXPECT_EQ(difference(rig_.now(), before_), "") << "undo killed before call " << m << ", then repeated";
        if (HasFailure() || !isDead) break;
        ++deaths;
    }
    EXPECT_GT(still, 0U);
    std::cout << deaths << " calls of undoing, killed before each; " << still << " times it had not begun\n";
}

/// A user's edit of what the change wrote: it stays, and is told by whichever run comes to its end.
class TreeWriterKept : public TreeWriterCrash {
  protected:
    static constexpr const char* kEdited = "edited.txt";

    void edit() { std::ofstream(rig_.root() / kEdited) << "mine\n"; }

    void beginAnew() {
        startOver();
        Tree before = sampleBefore();
        before[kEdited] = file("old\n");
        rig_.reset(before);
        Tree after = sampleAfter();
        after[kEdited] = file("new\n");
        changes_ = rig_.changesTo(after);
    }

    void expectTold(const UndoReport& report, const std::string& when) {
        ASSERT_EQ(report.kept.size(), 1U) << when;
        EXPECT_EQ(report.kept.front(), (Kept{kEdited, "edited by somebody since"})) << when;
        EXPECT_EQ(rig_.now().at(kEdited).bytes, "mine\n") << when;
    }
};

TEST_F(TreeWriterKept, IsToldWhereverUndoingWasCutOff) {
    GRADUS_CASES("CR3");
    std::size_t deaths = 0;
    for (std::size_t m = 1;; ++m) {
        beginAnew();
        const JournalRef ref = rig_.apply(changes_).ref;
        edit();
        const bool isDead = undoAndDie(ref, m) == SIGKILL;
        expectTold(rig_.writer().undo(ref), "undo killed before call " + std::to_string(m));
        if (HasFailure() || !isDead) break;
        ++deaths;
    }
    EXPECT_GT(deaths, 20U);
}

TEST_F(TreeWriterKept, IsToldWhereverRecoveringFromADeathInMidSwapWasCutOff) {
    std::size_t deaths = 0;
    for (std::size_t m = 1;; ++m) {
        beginAnew();
        // The last of the calls before it is confirmed: all is swapped, and nothing says so.
        std::size_t confirming = 0;
        const int end = inChild([&] {
            WatchedOperations files([&](std::size_t, std::string_view call, std::string_view) {
                if (call == "move") ++confirming;
                if (call == "write" && confirming > 0) dieNow();
                return 0;
            });
            rig_.apply(changes_, files);
        });
        ASSERT_EQ(end, SIGKILL);
        const auto ref = journal();
        ASSERT_TRUE(ref && rig_.writer().stateOf(*ref) == WriteState::kSealed);
        edit();
        const bool isDead = recoverAndDie(*ref, m) == SIGKILL;
        expectTold(rig_.writer().recover(*ref), "recovering killed before call " + std::to_string(m));
        if (HasFailure() || !isDead) break;
        ++deaths;
    }
    EXPECT_GT(deaths, 20U);
}

class TreeWriterFaults : public TreeWriterCrash {
  protected:
    /// Lets the Nth call fail (and all after it, if `forever`); true if that was noticed at all.
    bool applyWithFault(std::size_t nth, int error, bool forever) {
        WatchedOperations files([&](std::size_t number, std::string_view, std::string_view) {
            return number == nth || (forever && number > nth) ? error : 0;
        });
        try {
            rig_.apply(changes_, files);
            return false;
        } catch (const Error& fault) {
            EXPECT_EQ(fault.code(), ErrorCode::kInfrastructure);
            return true;
        }
    }

    std::size_t openDescriptors() {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
    }
};

// One call fails, the next ones work.
TEST_F(TreeWriterFaults, OneFailingCallLeavesTheTreeAsItWasAndNothingElse) {
    GRADUS_CASES("CR6", "CR8");
    const std::size_t calls = callsOfApply();
    const std::size_t descriptors = openDescriptors();
    std::size_t harmless = 0;
    for (const int error : {ENOSPC, EIO}) {
        for (std::size_t n = 1; n <= calls; ++n) {
            const bool isNoticed = applyWithFault(n, error, false);
            // After the change is confirmed, or where the kernel's no makes no difference.
            if (!isNoticed) ++harmless;
            EXPECT_EQ(isNoticed ? difference(rig_.now(), before_) : difference(plain(rig_.now()), sampleAfter()), "")
                << "call " << n << " failed with " << errnoText(error);
            EXPECT_EQ(openDescriptors(), descriptors);
            if (HasFailure()) return;
            startOver();
        }
    }
    std::cout << calls << " calls, each failing with ENOSPC and with EIO; harmless " << harmless << " times\n";
}

// The disk stays full or broken: undoing fails as well, and goes on once it is well again.
TEST_F(TreeWriterFaults, WhenNothingWorksAnyMoreRecoveryPutsItRightLater) {
    const std::size_t calls = callsOfApply();
    for (const int error : {ENOSPC, EIO}) {
        for (std::size_t n = 1; n <= calls; ++n) {
            applyWithFault(n, error, true);
            const auto ref = journal();
            if (ref) rig_.writer().recover(*ref);
            expectWhole(ref, "everything failed from call " + std::to_string(n) + " on");
            if (HasFailure()) return;
            startOver();
        }
    }
}

// Too few descriptors, at whatever point they run out.
TEST_F(TreeWriterFaults, RunningOutOfDescriptorsIsAFaultLikeAnyOther) {
    GRADUS_CASES("CR8");
    std::size_t failures = 0;
    for (rlim_t limit = openDescriptors(); limit < openDescriptors() + 24; ++limit) {
        const int end = inChild([&] {
            const rlimit few{limit, limit};
            ::setrlimit(RLIMIT_NOFILE, &few);
            RealFileOperations files;
            rig_.apply(changes_, files);
        });
        if (end != 0) ++failures;
        const auto ref = journal();
        const UndoReport report = ref ? rig_.writer().recover(*ref) : UndoReport();
        EXPECT_TRUE(report.kept.empty() && report.blocked.empty()) << limit;
        expectWhole(ref, "with " + std::to_string(limit) + " descriptors");
        if (HasFailure()) return;
        startOver();
    }
    EXPECT_GT(failures, 5U);
    std::cout << failures << " limits were too low\n";
}

TEST_F(TreeWriterFaults, ShortWritesAreWrittenToTheEnd) {
    WatchedOperations files([](std::size_t, std::string_view call, std::string_view) {
        return call == "write" ? WatchedOperations::kShort : 0;
    });
    EXPECT_TRUE(rig_.apply(changes_, files).report.applied);
    EXPECT_EQ(difference(plain(rig_.now()), sampleAfter()), "");
}

}  // namespace
}  // namespace gradus::test
