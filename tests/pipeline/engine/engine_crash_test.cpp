// The engine is killed at every call that changes a target, after every commit and after every command, while it runs
// and while it recovers, with each driver as the last stage: one end for every promotion, every target wholly before or
// after, and a log that verifies and that the tables can be rebuilt from.
#include <gtest/gtest.h>
#include <signal.h>

#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "store/model/error.h"
#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using S = PromotionState;

std::vector<Scene> scenes() {
    return {{.name = "Sandbox", .driver = "sandbox", .withGit = false, .isSmall = true},
            {.name = "Worktree", .driver = "worktree", .withGit = false},
            {.name = "WorktreeWithCommit", .driver = "worktree", .withCommit = true, .isSmall = true},
            {.name = "ReleaseDirectory", .driver = "release-directory", .withGit = false},
            {.name = "ReleaseDirectoryWithActivate",
             .driver = "release-directory",
             .withGit = false,
             .withActivate = true,
             .withShared = true,
             .isSmall = true},
            {.name = "Branch", .driver = "branch", .withGit = false, .isSmall = true},
            {.name = "BranchWithPush", .driver = "branch", .withGit = false, .isSmall = true, .withPush = true},
            {.name = "Command", .driver = "command", .withGit = false, .isSmall = true},
            {.name = "CommandWithStatus", .driver = "command", .withGit = false, .isSmall = true, .withStatus = true}};
}

/// Every point, or in the short form so many of them, evenly spread and not the same in every test.
std::vector<std::size_t> chosen(std::size_t points, std::size_t most, std::size_t offset) {
    std::vector<std::size_t> all;
    const std::size_t step = isLong() ? 1 : (points + most - 1) / most;
    for (std::size_t n = 1 + offset % step; n <= points; n += step) all.push_back(n);
    return all;
}

/// Counts what changes anything once the last stage is entered, and dies, or fails, at the Nth.
class Countdown {
  public:
    Countdown(EngineRig& rig, std::size_t nth, bool isCounted, int error = 0)
        : rig_(rig), nth_(nth), isCounted_(isCounted), error_(error) {
        rig_.progress.moved = [this](const Promotion& promotion, const std::string&) {
            isCounted_ = isCounted_ || promotion.stage == rig_.lastStage();
            point();
        };
        rig_.ran = [this] { point(); };
    }
    ~Countdown() {
        rig_.progress = {};
        rig_.ran = nullptr;
    }
    Countdown(const Countdown&) = delete;
    Countdown& operator=(const Countdown&) = delete;

    FileOperations& files() { return files_; }
    std::size_t count() const { return count_; }

  private:
    int point() {
        if (!isCounted_ || ++count_ != nth_) return 0;
        if (error_ == 0) dieNow();
        return error_;
    }

    EngineRig& rig_;
    std::size_t nth_;
    bool isCounted_;
    int error_;
    std::size_t count_ = 0;
    WatchedOperations files_{[this](std::size_t, std::string_view, std::string_view) { return point(); }};
};

/// A project whose last stage holds the first tree, and a change to the second one.
struct World {
    explicit World(Cause health) : rig(testing::TestWithParam<Scene>::GetParam()) {
        rig.place().prepare();
        EXPECT_TRUE(rig.promote(rig.submit(before()), rig.lastStage()).succeeded());
        change = rig.submit(after());
        const auto answer = [this, health](const std::string& stage) {
            return stage == rig.lastStage() ? health : Cause::kPassed;
        };
        // Nothing runs in a sandbox stage that one could look at afterwards.
        (scene().isReal() ? rig.answers.after : rig.answers.before) = answer;
        seenBefore = seen();
        commitsBefore = commits();
    }
    const Scene& scene() const { return rig.place().scene(); }
    Tree before() const { return withFirst(rig.place().base()); }
    Tree after() const { return withFirst(rig.place().goal()); }

    /// All that a person sees of the target.
    std::string seen() const {
        if (scene().driver == "branch") return rig.place().refs();
        std::ostringstream text;
        Tree tree = rig.place().shown();
        if (scene().driver == "release-directory") tree = readTree(rig.production());
        // What says who was here last is new each time, and so is the link once it was switched.
        for (const char* name : {".gradus-target", ".gradus-target.part"}) tree.erase(name);
        if (tree.contains("current")) tree["current"].modified = 0;
        for (const auto& [path, node] : tree) text << path << ": " << node << "\n";
        return text.str() + (scene().withCommit ? rig.place().checkedOut() : "");
    }
    /// How many the branch has; zero where there is none.
    int commits() const {
        if (!scene().withCommit && scene().driver != "branch") return 0;
        const auto where = scene().withCommit ? rig.project() : rig.production();
        return std::stoi("0" + outputOf("git -C '" + where.native() + "' rev-list --count main 2>/dev/null"));
    }
    /// The last word about the change in the last stage.
    Promotion last() {
        Promotion last;
        for (const Promotion& promotion : rig.promotions())
            if (promotion.change == change && promotion.stage == rig.lastStage()) last = promotion;
        return last;
    }
    bool isThrough() { return last().state == S::kPromoted && !last().undoes; }
    bool isStuck() { return last().state == S::kStuck; }

    std::size_t promote(std::size_t nth, int error = 0) {
        Countdown countdown(rig, nth, !scene().isReal(), error);
        rig.engine(countdown.files())->promote(change, rig.lastStage(), rig.progress, {});
        return countdown.count();
    }
    std::size_t recover(std::size_t nth, int error = 0) {
        Countdown countdown(rig, nth, true, error);
        rig.engine(countdown.files())->recover(rig.progress, {});
        return countdown.count();
    }
    int promoteInChild(std::size_t nth, int error = 0) {
        rig.close();
        return inChild([&] { promote(nth, error); });
    }
    int recoverInChild(std::size_t nth) {
        rig.close();
        return inChild([&] { recover(nth); });
    }

    EngineRig rig;
    std::int64_t change = 0;
    std::string seenBefore;
    int commitsBefore = 0;

  private:
    static Tree withFirst(Tree tree) {
        tree["first"] = file("first");
        return tree;
    }
};

class EngineCrash : public testing::TestWithParam<Scene> {
  protected:
    /// The target is as the last word about it says, and nothing in between.
    static void expectWhole(World& world, const std::string& when) {
        SCOPED_TRACE(when);
        world.rig.expectWhole();
        expectOneEffect(world);
        const bool isThrough = world.isThrough();
        if (world.scene().isReal()) {
            const Tree expected = isThrough ? world.after() : world.before();
            EXPECT_EQ(difference(plain(world.rig.place().shown()), world.rig.place().held(expected)), "");
        }
        if (isThrough)
            expectLanded(world);
        else
            EXPECT_EQ(world.seen(), world.seenBefore) << nameOf(kPromotionStates, world.last().state);
        if (world.scene().withActivate) {
            EXPECT_EQ(world.rig.activated(),
                      std::filesystem::read_symlink(world.rig.production() / "current").filename());
        }
        EXPECT_FALSE(std::filesystem::exists(world.rig.project() / ".gradus-staging"));
    }
    static void expectLanded(const World& world) {
        if (world.commitsBefore == 0) return;
        EXPECT_EQ(world.commits(), world.commitsBefore + 1);
        if (world.scene().withCommit) {
            EXPECT_EQ(outputOf("git -C '" + world.rig.project().native() + "' status --porcelain 2>&1"), "");
        }
        if (world.scene().withPush) {
            const std::string head = "' rev-parse main 2>&1";
            EXPECT_EQ(outputOf("git -C '" + (world.rig.outside() / "upstream").native() + head),
                      outputOf("git -C '" + world.rig.production().native() + head));
        }
    }
    /// What was begun and not seen to end is taken back, never begun again.
    static void expectOneEffect(const World& world) {
        std::multiset<std::string> run;
        for (const std::string& line : world.rig.commandsRun()) run.insert(line);
        for (const std::string& line : run)
            if (line.starts_with("apply ")) {
                EXPECT_EQ(run.count(line), 1U) << line;
            }
    }
    /// Whatever it was through, the way up is open to the next attempt.
    static void expectOpen(World& world) {
        world.rig.answers = {};
        const Climb climb = world.rig.promote(world.change, world.rig.lastStage());
        EXPECT_TRUE(climb.succeeded()) << climb.stages.back().reason;
        expectWhole(world, "promoted again");
    }

    static void say(const std::string& text) { std::cout << GetParam().name << ": " << text << "\n"; }

    static std::size_t pointsOf(Cause health) {
        static std::map<std::pair<std::string, Cause>, std::size_t> known;
        std::size_t& points = known[{GetParam().name, health}];
        if (points == 0) points = countPoints(health);
        return points;
    }
    static std::size_t countPoints(Cause health) {
        World whole(health);
        const std::size_t points = whole.promote(0);
        EXPECT_EQ(whole.isThrough(), health == Cause::kPassed);
        expectWhole(whole, "left alone");
        EXPECT_GE(points, GetParam().isReal() ? 10U : 2U);
        return points;
    }

    void killEverywhere(Cause health, std::size_t offset) {
        const std::size_t points = pointsOf(health);
        std::size_t through = 0;
        const auto all = chosen(points, 7, offset);
        for (const std::size_t n : all) {
            World world(health);
            ASSERT_EQ(world.promoteInChild(n), SIGKILL) << n;
            world.recover(0);
            expectWhole(world, fmt::format("killed at point {} of {}", n, points));
            if (world.isThrough()) ++through;
            if (health == Cause::kPassed && (isLong() || n % 3 == 0)) expectOpen(world);
            if (HasFailure()) FAIL() << "killed at point " << n << " of " << points;
        }
        say(fmt::format("{} points, killed at {} of them; {} times it was through already", points, all.size(),
                        through));
    }

    void killWhileRecovering(Cause health, std::size_t offset) {
        const std::size_t points = pointsOf(health);
        std::size_t deaths = 0;
        for (const std::size_t n : chosen(points, 2, offset)) {
            World world(health);
            ASSERT_EQ(world.promoteInChild(n), SIGKILL);
            // It converges although it never gets further than a little each time.
            for (std::size_t nth = 1; world.recoverInChild(nth) == SIGKILL; nth += isLong() ? 1 : 4) {
                ++deaths;
                ASSERT_LT(nth, 2000U);
            }
            expectWhole(world, fmt::format("killed at {}, then while recovering", n));
            if (HasFailure()) FAIL() << "killed at point " << n << " of " << points;
        }
        say(fmt::format("{} deaths while recovering", deaths));
    }

    /// A way back that failed is on record as such, and open to whoever tries again.
    static void free(World& world) {
        const StageReport back = world.rig.engine()->rollBack(world.last().id, world.rig.progress, {});
        EXPECT_TRUE(back.succeeded()) << back.reason;
    }

    void failEverywhere(Cause health, int error, std::size_t offset) {
        const std::size_t points = pointsOf(health);
        const auto all = chosen(points, 4, offset);
        std::size_t stuck = 0;
        for (const std::size_t n : all) {
            World world(health);
            EXPECT_NE(world.promoteInChild(n, error), SIGKILL);
            world.recover(0);
            if (health == Cause::kFailed && world.isStuck()) {
                ++stuck;
                free(world);
            }
            expectWhole(world, fmt::format("error {} at point {} of {}", error, n, points));
            if (HasFailure()) FAIL() << errnoText(error) << " at point " << n << " of " << points;
        }
        say(fmt::format("{} points, {} of them failing with {}; {} times going back failed, and went well again",
                        points, all.size(), errnoText(error), stuck));
    }
};

TEST_P(EngineCrash, KilledAnywhereOnTheWayUp) {
    GRADUS_CASES("CR1", "TX17", "I1");
    killEverywhere(Cause::kPassed, 2);
}

TEST_P(EngineCrash, KilledAnywhereOnTheWayBack) {
    GRADUS_CASES("CR1", "I1");
    killEverywhere(Cause::kFailed, 5);
}

TEST_P(EngineCrash, KilledAgainAndAgainWhileRecovering) {
    GRADUS_CASES("CR3");
    ASSERT_NO_FATAL_FAILURE(killWhileRecovering(Cause::kPassed, 11));
    killWhileRecovering(Cause::kFailed, 13);
}

TEST_P(EngineCrash, AFullOrBrokenDiskAtAnyCallEndsInOrder) {
    GRADUS_CASES("CR6");
    ASSERT_NO_FATAL_FAILURE(failEverywhere(Cause::kPassed, ENOSPC, 1));
    ASSERT_NO_FATAL_FAILURE(failEverywhere(Cause::kPassed, EIO, 4));
    ASSERT_NO_FATAL_FAILURE(failEverywhere(Cause::kFailed, ENOSPC, 7));
    ASSERT_NO_FATAL_FAILURE(failEverywhere(Cause::kFailed, EIO, 3));
}

INSTANTIATE_TEST_SUITE_P(All, EngineCrash, testing::ValuesIn(scenes()),
                         [](const auto& scene) { return scene.param.name; });

}  // namespace
}  // namespace gradus::test
