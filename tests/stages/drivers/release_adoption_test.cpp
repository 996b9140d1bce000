// What lies in the place of a release directory and was not put there by us, taken for what the stage holds.
#include <gtest/gtest.h>

#include "tests/stages/drivers/release_fixture.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class ReleaseAdoption : public ReleaseFixture {
  protected:
    void lay(const std::string& where) {
        fs::create_directories(rig_.target() / where);
        build(rig_.target() / where, tree_);
    }
};

TEST_F(ReleaseAdoption, NothingIsTakenForOursUnasked) {
    lay("releases/1");
    fs::create_symlink("releases/1", rig_.target() / "current");
    const std::string why = whyNot([&] { rig_.driver()->held(); });
    EXPECT_NE(why.find("current leads to 'releases/1', which gradus did not put there"), std::string::npos) << why;
    EXPECT_THROW(rig_.driver()->checkpoint(seeded(next_)), Error);
}

TEST_F(ReleaseAdoption, ALinkToAReleaseBecomesTheFirstStableState) {
    lay("releases/1");
    fs::create_symlink("./releases/1/", rig_.target() / "current");
    const TargetLock lock = rig_.lock();
    const Tree before = rig_.world();
    const HeldTree held = rig_.driver()->adopt(StageDriver::Adopting::kTake);
    EXPECT_EQ(held.directory, rig_.target() / "releases/1");
    EXPECT_EQ(rig_.driver()->held()->digest, held.digest);
    const Checkpoint checkpoint = promote(changeTo(rig_, tree_, next_));
    EXPECT_EQ(difference(plain(readTree(current())), next_), "");
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(difference(rig_.world(), before), "");
}

TEST_F(ReleaseAdoption, APlainDirectoryBecomesARelease) {
    lay("current");
    const TargetLock lock = rig_.lock();
    rig_.driver()->adopt(StageDriver::Adopting::kTake);
    EXPECT_TRUE(fs::is_symlink(rig_.target() / "current"));
    EXPECT_EQ(difference(plain(readTree(current())), tree_), "");
    const Checkpoint checkpoint = promote(changeTo(rig_, tree_, next_));
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(difference(plain(readTree(current())), tree_), "");
}

TEST_F(ReleaseAdoption, WhatCannotBeToldSafelyIsRefusedWithTheNextStep) {
    // Asked before, it says the same.
    const auto why = [&] {
        std::string reason = whyNot([&] { rig_.driver()->adopt(StageDriver::Adopting::kTake); });
        EXPECT_EQ(whyNot([&] { rig_.driver()->adopt(StageDriver::Adopting::kLook); }), reason);
        return reason;
    };
    EXPECT_NE(why().find("has no 'current'"), std::string::npos);
    lay(".");
    EXPECT_NE(whyNot([&] { rig_.driver()->held(); }).find("which gradus did not put there"), std::string::npos);
    EXPECT_NE(why().find("has no 'current'"), std::string::npos);
    fs::create_symlink("/etc", rig_.target() / "current");
    EXPECT_NE(why().find("which is no directory in"), std::string::npos);
    fs::remove(rig_.target() / "current");
    lay("current");
    fs::create_symlink("../outside", rig_.target() / "current/out");
    EXPECT_NE(why().find("the link 'out' leads out of it"), std::string::npos);
    fs::remove(rig_.target() / "current/out");
    ::mkfifo((rig_.target() / "current/pipe").c_str(), 0600);
    EXPECT_NE(why().find("'pipe': it is a named pipe"), std::string::npos);
    fs::remove(rig_.target() / "current/pipe");
    rig_.setList("shared", {"etc"});
    EXPECT_NE(why().find("'etc' is to be shared, but lies in"), std::string::npos);
}

TEST_F(ReleaseAdoption, WhatCanBeTakenIsLookedAtAndLeftAsItIs) {
    lay("current");
    const Tree before = rig_.world();
    rig_.driver()->adopt(StageDriver::Adopting::kLook);
    EXPECT_EQ(difference(rig_.world(), before), "");
}

TEST_F(ReleaseAdoption, WhatTheFirstPromotionMadeToShareGoesWithIt) {
    lay("current");
    rig_.setList("shared", {"var/uploads"});
    const TargetLock lock = rig_.lock();
    rig_.driver()->adopt(StageDriver::Adopting::kTake);
    const Tree before = rig_.world();
    const Checkpoint checkpoint = promote(changeTo(rig_, tree_, next_));
    EXPECT_TRUE(fs::is_directory(rig_.target() / "shared/var/uploads"));
    EXPECT_TRUE(rig_.driver()->rollback(checkpoint).complete);
    EXPECT_EQ(difference(rig_.world(), before), "");
    // One that has the link keeps what it leads to.
    promote(changeTo(rig_, tree_, next_));
    Tree last = next_;
    last["app"] = file("version 3\n", 0755);
    const Checkpoint third = promote(changeTo(rig_, next_, last));
    EXPECT_TRUE(rig_.driver()->rollback(third).complete);
    EXPECT_TRUE(fs::is_directory(rig_.target() / "shared/var/uploads"));
}

}  // namespace
}  // namespace gradus::test
