// kill -9 under a writing load: what was acknowledged is there, what is there is whole.
#include <gtest/gtest.h>

#include "tests/store/crash_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

TEST(KillNine, LosesNoAcknowledgedCommit) {
    GRADUS_CASES("CR2");
    const int rounds = roundsOf(50, 500);
    const RigReport report = runKillRig(writerProgram(), rounds, 20260301);
    EXPECT_FALSE(report.failure) << "in round " << report.rounds << ": " << *report.failure;
    EXPECT_EQ(report.rounds, rounds);
    std::cout << report.rounds << " rounds, " << report.commits << " acknowledged commits\n";
}

// The rig is only as good as what it catches. Each round has a few percent to hit the moment; far fewer are needed.
constexpr int kMostRounds = 300;

void expectCaught(const std::string& mutant) {
    const RigReport report = runKillRig(writerProgram(mutant), kMostRounds, 20260301);
    ASSERT_TRUE(report.failure) << mutant << " survived " << report.rounds << " rounds";
    std::cout << mutant << " caught in round " << report.rounds << ": " << *report.failure << '\n';
}

TEST(KillNine, CatchesAWriterWithoutTheLock) { expectCaught("without_lock"); }
TEST(KillNine, CatchesAnAnchorToldBeforeTheCommit) { expectCaught("anchor_first"); }

}  // namespace
}  // namespace gradus::test
