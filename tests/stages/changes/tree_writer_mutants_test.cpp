// The cases are only as good as what they catch: each is run against a writer that breaks the promise it is about.
#include "tests/store/powercut_disk.h"
#include "tests/support/mutant.h"

namespace gradus::test {
namespace {

class TreeWriterMutants : public testing::TestWithParam<Mutant> {};

TEST_P(TreeWriterMutants, AreCaught) {
    const bool needsDisk = GetParam().caughtBy.starts_with("TreeWriterPowerCut");
    const auto reason = needsDisk ? PowerCutDisk::whyNot() : std::nullopt;
    if (reason) GTEST_SKIP() << *reason;
    expectCaught(GetParam(), GRADUS_BINARY_DIR "/tests/stages/changes/tree_writer_mutant_");
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
                    Mutant{"mode_given_up", "TreeWriterConflict.UndoIsNotOverWhileTheModeOfADirectoryIsOutOfReach"},
                    Mutant{"link_followed", "TreeWriterConflict.NeverWritesThroughALink"}),
    nameOfMutant);

}  // namespace
}  // namespace gradus::test
