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
             .withShared = true}};
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
    lock_ = rig_.lock();
    if (scene.driver == "release-directory" && !scene.isEmpty) fillReleaseDirectory();
    rig_.activations.clear();
}

// The first promotion: the project as it is, and nothing changed.
void StageUnderTest::fillReleaseDirectory() {
    StageChange first;
    first.promotion = 1;
    first.seed = rig_.project();
    driver()->apply(driver()->checkpoint(first));
}

std::string StageUnderTest::world() const {
    std::ostringstream text;
    for (const auto& [path, node] : rig_.world()) text << path << ": " << node << "\n";
    if (!scene_.withCommit) return text.str();
    const std::string git = "git -C '" + rig_.project().native() + "' ";
    text << outputOf(git + "rev-parse HEAD 2>&1") << outputOf(git + "status --porcelain=v1 -uall 2>&1")
         << outputOf(git + "ls-files -s 2>&1");
    return text.str();
}

Tree StageUnderTest::shown() const {
    const fs::path where = scene_.driver == "release-directory" ? rig_.target() / "current" : rig_.project();
    if (!fs::exists(where)) return {};
    Tree tree;
    for (auto& [path, node] : readTree(fs::canonical(where)))
        if (path != ".git" && !path.starts_with(".git/") && path != "uploads") tree[path] = node;
    return tree;
}

StageChange StageUnderTest::change() {
    StageChange change = changeTo(rig_, base(), goal());
    if (scene_.driver == "release-directory" && scene_.isEmpty) change.seed = rig_.project();
    return change;
}

}  // namespace gradus::test
