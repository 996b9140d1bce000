// What must be on disk before what: seen in the order of the calls, and by cutting the power.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include "stages/changes/tree_writer.h"
#include "store/model/error.h"
#include "tests/stages/changes/tree_rig.h"
#include "tests/store/powercut_disk.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

struct Call {
    std::string what;
    std::string name;
};

class TreeWriterOrder : public testing::Test {
  protected:
    void SetUp() override {
        rig_.reset(sampleBefore());
        WatchedOperations files([&](std::size_t, std::string_view call, std::string_view name) {
            calls_.push_back({std::string(call), std::string(name)});
            return 0;
        });
        ASSERT_TRUE(rig_.apply(rig_.changesTo(sampleAfter()), files).report.applied);
    }
    /// The number of the first call that is like this, or past the end.
    std::size_t first(const std::function<bool(const Call&)>& like, std::size_t from = 0) const {
        const auto found = std::find_if(calls_.begin() + static_cast<std::ptrdiff_t>(from), calls_.end(), like);
        return static_cast<std::size_t>(found - calls_.begin());
    }
    static bool isJournal(const Call& call) { return call.name.ends_with(".journal"); }

    TreeRig rig_;
    std::vector<Call> calls_;
};

TEST_F(TreeWriterOrder, SealsTheJournalBeforeAnythingElse) {
    const std::size_t synced = first([](const Call& call) { return call.what == "sync" && isJournal(call); });
    const std::size_t named =
        first([](const Call& call) { return call.what == "sync" && call.name == "journals"; }, synced);
    ASSERT_LT(named, calls_.size());
    for (std::size_t i = 0; i < named; ++i)
        EXPECT_TRUE(isJournal(calls_[i]) || calls_[i].what == "write" || calls_[i].what == "sync") << calls_[i].what;
}

TEST_F(TreeWriterOrder, SyncsEveryNewContentBeforeItGetsAName) {
    std::set<std::string> unsynced;
    std::size_t contents = 0;
    for (const Call& call : calls_) {
        if (call.what == "create" && call.name.ends_with(".part")) unsynced.insert(call.name);
        if (call.what == "sync") contents += unsynced.erase(call.name);
        EXPECT_FALSE(call.what == "move" && unsynced.contains(call.name.substr(0, call.name.find('>'))));
    }
    EXPECT_EQ(contents, 11U);
}

TEST_F(TreeWriterOrder, SyncsEveryDirectoryBetweenTheLastSwapAndTheConfirmation) {
    std::size_t lastSwap = 0;
    std::size_t confirmed = 0;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
        if (calls_[i].what == "exchange") lastSwap = i;
        if (calls_[i].what == "sync" && isJournal(calls_[i])) confirmed = i;
    }
    std::set<std::string> synced;
    for (std::size_t i = lastSwap; i < confirmed; ++i)
        if (calls_[i].what == "sync") synced.insert(calls_[i].name);
    for (const std::string name : {"root", "locked", "new-dir", "with space", "file-to-dir", "link-to-dir", "dir-mode"})
        EXPECT_TRUE(synced.contains(name)) << name;
    EXPECT_LT(lastSwap, confirmed);
    EXPECT_GT(first([](const Call& c) { return c.what == "unlink"; }), confirmed);
}

/// A process that applies and undoes the same change for ever, and says when each has come to its end.
class Busy {
  public:
    explicit Busy(const fs::path& base) {
        int ends[2];
        if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
        child_ = ::fork();
        if (child_ == 0) work(base, ends[1]);
        ::close(ends[1]);
        said_ = FileDescriptor(ends[0]);
    }
    ~Busy() { kill(); }
    /// Waits for that many words, "A" for applied, "U" for undone; how many of them were the first.
    int await(int count) {
        int applied = 0;
        for (char word = '\0'; count > 0; --count) {
            if (::read(said_.get(), &word, 1) != 1) throw std::runtime_error("the writer died");
            if (word == 'A') ++applied;
        }
        return applied;
    }
    void kill() {
        if (child_ <= 0) return;
        ::kill(child_, SIGKILL);
        ::waitpid(std::exchange(child_, -1), nullptr, 0);
    }

  private:
    [[noreturn]] static void work(const fs::path& base, int say) {
        try {
            const SystemClock clock;
            SystemRandom random;
            RealFileOperations files;
            Objects objects(base / "objects", clock);
            for (int round = 0;; ++round) {
                TreeWriter writer(base / "root", base / "journals", objects, files, random);
                // Contents of their own each time: an object from the round before would be on the disk already.
                Tree after = sampleAfter();
                after["changed"].bytes = fmt::format("round {} of {}\n", round, ::getpid());
                const Tree before = plain(readTree(base / "root"));
                const JournalRef ref = writer.seal(writer.plan(changesBetween(before, after, objects)));
                writer.apply(ref);
                if (::write(say, "A", 1) != 1) ::_exit(2);
                writer.undo(ref);
                // A new `before`, so that each undo object is a new one.
                std::ofstream(base / "root" / "changed") << fmt::format("before round {}\n", round + 1);
                ::sync();
                if (::write(say, "U", 1) != 1) ::_exit(2);
            }
        } catch (const std::exception& error) {
            std::cerr << "the writer: " << error.what() << std::endl;
        }
        ::_exit(1);
    }
    pid_t child_ = -1;
    FileDescriptor said_;
};

/// The tree without the one content that differs from round to round.
Tree comparable(Tree tree) {
    tree = plain(std::move(tree));
    tree["changed"].bytes = tree["changed"].bytes.starts_with("round") ? "new text\n" : "old text\n";
    return tree;
}

/// What is wrong with the disk after the cut, or nothing; so many changes were said to be applied before it.
std::string judgeAfterCut(const fs::path& base, int acknowledged) {
    const SystemClock clock;
    SystemRandom random;
    RealFileOperations files;
    try {
        Objects objects(base / "objects", clock);
        TreeWriter writer(base / "root", base / "journals", objects, files, random);
        bool isApplied = false;
        for (const JournalRef& ref : JournalDirectory(base / "journals", files).list()) {
            if (writer.stateOf(ref) >= WriteState::kApplied) --acknowledged;
            const UndoReport report = writer.recover(ref);
            if (!report.kept.empty()) return "kept " + report.kept.front().path + ": " + report.kept.front().reason;
            isApplied = isApplied || writer.stateOf(ref) == WriteState::kApplied;
        }
        if (acknowledged > 0) return "an apply that was confirmed is lost";
        return difference(comparable(readTree(base / "root")), isApplied ? sampleAfter() : sampleBefore());
    } catch (const std::exception& error) {
        return error.what();
    }
}

class TreeWriterPowerCut : public testing::Test {
  protected:
    void SetUp() override {
        if (const auto reason = PowerCutDisk::whyNot()) GTEST_SKIP() << *reason;
    }
};

TEST_F(TreeWriterPowerCut, LeavesTheTreeWhollyBeforeOrWhollyAfter) {
    GRADUS_CASES("CR4");
    const int cuts = std::getenv("GRADUS_LONG") != nullptr ? 200 : 40;
    std::mt19937 chance(20260302);
    PowerCutDisk disk;
    fs::create_directory(disk.root() / "root");
    build(disk.root() / "root", sampleBefore());
    ::sync();
    for (int cut = 0; cut < cuts; ++cut) {
        Busy busy(disk.root());
        const int applied = busy.await(1 + static_cast<int>(chance() % 4));
        std::this_thread::sleep_for(std::chrono::microseconds(chance() % 20'000));
        disk.cut();
        busy.kill();
        const std::string now = judgeAfterCut(disk.root(), applied);
        {
            const auto after = disk.powerUp();
            ASSERT_EQ(judgeAfterCut(after->root(), applied), "") << "after cut " << cut;
        }
        ASSERT_EQ(now, "") << "after the kill that followed cut " << cut;
        // The next round starts from the beginning: what the killed writer left applied is no `before`.
        for (const char* part : {"root", "journals"}) fs::remove_all(disk.root() / part);
        fs::create_directory(disk.root() / "root");
        build(disk.root() / "root", sampleBefore());
        ::sync();
    }
    std::cout << cuts << " cuts\n";
}

}  // namespace
}  // namespace gradus::test
