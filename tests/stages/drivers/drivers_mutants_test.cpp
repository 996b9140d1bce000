// The cases are only as good as what they catch: each is run against drivers that break the promise it is about.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace gradus::test {
namespace {

struct Mutant {
    std::string name;
    std::string caughtBy;
};

std::ostream& operator<<(std::ostream& out, const Mutant& mutant) { return out << mutant.name; }

class DriverMutants : public testing::TestWithParam<Mutant> {};

TEST_P(DriverMutants, AreCaught) {
    const std::string command =
        fmt::format("GRADUS_TEST_MUTANT=1 '{}/tests/stages/drivers/driver_mutant_{}' --gtest_filter='{}' 2>&1",
                    GRADUS_BINARY_DIR, GetParam().name, GetParam().caughtBy);
    FILE* output = ::popen(command.c_str(), "r");
    ASSERT_NE(output, nullptr);
    std::string said;
    for (int c = 0; (c = std::fgetc(output)) != EOF;) said += static_cast<char>(c);
    const int status = ::pclose(output);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status << said;
    EXPECT_NE(said.find("[  FAILED  ] " + GetParam().caughtBy), std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(
    All, DriverMutants,
    testing::Values(Mutant{"link_followed", "TargetLocks.AMarkerIsNeverReachedThroughALink"},
                    Mutant{"lock_skipped", "TargetLocks.ASecondProcessIsBusyUntilTheFirstHasEnded"},
                    Mutant{"foreign_store", "TargetLocks.AnotherStoreIsRefusedWithWhatToDo"},
                    Mutant{"switch_before_sync", "ReleaseDirectory.EverythingIsSyncedBeforeTheLinkIsSwitched"},
                    Mutant{"activate_skipped", "ReleaseDirectory.TellsActivateWhereItIsForwardAndBack"},
                    Mutant{"old_release_unread", "ReleaseDirectory.AnOldReleaseThatIsNotWhatItWasIsAProblem"},
                    Mutant{"edits_dropped", "ReleaseDirectory.AReleaseThatSomebodyEditedIsKeptAndListed"}),
    [](const auto& mutant) { return mutant.param.name; });

}  // namespace
}  // namespace gradus::test
