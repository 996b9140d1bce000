#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "stages/drivers/driver.h"
#include "stages/drivers/target_lock.h"
#include "tests/stages/drivers/target_scene.h"
#include "tests/support/scratch.h"

namespace gradus::test {

inline void write(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// A project, a target beside it and everything that a driver needs, gone with the test.
class DriverRig {
  public:
    explicit DriverRig(std::string driver, bool withGit = true);
    ~DriverRig();

    std::filesystem::path base() const { return base_; }
    std::filesystem::path project() const { return base_ / "project"; }
    std::filesystem::path target() const { return base_ / "target"; }
    std::filesystem::path state() const { return base_ / "state" / "target"; }
    Objects& objects() { return *objects_; }
    Stage& stage() { return stage_; }
    FakeClock& clock() { return clock_; }

    void setText(const std::string& key, const std::string& text);
    void setNumber(const std::string& key, std::int64_t number);
    void setList(const std::string& key, const std::vector<std::string>& items);

    /// As a fresh process would make it.
    std::unique_ptr<StageDriver> driver(FileOperations& files);
    std::unique_ptr<StageDriver> driver() { return driver(real_); }
    TargetLock lock(std::int64_t promotion = 1);

    /// Every run of `activate` is answered by this; by default it goes well.
    std::function<HostOutcome(const HostCommand&)> onActivate;
    std::vector<HostCommand> activations;

    /// Everything but the drivers' and the store's own state: what a person could see.
    Tree world() const;
    RealFileOperations& real() { return real_; }

  private:
    std::filesystem::path base_;
    FakeClock clock_;
    SystemRandom random_;
    RealFileOperations real_;
    std::unique_ptr<Objects> objects_;
    Stage stage_;
    std::filesystem::path marker_;
};

/// A change from what the driver holds (or the seed) to `after`.
StageChange changeTo(DriverRig& rig, const Tree& before, const Tree& after);

}  // namespace gradus::test
