#include "tests/stages/drivers/driver_scene.h"

#include <sstream>

namespace gradus::test {

namespace fs = std::filesystem;

std::ostream& operator<<(std::ostream& out, const Scene& scene) { return out << scene.name; }

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

Tree StageUnderTest::base() const {
    if (!scene_.isSmall) return sampleBefore();
    return {{"edited", file("old\n")}, {"goes", file("away\n")}, {"stays", file("as it is\n", 0755)}};
}

Tree StageUnderTest::goal() const {
    if (!scene_.isSmall) return sampleAfter();
    return {{"edited", file("new\n")}, {"comes", file("in\n", 0755)}, {"stays", file("as it is\n", 0755)}};
}

StageUnderTest::StageUnderTest(const Scene& scene) : scene_(scene), rig_(scene.driver, scene.withGit) {
    build(rig_.project(), base());
    if (scene.withCommit) {
        rig_.setNumber("commit", 1);
        run("cd '" + rig_.project().native() +
            "' && git add -A && git -c user.name=a -c user.email=a@b commit -q -m first");
    }
    if (scene.withShared) rig_.setList("shared", {"uploads"});
    if (scene.withActivate) rig_.setList("activate", {"restart", "it"});
    if (scene.driver == "branch") prepareBranch();
    if (scene.driver == "command") prepareCommands();
    lock_ = rig_.lock();
    if (isElsewhere() && !scene.isEmpty) fill();
    rig_.activations.clear();
}

void StageUnderTest::prepareBranch() {
    rig_.setText("repository", "../target");
    rig_.setText("branch", "main");
    run("git init -q --bare '" + rig_.target().native() + "'");
    if (!scene_.withPush) return;
    rig_.setNumber("push", 1);
    rig_.setText("remote", "upstream");
    const std::string upstream = (rig_.base() / "upstream").native();
    run("git init -q --bare '" + upstream + "' && git -C '" + rig_.target().native() + "' remote add upstream '" +
        upstream + "'");
}

void StageUnderTest::prepareCommands() {
    for (const char* action : {"apply", "rollback", "health"}) rig_.setList(action, {"deploy", action});
    if (scene_.withStatus) rig_.setList("status", {"deploy", "status"});
    rig_.onActivate = [this](const HostCommand& command) { return deploy(rig_, command); };
}

Tree StageUnderTest::held(Tree tree) const {
    if (scene_.driver != "branch") return tree;
    std::erase_if(tree, [](const auto& item) { return item.second.type == EntryType::kDirectory; });
    for (auto& [path, node] : tree)
        if (node.type == EntryType::kFile) node.mode = (node.mode & 0100) != 0 ? 0755 : 0644;
    return tree;
}

/// What both repositories have, and that they are sound.
std::string StageUnderTest::refs() const {
    std::string text;
    for (const char* name : {"target", "upstream"}) {
        const std::string git = "git -C '" + (rig_.base() / name).native() + "' ";
        text += outputOf(git + "for-each-ref 2>&1") + outputOf(git + "fsck --connectivity-only --no-dangling 2>&1");
    }
    return text;
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
    if (scene_.driver == "branch") text << refs();
    if (!scene_.withCommit) return text.str();
    const std::string git = "git -C '" + rig_.project().native() + "' ";
    text << outputOf(git + "rev-parse HEAD 2>&1") << outputOf(git + "status --porcelain=v1 -uall 2>&1")
         << outputOf(git + "ls-files -s 2>&1");
    return text.str();
}

Tree StageUnderTest::shown() const {
    if (scene_.driver == "branch") return held(committedTree(rig_, rig_.target(), "main"));
    const fs::path elsewhere = scene_.driver == "command" ? rig_.target() : rig_.target() / "current";
    const fs::path where = isElsewhere() ? elsewhere : rig_.project();
    if (!fs::exists(where)) return {};
    Tree tree;
    for (auto& [path, node] : readTree(fs::canonical(where)))
        if (path != ".git" && !path.starts_with(".git/") && path != "uploads") tree[path] = node;
    return tree;
}

StageChange StageUnderTest::change() {
    StageChange change = changeTo(rig_, base(), goal());
    if (isElsewhere() && scene_.isEmpty) change.seed = rig_.project();
    return change;
}

}  // namespace gradus::test
