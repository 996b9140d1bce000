#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "store/model/error.h"
#include "tests/stages/drivers/driver_rig.h"
#include "tests/stages/drivers/driver_scene.h"

namespace gradus::test {

inline std::string whyNot(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& fault) {
        EXPECT_NE(fault.hint(), "") << fault.what();
        return fault.what();
    }
    return "";
}

/// A project and, beside it, a release directory that is empty yet.
class ReleaseFixture : public testing::Test {
  protected:
    ReleaseFixture() : rig_("release-directory") { build(rig_.project(), tree_); }

    StageChange seeded(const Tree& after) {
        StageChange change = changeTo(rig_, tree_, after);
        change.seed = rig_.project();
        return change;
    }
    Checkpoint promote(const StageChange& change) {
        Checkpoint checkpoint = rig_.driver()->checkpoint(change);
        EXPECT_TRUE(rig_.driver()->apply(checkpoint).applied);
        return checkpoint;
    }
    std::filesystem::path current() const { return std::filesystem::canonical(rig_.target() / "current"); }
    std::size_t releases() const {
        return static_cast<std::size_t>(
            std::distance(std::filesystem::directory_iterator(rig_.target() / "releases"), {}));
    }

    Tree tree_ = {{"app", file("version 1\n", 0755)}, {"etc", folder()}, {"etc/conf", file("a=1\n", 0640)}};
    Tree next_ = {{"app", file("version 2\n", 0755)}, {"etc", folder()}, {"etc/conf", file("a=1\n", 0640)}};
    DriverRig rig_;
};

}  // namespace gradus::test
