#include "tests/stages/drivers/driver_scene.h"

#include <sstream>

namespace gradus::test {

std::vector<Scene> allScenes() {
    return {{"Sandbox", "sandbox"},
            {"Worktree", "worktree"},
            {"WorktreeWithoutGit", "worktree", false},
            {"ReleaseDirectory", "release-directory"},
            {.name = "WorktreeWithCommit", .driver = "worktree", .withCommit = true},
            {.name = "Branch", .driver = "branch"},
            {.name = "BranchWithPush", .driver = "branch", .withPush = true},
            {.name = "Command", .driver = "command"},
            {.name = "CommandWithStatus", .driver = "command", .withGit = false, .withStatus = true},
            {.name = "ReleaseDirectoryWithActivate",
             .driver = "release-directory",
             .withActivate = true,
             .withShared = true}};
}

std::vector<Scene> scenesToBreak() {
    return {{.name = "Worktree", .driver = "worktree"},
            {.name = "WorktreeWithCommit", .driver = "worktree", .withCommit = true, .isSmall = true},
            {.name = "ReleaseDirectory",
             .driver = "release-directory",
             .withGit = false,
             .withActivate = true,
             .withShared = true},
            {.name = "EmptyReleaseDirectory",
             .driver = "release-directory",
             .withGit = false,
             .isEmpty = true,
             .withActivate = true,
             .withShared = true},
            {.name = "Branch", .driver = "branch", .withGit = false, .isSmall = true},
            {.name = "EmptyBranchWithPush",
             .driver = "branch",
             .withGit = false,
             .isEmpty = true,
             .isSmall = true,
             .withPush = true},
            {.name = "Command", .driver = "command", .withGit = false, .isSmall = true},
            {.name = "EmptyCommandWithStatus",
             .driver = "command",
             .withGit = false,
             .isEmpty = true,
             .isSmall = true,
             .withStatus = true}};
}

StageUnderTest::StageUnderTest(const Scene& scene) : rig_(scene.driver, scene.withGit), place_(scene, rig_.base()) {
    place_.prepare();
    if (scene.withCommit) rig_.setNumber("commit", 1);
    if (scene.withShared) rig_.setList("shared", {"uploads"});
    if (scene.withActivate) rig_.setList("activate", {"restart", "it"});
    if (scene.driver == "branch") setBranch();
    if (scene.driver == "command") setCommands();
    lock_ = rig_.lock();
    if (scene.isElsewhere() && !scene.isEmpty) fill();
    rig_.activations.clear();
}

void StageUnderTest::setBranch() {
    rig_.setText("repository", "../target");
    rig_.setText("branch", "main");
    if (!scene().withPush) return;
    rig_.setNumber("push", 1);
    rig_.setText("remote", "upstream");
}

void StageUnderTest::setCommands() {
    for (const char* action : {"apply", "rollback", "health"}) rig_.setList(action, {"deploy", action});
    if (scene().withStatus) rig_.setList("status", {"deploy", "status"});
    rig_.onActivate = [this](const HostCommand& command) { return deploy(rig_.base(), command); };
}

// The first promotion: the project as it is, and nothing changed.
void StageUnderTest::fill() {
    StageChange first;
    first.promotion = 1;
    first.seed = rig_.project();
    driver()->apply(driver()->checkpoint(first));
    driver()->tidy({});
}

std::string StageUnderTest::world() const {
    std::ostringstream text;
    for (const auto& [path, node] : rig_.world()) text << path << ": " << node << "\n";
    if (scene().driver == "branch") text << place_.refs();
    if (scene().withCommit) text << place_.checkedOut();
    return text.str();
}

StageChange StageUnderTest::change() {
    StageChange change = changeTo(rig_, place_.base(), place_.goal());
    if (scene().isElsewhere() && scene().isEmpty) change.seed = rig_.project();
    return change;
}

}  // namespace gradus::test
