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

  private:
    EngineParts parts(const Surroundings& around);
    std::unique_ptr<StageDriver> driver(const Stage& stage, std::stop_token cancel);
    Seed seed(const Change& change);

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
