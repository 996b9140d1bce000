#include "tests/stages/drivers/driver_rig.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
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

void run(const std::string& command) {
    if (::system((command + " >/dev/null 2>&1").c_str()) != 0) throw std::runtime_error("failed: " + command);
}

std::string outputOf(const std::string& command) {
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string text;
    for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
    if (pipe != nullptr) ::pclose(pipe);
    return text;
}

DriverRig::DriverRig(std::string driver, bool withGit) : base_(freshBase()) {
    // Whoever runs the tests, git is the same for all.
    ::setenv("HOME", base_.c_str(), 1);
    ::setenv("XDG_CONFIG_HOME", (base_ / "config").c_str(), 1);
    ::setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    fs::create_directories(project());
    fs::create_directories(base_ / "state");
    objects_ = std::make_unique<Objects>(base_ / "state" / "objects", clock_);
    stage_.name = "staging";
    stage_.driver = std::move(driver);
    if (stage_.driver == "release-directory") setText("path", "../target");
    setNumber("keep", 5);
    if (withGit) run("git init -q -b main '" + project().native() + "'");
}

DriverRig::~DriverRig() {
    // Without git the marker of a work tree lies where no test directory is.
    std::error_code ignored;
    if (marker_.filename().native().starts_with(".gradus-target-")) fs::remove(marker_, ignored);
    ::system(("chmod -R u+rwX '" + base_.native() + "' 2>/dev/null; rm -rf '" + base_.native() + "'").c_str());
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
    Tree tree;
    for (const auto& [path, node] : readTree(base_)) {
        const bool isOurs = path == "state" || path.starts_with("state/");
        // git's own bookkeeping moves with every look; what it says is asked otherwise.
        const bool isBranch =
            stage_.driver == "branch" && (path.starts_with("target/") || path.starts_with("upstream/"));
        const bool isGit = path.starts_with("project/.git/") || isBranch;
        if (isOurs || isGit) continue;
        tree[path] = node;
        // What is made anew each time it is switched or locked.
        if (path == "target/current" || path == "target/.gradus-target") tree[path].modified = 0;
    }
    return tree;
}

std::string told(const HostCommand& command, const std::string& name) {
    for (const std::string& entry : command.environment)
        if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    return "";
}

HostOutcome deploy(const DriverRig& rig, const HostCommand& command) {
    const std::string target = rig.target().native();
    const std::string digest = (rig.base() / "state" / "deployed").native();
    HostOutcome outcome = success();
    const std::string action = told(command, "GRADUS_ACTION");
    if (action == "status") outcome.out.head = outputOf("cat '" + digest + "' 2>/dev/null");
    if (action != "apply" && action != "rollback") return outcome;
    run("if test -e '" + target + "'; then chmod -R u+rwX '" + target + "'; fi; rm -rf '" + target + "' '" + digest +
        "'");
    const std::string tree = told(command, "GRADUS_TREE");
    if (tree.empty()) return outcome;
    run("cp -a '" + tree + "' '" + target + "'");
    std::ofstream(digest) << told(command, "GRADUS_TREE_DIGEST") << "\n";
    return outcome;
}

Tree committedTree(const DriverRig& rig, const fs::path& repository, const std::string& branch) {
    const fs::path directory = rig.base() / "state" / "checked-out";
    fs::remove_all(directory);
    fs::create_directories(directory);
    const std::string git = "git -c tar.umask=0022 -C '" + repository.native() + "' ";
    if (outputOf(git + "rev-parse -q --verify 'refs/heads/" + branch + "'").empty()) return {};
    run(git + "archive 'refs/heads/" + branch + "' | tar -x -p -C '" + directory.native() + "'");
    return readTree(directory);
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
