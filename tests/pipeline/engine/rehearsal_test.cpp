// A rehearsal believes nothing: a driver that says it went back, and did not, is found out.

#include "pipeline/engine/rehearsal.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "store/model/error.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }

/// Writes `new` and removes `gone`, and goes back as well as it is told to.
class CarelessDriver final : public StageDriver {
  public:
    explicit CarelessDriver(fs::path tree) : tree_(std::move(tree)) {}

    TargetIdentity identity() const override { return {"careless", tree_.native(), {}}; }
    std::optional<HeldTree> held() const override { return HeldTree{tree_, {}}; }
    std::optional<fs::path> shown() const override { return tree_; }
    HeldTree adopt(Adopting /*how*/) override { return {}; }
    std::vector<Conflict> conflicts(const StageChange&) const override { return {}; }
    Checkpoint checkpoint(const StageChange&) override {
        fs::rename(tree_ / "gone", tree_.parent_path() / "kept");
        fs::rename(tree_.parent_path() / "kept", tree_ / "gone");
        return {"careless", {}};
    }
    ApplyOutcome apply(const Checkpoint&) override {
        if (throws) throw Error(ErrorCode::kInfrastructure, "the disk is full");
        write(tree_ / "new", "new\n");
        fs::permissions(tree_ / "new", fs::perms(0644));
        fs::rename(tree_ / "gone", tree_.parent_path() / "kept");
        isAfter_ = true;
        ApplyOutcome outcome;
        outcome.applied = true;
        return outcome;
    }
    Observed observe(const Checkpoint&) const override { return isAfter_ ? Observed::kAfter : Observed::kBefore; }
    RollbackOutcome rollback(const Checkpoint&) override {
        if (isAfter_) fs::rename(tree_.parent_path() / "kept", tree_ / "gone");
        if (isAfter_) fs::remove(tree_ / "new");
        isAfter_ = false;
        mishap(tree_);
        RollbackOutcome outcome;
        outcome.complete = true;
        return outcome;
    }
    std::optional<Digest> treeAfter(const Checkpoint&) const override { return std::nullopt; }
    void tidy(const std::vector<Checkpoint>&) override {}

    std::function<void(const fs::path&)> mishap = [](const fs::path&) {};
    bool throws = false;

  private:
    fs::path tree_;
    bool isAfter_ = false;
};

class RehearsalTest : public testing::Test {
  protected:
    RehearsalTest() {
        fs::create_directories(tree_ / "sub");
        write(tree_ / "gone", "gone\n");
        write(tree_ / "sub/stays", "stays\n");
        fs::create_symlink("sub/stays", tree_ / "link");
    }
    StageChange change() const {
        const Entry made{EntryType::kFile, 0644, sha256("new\n"), 4};
        const Entry gone{EntryType::kFile, 0644, sha256("gone\n"), 5};
        fs::permissions(tree_ / "gone", fs::perms(0644));
        StageChange change;
        change.changes = ChangeSet({{"new", std::nullopt, made}, {"gone", gone, std::nullopt}});
        return change;
    }
    RehearsalOutcome run() {
        place_.target = tree_;
        return rehearse(driver_, change(), place_);
    }
    std::string onlyDifference() {
        const RehearsalOutcome outcome = run();
        EXPECT_TRUE(outcome.applied);
        EXPECT_FALSE(outcome.restored);
        EXPECT_FALSE(outcome.succeeded());
        if (outcome.differences.size() != 1) return fmt::format("{} differences", outcome.differences.size());
        return outcome.differences[0].path + ": " + outcome.differences[0].what;
    }

    test::ScratchDirectory scratch_;
    fs::path tree_ = scratch_ / "tree";
    CarelessDriver driver_{tree_};
    RehearsalPlace place_;
};

TEST_F(RehearsalTest, SucceedsWhenEverythingIsAsItWas) {
    const RehearsalOutcome outcome = run();
    EXPECT_TRUE(outcome.succeeded()) << (outcome.problems.empty() ? "" : outcome.problems.front());
    EXPECT_EQ(outcome.paths, 4U);
    EXPECT_EQ(outcome.bytes, 20U) << "the text of the link counts";
}

TEST_F(RehearsalTest, FindsOtherBytes) {
    driver_.mishap = [](const fs::path& tree) { write(tree / "sub/stays", "STAYS\n"); };
    EXPECT_EQ(onlyDifference(), "sub/stays: its bytes are not what they were");
}

TEST_F(RehearsalTest, FindsAnotherMode) {
    driver_.mishap = [](const fs::path& tree) { fs::permissions(tree / "sub/stays", fs::perms(0600)); };
    EXPECT_TRUE(onlyDifference().starts_with("sub/stays: its mode is 600 and was "));
}

TEST_F(RehearsalTest, FindsTheModeOfADirectory) {
    driver_.mishap = [](const fs::path& tree) { fs::permissions(tree / "sub", fs::perms(0700)); };
    EXPECT_TRUE(onlyDifference().starts_with("sub: its mode is 700 and was "));
}

TEST_F(RehearsalTest, FindsALinkThatLeadsElsewhere) {
    driver_.mishap = [](const fs::path& tree) {
        fs::remove(tree / "link");
        fs::create_symlink("sub/other", tree / "link");
    };
    EXPECT_EQ(onlyDifference(), "link: its bytes are not what they were");
}

TEST_F(RehearsalTest, FindsAnotherTimeUnlessTheDriverMakesItAnew) {
    driver_.mishap = [](const fs::path& tree) { fs::last_write_time(tree / "sub/stays", fs::file_time_type{}); };
    EXPECT_EQ(onlyDifference(), "sub/stays: its modification time is not what it was");
    place_.isRemade = [](const std::string& path) { return path == "sub/stays"; };
    driver_.mishap = [](const fs::path& tree) {
        fs::last_write_time(tree / "sub/stays", fs::file_time_type::clock::now());
    };
    EXPECT_TRUE(run().succeeded());
}

TEST_F(RehearsalTest, FindsWhatIsGoneAndWhatIsLeft) {
    driver_.mishap = [](const fs::path& tree) { fs::remove(tree / "sub/stays"); };
    EXPECT_EQ(onlyDifference(), "sub/stays: it is gone");
    driver_.mishap = [](const fs::path& tree) { write(tree / "left", ""); };
    EXPECT_EQ(onlyDifference(), "left: it was not there before");
}

TEST_F(RehearsalTest, FindsADirectoryInPlaceOfAFile) {
    driver_.mishap = [](const fs::path& tree) {
        fs::remove(tree / "sub/stays");
        fs::create_directory(tree / "sub/stays");
    };
    EXPECT_TRUE(onlyDifference().starts_with("sub/stays: it is a directory"));
}

TEST_F(RehearsalTest, FindsADriverThatDoesNotApplyWhatTheChangeSays) {
    place_.target = tree_;
    StageChange other = change();
    const Entry made{EntryType::kFile, 0644, sha256("other\n"), 6};
    other.changes = ChangeSet({{"new", std::nullopt, made}});
    const RehearsalOutcome outcome = rehearse(driver_, other, place_);
    EXPECT_FALSE(outcome.applied);
    EXPECT_FALSE(outcome.succeeded());
    ASSERT_EQ(outcome.problems.size(), 1U);
    EXPECT_EQ(outcome.problems[0], "'new' is not what the change makes of it");
}

TEST_F(RehearsalTest, FindsADriverThatLosesWhatWasBuilt) {
    place_.target = tree_;
    StageChange building = change();
    building.outputs = ChangeSet({{"out", std::nullopt, Entry{EntryType::kFile, 0644, sha256("built\n"), 6}}});
    const RehearsalOutcome outcome = rehearse(driver_, building, place_);
    EXPECT_FALSE(outcome.applied);
    ASSERT_EQ(outcome.problems.size(), 1U);
    EXPECT_EQ(outcome.problems[0], "'out' is not what the change makes of it");
}

TEST_F(RehearsalTest, AFaultIsAProblemNotAnEnd) {
    driver_.throws = true;
    const RehearsalOutcome outcome = run();
    EXPECT_FALSE(outcome.succeeded());
    ASSERT_EQ(outcome.problems.size(), 1U);
    EXPECT_EQ(outcome.problems[0], "the disk is full");
}

}  // namespace
}  // namespace gradus
