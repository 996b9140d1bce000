// The cases are only as good as what they catch: each is run against drivers that break the promise it is about.
#include "tests/support/mutant.h"

namespace gradus::test {
namespace {

class DriverMutants : public testing::TestWithParam<Mutant> {};

TEST_P(DriverMutants, AreCaught) { expectCaught(GetParam(), GRADUS_BINARY_DIR "/tests/stages/drivers/driver_mutant_"); }

INSTANTIATE_TEST_SUITE_P(
    All, DriverMutants,
    testing::Values(Mutant{"link_followed", "TargetLocks.AMarkerIsNeverReachedThroughALink"},
                    Mutant{"lock_skipped", "TargetLocks.ASecondProcessIsBusyUntilTheFirstHasEnded"},
                    Mutant{"foreign_store", "TargetLocks.AnotherStoreIsRefusedWithWhatToDo"},
                    Mutant{"switch_before_sync", "ReleaseDirectory.EverythingIsSyncedBeforeTheLinkIsSwitched"},
                    Mutant{"activate_skipped", "ReleaseDirectory.TellsActivateWhereItIsForwardAndBack"},
                    Mutant{"old_release_unread", "ReleaseDirectory.AnOldReleaseThatIsNotWhatItWasIsAProblem"},
                    Mutant{"something_left", "ReleaseDirectory.AnEmptyStageIsSeededAndGoesBackToNothingAtAll"},
                    Mutant{"edits_dropped", "ReleaseDirectory.AReleaseThatSomebodyEditedIsKeptAndListed"},
                    Mutant{"branch_forced", "BranchStage.SomebodyWhoCommitsInBetweenWinsAndNothingIsLost"},
                    Mutant{"checked_out_unseen", "BranchStage.ABranchThatIsCheckedOutIsRefusedWithTheCure"},
                    Mutant{"hooks_run", "BranchStage.NoHookRunsAndNoConfigurationHasASay"},
                    Mutant{"dead_git_believed", "GitChild.ARemoteThatCannotAnswerIsNotTakenBack"},
                    Mutant{"left_lock_kept", "GitChild.ARollbackThatWasKilledWithItsGitIsFinishedByTheNext"},
                    Mutant{"one_index_name", "GitChild.WhatAKilledGitLeftOfAnIndexOfOursIsInNobodysWay"},
                    Mutant{"command_unmarked", "CommandStageKilled.WithoutStatusItCannotBeToldAndGoesBack"},
                    Mutant{"health_skipped", "CommandStage.AFailedHealthIsTakenBackAndAskedAgain"}),
    nameOfMutant);

}  // namespace
}  // namespace gradus::test
