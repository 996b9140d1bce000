// The sandboxes of failed checks: kept for a while, the oldest making room, and never at the price of the verdict.
#include <barrier>
#include <thread>

#include "tests/stages/sandbox/sandboxes_fixture.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostKept = 8;

class FailedTest : public SandboxesTest {
  protected:
    ResultingTree tree() const {
        ResultingTree tree;
        tree.project = tree.directory = project_.path();
        return tree;
    }
    CommandRequest failing() const {
        CommandRequest command = shell("echo trace > trace; echo no; exit 1");
        command.keepFailed = Milliseconds(3'600'000);
        return command;
    }
    ExecutionReport fail() { return sandboxes().runOver(tree(), failing()); }
    void expectKept(const ExecutionReport& report) {
        EXPECT_EQ(report.execution.verdict, Verdict::kFailed) << describe(report);
        ASSERT_TRUE(report.keptAs);
        EXPECT_EQ(exec(*report.keptAs, "cat trace"), "trace\n");
    }
};

TEST_F(FailedTest, TheOldestMakesRoom) {
    for (std::size_t i = 0; i < kMostKept; ++i) fail();
    EXPECT_EQ(sandboxes().list().size(), kMostKept);
    expectKept(fail());
    EXPECT_EQ(sandboxes().list().size(), kMostKept);
    EXPECT_EQ(records().sandbox(1)->ended, SandboxEnd::kExpired);
    sandboxes().collect();
    expectConsistent();
}

TEST_F(FailedTest, AFaultWhileRoomIsMadeCostsNeitherTheVerdictNorTheSandbox) {
    for (std::size_t i = 0; i < kMostKept; ++i) fail();
    const fs::path lock = root() / "locks/s1";
    fs::remove(lock);
    fs::create_directory(lock);
    expectKept(fail());
    ASSERT_EQ(side_->warnings.size(), 1U);
    EXPECT_NE(side_->warnings.front().find("s1"), std::string::npos) << side_->warnings.front();
    fs::remove(lock);
    expectKept(fail());
    EXPECT_EQ(sandboxes().list().size(), kMostKept) << "the next one makes up for it";
    sandboxes().collect();
    expectConsistent();
}

TEST_F(FailedTest, ThatCannotBeKeptFailedAllTheSame) {
    createKept("failed-e1");
    const ExecutionReport report = fail();
    EXPECT_EQ(report.execution.verdict, Verdict::kFailed) << describe(report);
    EXPECT_FALSE(report.keptAs);
    EXPECT_EQ(side_->warnings.size(), 1U);
    EXPECT_EQ(records().execution(1)->state, ExecutionState::kFinished);
    EXPECT_EQ(records().sandbox(2)->ended, SandboxEnd::kDiscarded);
    sandboxes().collect();
    expectConsistent();
}

TEST_F(FailedTest, IsKeptOverWhatItSaw) {
    project_.write("f", "then\n");
    const ExecutionReport report = fail();
    project_.write("f", "now\n");
    project_.write("new", "now\n");
    expectKept(report);
    EXPECT_EQ(exec(*report.keptAs, "cat f; test ! -e new && echo as it was"), "then\nas it was\n");
    EXPECT_TRUE(sandboxes().view(*report.keptAs).onCopy);
    EXPECT_EQ(changedPaths(sandboxes().diff(*report.keptAs)), std::vector<std::string>{"+trace"});
    sandboxes().collect();
    expectConsistent();
}

TEST_F(FailedTest, OfAProjectThatIsTooLargeForACopyIsKeptOverTheProject) {
    constexpr int kTooMany = 20'001;
    const fs::path many = project_.path() / "many";
    fs::create_directory(many);
    for (int i = 0; i < kTooMany; ++i) fs::create_symlink("nothing", many / std::to_string(i));
    project_.write("f", "then\n");
    const ExecutionReport report = fail();
    project_.write("f", "now\n");
    expectKept(report);
    EXPECT_EQ(exec(*report.keptAs, "cat f"), "now\n");
    EXPECT_FALSE(sandboxes().view(*report.keptAs).onCopy);
    expectConsistent();
}

// Both see the same oldest ones: each of these is ended once, and nobody trips over what the other did.
TEST_F(FailedTest, TwoAtOnceAreBothKept) {
    for (std::size_t i = 0; i < kMostKept; ++i) fail();
    Side other(*this);
    for (int round = 0; round < 6; ++round) {
        std::barrier together(2);
        ExecutionReport reports[2];
        std::string faults[2];
        const auto run = [&](int which, Sandboxes& with) {
            CommandRequest command = failing();
            bool came = false;
            command.live = [&](Stream, std::string_view) {
                if (!std::exchange(came, true)) together.arrive_and_wait();
            };
            try {
                reports[which] = with.runOver(tree(), command);
            } catch (const std::exception& e) {
                faults[which] = e.what();
            }
            if (!came) together.arrive_and_drop();
        };
        std::thread beside(run, 1, std::ref(round % 2 == 0 ? other.sandboxes : sandboxes()));
        run(0, sandboxes());
        beside.join();
        for (const int which : {0, 1}) {
            EXPECT_EQ(faults[which], "") << "round " << round;
            expectKept(reports[which]);
        }
        EXPECT_EQ(sandboxes().list().size(), kMostKept);
    }
    EXPECT_TRUE(side_->warnings.empty());
    EXPECT_TRUE(other.warnings.empty());
    sandboxes().collect();
    expectConsistent();
}

}  // namespace
}  // namespace gradus
