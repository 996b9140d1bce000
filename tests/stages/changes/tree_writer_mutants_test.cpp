// The cases are only as good as what they catch: each is run against a writer that breaks the promise it is about.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "tests/store/powercut_disk.h"

namespace gradus::test {
namespace {

struct Mutant {
    std::string name;
    std::string caughtBy;
};

std::ostream& operator<<(std::ostream& out, const Mutant& mutant) { return out << mutant.name; }

class TreeWriterMutants : public testing::TestWithParam<Mutant> {};

TEST_P(TreeWriterMutants, AreCaught) {
    const bool needsDisk = GetParam().caughtBy.starts_with("TreeWriterPowerCut");
    const auto reason = needsDisk ? PowerCutDisk::whyNot() : std::nullopt;
    if (reason) GTEST_SKIP() << *reason;
    const std::string command = fmt::format("'{}/tests/stages/changes/tree_writer_mutant_{}' --gtest_filter='{}' 2>&1",
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
    All, TreeWriterMutants,
    testing::Values(Mutant{"undo_not_synced", "TreeWriterPowerCut.LeavesTheTreeWhollyBeforeOrWhollyAfter"},
                    Mutant{"journal_not_synced", "TreeWriterOrder.SealsTheJournalBeforeAnythingElse"},
                    Mutant{"content_not_synced", "TreeWriterOrder.SyncsEveryNewContentBeforeItGetsAName"},
                    Mutant{"names_not_synced",
                           "TreeWriterOrder.SyncsEveryDirectoryBetweenTheLastSwapAndTheConfirmation"},
                    Mutant{"plan_unchecked", "TreeWriterConflict.WritesNothingWhenOneOfManyDoesNotFit"},
                    Mutant{"swap_unchecked", "TreeWriterConflict.GivesBackAnEditMadeBetweenTheLookAndTheSwap"},
                    Mutant{"undo_unchecked", "TreeWriterConflict.UndoKeepsAndListsWhatWasEditedSince"},
                    Mutant{"link_followed", "TreeWriterConflict.NeverWritesThroughALink"}),
    [](const auto& mutant) { return mutant.param.name; });

}  // namespace
}  // namespace gradus::test
