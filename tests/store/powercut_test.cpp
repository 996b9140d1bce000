// Ordered power cuts on a journalled disk: what was acknowledged before the cut is there after it.
#include <gtest/gtest.h>
#include <unistd.h>

#include "store/model/error.h"
#include "tests/store/crash_rig.h"
#include "tests/store/powercut_disk.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;
constexpr int kAtOnce = 2;

/// One cut: writers, the cut in the middle of their work, and the demands on what the disk holds then. Every other
/// store is fresh, so that its key and anchor are new, too; the others were on the disk before.
std::optional<std::string> cutOnce(PowerCutDisk& disk, const fs::path& program, std::mt19937& chance, int round,
                                   std::size_t& commits) {
    const std::string name = "store-" + std::to_string(round);
    const auto upTo = [&](int most) { return std::uniform_int_distribution<int>(0, most)(chance); };
    if (round % 2 == 0) {
        prepareStore({disk.root() / name});
        ::sync();
    }
    Writers writers(program, {disk.root() / name}, kAtOnce, std::to_string(round));
    if (writers.await(1 + static_cast<std::size_t>(upTo(160)))) writers.listen(std::chrono::microseconds(upTo(4000)));
    if (!writers.complaints().empty()) return "a writer said: " + writers.complaints().front();
    const std::vector<Acknowledged> before = writers.acknowledged();
    disk.cut();
    writers.killAll();
    fs::remove_all(disk.root() / name);
    commits += before.size();
    const auto after = disk.powerUp();
    return brokenPromise({after->root() / name}, before, After::kPowerCut);
}

RigReport runPowerCutRig(const fs::path& program, int cuts, unsigned seed) {
    std::mt19937 chance(seed);
    PowerCutDisk disk;
    RigReport report;
    while (report.rounds < cuts && !report.failure)
        report.failure = cutOnce(disk, program, chance, report.rounds++, report.commits);
    return report;
}

class PowerCut : public testing::Test {
  protected:
    void SetUp() override {
        if (const auto reason = PowerCutDisk::whyNot()) GTEST_SKIP() << *reason;
    }
    static void expectCaught(const std::string& mutant) {
        const RigReport report = runPowerCutRig(writerProgram(mutant), 30, 20260302);
        ASSERT_TRUE(report.failure) << mutant << " survived " << report.rounds << " cuts";
        std::cout << mutant << " caught at cut " << report.rounds << ": " << *report.failure << '\n';
    }
};

TEST_F(PowerCut, LosesNoAcknowledgedCommit) {
    GRADUS_CASES("CR4");
    const int cuts = roundsOf(10, 100);
    const RigReport report = runPowerCutRig(writerProgram(), cuts, 20260302);
    EXPECT_FALSE(report.failure) << "at cut " << report.rounds << ": " << *report.failure;
    EXPECT_EQ(report.rounds, cuts);
    std::cout << report.rounds << " cuts, " << report.commits << " commits acknowledged before them\n";
}

// The rig is only as good as what it catches.
TEST_F(PowerCut, CatchesCommitsThatAreNotSynced) { expectCaught("normal"); }
TEST_F(PowerCut, CatchesFilesThatAreNotSynced) { expectCaught("without_fsync"); }
TEST_F(PowerCut, CatchesObjectsThatAreNotSynced) { expectCaught("object_without_fsync"); }

}  // namespace
}  // namespace gradus::test
