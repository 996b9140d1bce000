// What every driver promises, whatever it brings changes into.
#include <gtest/gtest.h>

#include <fstream>

#include "store/model/error.h"
#include "tests/stages/drivers/driver_rig.h"
#include "tests/stages/drivers/driver_scene.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using Observed = StageDriver::Observed;

class DriverContract : public testing::TestWithParam<Scene> {
  protected:
    DriverContract() : stage_(GetParam()) {}
    StageUnderTest stage_;
};

TEST_P(DriverContract, AppliesAllOfAChangeAndTakesAllOfItBack) {
    GRADUS_CASES("I5");
    const std::string before = stage_.world();
    const Checkpoint checkpoint = stage_.checkpoint();
    EXPECT_EQ(difference(plain(stage_.shown()), stage_.before()), "") << "checkpoint() shows nothing yet";
    EXPECT_EQ(stage_.driver()->observe(checkpoint), stage_.isReal() ? Observed::kBefore : Observed::kAfter);
    EXPECT_TRUE(stage_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(difference(plain(stage_.shown()), stage_.after()), "");
    EXPECT_EQ(stage_.driver()->observe(checkpoint), Observed::kAfter);
    const RollbackOutcome back = stage_.driver()->rollback(checkpoint);
    EXPECT_TRUE(back.complete);
    EXPECT_TRUE(back.kept.empty() && back.problems.empty());
    EXPECT_EQ(stage_.world(), before);
    EXPECT_EQ(stage_.driver()->observe(checkpoint), stage_.isReal() ? Observed::kBefore : Observed::kAfter);
}

TEST_P(DriverContract, MayBeCalledAgainAndAgainInAnyProcess) {
    const std::string before = stage_.world();
    const Checkpoint checkpoint = Checkpoint::decode(stage_.checkpoint().encode());
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(stage_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(difference(plain(stage_.shown()), stage_.after()), "");
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(stage_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(stage_.world(), before);
}

TEST_P(DriverContract, TellsAnotherTreeByAnotherDigest) {
    const Digest before = stage_.driver()->held()->digest;
    const Checkpoint checkpoint = stage_.checkpoint();
    EXPECT_EQ(stage_.driver()->held()->digest, before);
    stage_.driver()->apply(checkpoint);
    const Digest after = stage_.driver()->held()->digest;
    EXPECT_EQ(after, stage_.driver()->treeAfter(checkpoint).value_or(after));
    EXPECT_EQ(stage_.driver()->held()->directory, stage_.driver()->shown());
    EXPECT_EQ(after != before, stage_.isReal());
    EXPECT_EQ(stage_.driver()->held()->digest, after);
    stage_.driver()->rollback(checkpoint);
    EXPECT_EQ(stage_.driver()->held()->digest, before);
}

TEST_P(DriverContract, TidyLeavesWhatIsShownAndWhatIsNeeded) {
    const std::string before = stage_.world();
    const Checkpoint forgotten = stage_.checkpoint();
    const Checkpoint checkpoint = stage_.checkpoint();
    stage_.driver()->tidy({checkpoint});
    stage_.driver()->apply(checkpoint);
    stage_.driver()->tidy({checkpoint});
    EXPECT_EQ(difference(plain(stage_.shown()), stage_.after()), "");
    EXPECT_TRUE(stage_.driver()->rollback(checkpoint).complete);
    stage_.driver()->tidy({});
    EXPECT_EQ(stage_.world(), before);
}

TEST_P(DriverContract, IsTheSameTargetWhoeverAsks) {
    const TargetIdentity first = stage_.driver()->identity();
    const TargetIdentity second = stage_.driver()->identity();
    EXPECT_EQ(first.canonical, second.canonical);
    EXPECT_EQ(first.marker, second.marker);
    EXPECT_EQ(first.marker.empty(), !stage_.isReal());
}

TEST_P(DriverContract, RefusesAChangeThatDoesNotFitAndTouchesNothing) {
    GRADUS_CASES("CA7");
    if (!stage_.isReal()) return;
    StageChange change = stage_.change();
    std::vector<PathChange> changes = change.changes.changes();
    changes.front().before = Entry{EntryType::kFile, 0644, sha256("never there"), 11};
    change.changes = ChangeSet(changes);
    const std::string before = stage_.world();
    EXPECT_FALSE(stage_.driver()->conflicts(change).empty());
    EXPECT_THROW(stage_.driver()->checkpoint(change), Error);
    EXPECT_EQ(stage_.world(), before);
    EXPECT_TRUE(stage_.driver()->conflicts(stage_.change()).empty());
}

TEST_P(DriverContract, AppliesAChangeWithNothingInIt) {
    GRADUS_CASES("ST9");
    StageChange nothing = stage_.change();
    nothing.changes = ChangeSet();
    const Checkpoint checkpoint = stage_.driver()->checkpoint(nothing);
    EXPECT_TRUE(stage_.driver()->apply(checkpoint).applied);
    EXPECT_EQ(stage_.driver()->observe(checkpoint), Observed::kAfter);
    EXPECT_EQ(difference(plain(stage_.shown()), stage_.before()), "");
    EXPECT_TRUE(stage_.driver()->rollback(checkpoint).complete);
}

INSTANTIATE_TEST_SUITE_P(All, DriverContract, testing::ValuesIn(allScenes()),
                         [](const auto& scene) { return scene.param.name; });

}  // namespace
}  // namespace gradus::test
