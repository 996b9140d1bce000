#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/stages/drivers/driver_rig.h"

namespace gradus::test {

/// A driver and what it finds.
struct Scene {
    std::string name;
    std::string driver;
    bool withGit = true;
    bool isEmpty = false;  ///< the stage holds nothing yet
    bool withActivate = false;
    bool withCommit = false;  ///< and what is there is committed
    bool withShared = false;
    bool isSmall = false;  ///< three files instead of every type and transition
};
std::ostream& operator<<(std::ostream& out, const Scene& scene);

/// Every driver, each with a stage that holds something.
std::vector<Scene> allScenes();
/// Those that are killed and failed at every call.
std::vector<Scene> scenesToBreak();

/// A stage that holds sampleBefore(), or nothing yet, and a change to sampleAfter(). Its target is locked.
class StageUnderTest {
  public:
    explicit StageUnderTest(const Scene& scene);

    DriverRig& rig() { return rig_; }
    std::unique_ptr<StageDriver> driver() { return rig_.driver(); }
    void lockAgain() { lock_ = rig_.lock(); }
    bool isReal() const { return scene_.driver != "sandbox"; }
    /// What a person sees: all files and, where there is one, what git says of them.
    std::string world() const;
    /// What the stage shows now; empty if nothing.
    Tree shown() const;
    Tree before() const { return scene_.isEmpty ? Tree() : base(); }
    Tree after() const { return isReal() ? goal() : base(); }

    StageChange change();
    Checkpoint checkpoint() { return driver()->checkpoint(change()); }
    Checkpoint checkpoint(FileOperations& files) { return rig_.driver(files)->checkpoint(change()); }

  private:
    void fillReleaseDirectory();
    Tree base() const;
    Tree goal() const;

    Scene scene_;
    DriverRig rig_;
    std::optional<TargetLock> lock_;
};

}  // namespace gradus::test
