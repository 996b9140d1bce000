#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/stages/drivers/driver_rig.h"

namespace gradus::test {

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
    void lockAgain() {
        lock_.reset();
        lock_ = rig_.lock();
    }
    bool isReal() const { return scene().isReal(); }
    /// What a person sees: all files and, where there is one, what git says of them.
    std::string world() const;
    /// What the stage shows now; empty if nothing.
    Tree shown() const { return place_.shown(); }
    Tree before() const { return scene().isEmpty ? Tree() : place_.held(place_.base()); }
    Tree after() const { return place_.held(isReal() ? place_.goal() : place_.base()); }

    StageChange change();
    Checkpoint checkpoint() { return driver()->checkpoint(change()); }
    Checkpoint checkpoint(FileOperations& files) { return rig_.driver(files)->checkpoint(change()); }

  private:
    const Scene& scene() const { return place_.scene(); }
    void setBranch();
    void setCommands();
    void fill();

    DriverRig rig_;
    TargetScene place_;
    std::optional<TargetLock> lock_;
};

}  // namespace gradus::test
