#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/engine/check_runner.h"
#include "pipeline/engine/engine.h"
#include "stages/changes/file_operations.h"
#include "stages/sandbox/sandboxes.h"
#include "store/objects.h"

namespace gradus {

/// Everything around the engine of one project: what it is made of, in the order in which it goes again.
class EngineRoom {
  public:
    struct Surroundings {
        Store& store;
        StateDirectory state;
        const Clock& clock;
        Random& random;
        Sandboxes& sandboxes;
        const CheckKinds& kinds;
        Actor actor;
        Environment environment;
    };
    EngineRoom(EngineProject project, const Surroundings& around);

    Engine& engine() { return *engine_; }
    Objects& objects() { return objects_; }
    CheckRunner& checks() { return checks_; }
    FileOperations& files() { return files_; }

    std::unique_ptr<StageDriver> driver(const Stage& stage, std::stop_token cancel);
    /// What an empty stage begins as.
    Seed seed(const Change& change);
    /// What the driver of the stage keeps for itself.
    std::filesystem::path targetState(const Stage& stage) const;

    /// A target that is only rehearsed on: another place, and commands that are told instead of run.
    struct Elsewhere {
        const Stage& stage;  ///< outlives the driver
        std::filesystem::path project;
        std::filesystem::path state;
        std::function<HostOutcome(const HostCommand&)> run;
    };
    std::unique_ptr<StageDriver> driverElsewhere(const Elsewhere& place);

  private:
    EngineParts parts(const Surroundings& around);

    EngineProject project_;
    StateDirectory state_;
    const Clock& clock_;
    Random& random_;
    Store& store_;
    Objects objects_;
    RealFileOperations files_;
    std::vector<std::string> hostEnvironment_;
    CheckRunner checks_;
    std::unique_ptr<Engine> engine_;
};

}  // namespace gradus
