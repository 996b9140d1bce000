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
    bool isSmall = false;     ///< three files instead of every type and transition
    bool withPush = false;    ///< and the branch is pushed to a second repository
    bool withStatus = false;  ///< and the commands can tell what is there

    /// Fewer calls than this, and nothing was tested. A ref is moved in one.
    std::size_t fewestCalls() const { return driver == "branch" ? 1 : 4; }
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
    void lockAgain() {
        lock_.reset();
        lock_ = rig_.lock();
    }
    bool isReal() const { return scene_.driver != "sandbox"; }
    /// What a person sees: all files and, where there is one, what git says of them.
    std::string world() const;
    /// What the stage shows now; empty if nothing.
    Tree shown() const;
    Tree before() const { return scene_.isEmpty ? Tree() : held(base()); }
    Tree after() const { return held(isReal() ? goal() : base()); }

    StageChange change();
    Checkpoint checkpoint() { return driver()->checkpoint(change()); }
    Checkpoint checkpoint(FileOperations& files) { return rig_.driver(files)->checkpoint(change()); }

  private:
    /// It has a seed, and a target of its own beside the project.
    bool isElsewhere() const { return isReal() && scene_.driver != "worktree"; }
    void prepareBranch();
    void prepareCommands();
    void fill();
    /// What a driver can hold of a tree.
    Tree held(Tree tree) const;
    std::string refs() const;
    Tree base() const;
    Tree goal() const;

    Scene scene_;
    DriverRig rig_;
    std::optional<TargetLock> lock_;
};

}  // namespace gradus::test
