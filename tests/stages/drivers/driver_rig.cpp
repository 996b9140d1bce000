#include "tests/stages/drivers/driver_rig.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <set>
#include <stdexcept>

namespace gradus::test {

namespace fs = std::filesystem;

namespace {

fs::path freshBase() {
    const fs::path parent = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    std::string name = (parent / "gradus-driver-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + name);
    return name;
}

HostOutcome success() {
    HostOutcome outcome;
    outcome.exitCode = 0;
    return outcome;
}

}  // namespace

DriverRig::DriverRig(std::string driver, bool withGit) : base_(freshBase()) {
    layOut(base_, withGit);
    objects_ = std::make_unique<Objects>(base_ / "state" / "objects", clock_);
    stage_.name = "staging";
    stage_.driver = std::move(driver);
    if (stage_.driver == "release-directory") setText("path", "../target");
    setNumber("keep", 5);
}

DriverRig::~DriverRig() {
    // Without git the marker of a work tree lies where no test directory is.
    std::error_code ignored;
    if (marker_.filename().native().starts_with(".gradus-target-")) fs::remove(marker_, ignored);
    removeTree(base_);
}

void DriverRig::setText(const std::string& key, const std::string& text) {
    Value value;
    value.text = text;
    stage_.settings.set(key, value);
}

void DriverRig::setNumber(const std::string& key, std::int64_t number) {
    Value value;
    value.type = ValueType::kCount;
    value.number = number;
    stage_.settings.set(key, value);
}

void DriverRig::setList(const std::string& key, const std::vector<std::string>& items) {
    Value value;
    value.type = key == "activate" ? ValueType::kCommand : ValueType::kPathList;
    for (const std::string& item : items) {
        value.items.emplace_back();
        value.items.back().text = item;
    }
    stage_.settings.set(key, value);
}

std::unique_ptr<StageDriver> DriverRig::driver(FileOperations& files) {
    const auto run = [this](const HostCommand& command) {
        activations.push_back(command);
        return onActivate ? onActivate(command) : success();
    };
    return makeDriver({stage_,
                       fs::canonical(project()),
                       state(),
                       *objects_,
                       files,
                       random_,
                       clock_,
                       run,
                       {},
                       {"PATH=/usr/bin:/bin", "GRADUS_HOME=/nowhere"}});
}

TargetLock DriverRig::lock(std::int64_t promotion) {
    const TargetIdentity target = driver()->identity();
    marker_ = target.marker;
    return TargetLock::take(target, {"store-1", state(), project(), stage_.name, promotion, false}, real_);
}

Tree DriverRig::world() const {
    // git's own bookkeeping moves with every look; what it says is asked otherwise.
    std::set<std::string> closed = {"state", "project/.git"};
    if (stage_.driver == "branch") closed.insert({"target", "upstream"});
    Tree tree = readTree(base_, closed);
    // What is made anew each time it is switched or locked.
    for (const char* path : {"target/current", "target/.gradus-target"})
        if (tree.contains(path)) tree[path].modified = 0;
    return tree;
}

StageChange changeTo(DriverRig& rig, const Tree& before, const Tree& after) {
    StageChange change;
    change.promotion = 7;
    change.handle = "c12.1";
    change.title = "Fix the login";
    change.trailers = {{"Gradus-Change", "c12.1"}};
    change.changes = changesBetween(before, after, rig.objects());
    return change;
}

}  // namespace gradus::test
