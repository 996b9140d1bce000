#include "tests/stages/drivers/target_scene.h"

#include <stdlib.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>

namespace gradus::test {

namespace fs = std::filesystem;

std::ostream& operator<<(std::ostream& out, const Scene& scene) { return out << scene.name; }

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

std::string told(const HostCommand& command, const std::string& name) {
    for (const std::string& entry : command.environment)
        if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    return "";
}

/// A repository without a commit: made once, and copied by everyone after.
void makeRepository(const fs::path& at, const std::string& options) {
    static std::map<std::string, ScratchDirectory> made;
    const auto [place, isNew] = made.try_emplace(options);
    const fs::path model = place->second / "repository";
    if (isNew) run("git init -q -b main --template= " + options + " '" + model.native() + "'");
    fs::copy(model, at, fs::copy_options::recursive);
    // What the template of git's installation has besides samples.
    const fs::path git = fs::exists(at / ".git") ? at / ".git" : at;
    for (const char* directory : {"hooks", "info"}) fs::create_directory(git / directory);
}

/// All that lies in `project`, committed: git is run for the first of each kind, and everyone after gets a copy of its
/// .git.
void commitAll(const fs::path& project, bool isSmall) {
    static std::map<bool, ScratchDirectory> made;
    const auto [place, isNew] = made.try_emplace(isSmall);
    const fs::path model = place->second / "git";
    if (isNew) {
        run("cd '" + project.native() +
            "' && git add -A && git -c user.name=a -c user.email=a@b -c maintenance.auto=false commit -q -m first");
        fs::copy(project / ".git", model, fs::copy_options::recursive);
    } else {
        fs::remove_all(project / ".git");
        fs::copy(model, project / ".git", fs::copy_options::recursive);
    }
}

void layOut(const fs::path& base, bool withGit) {
    ::setenv("HOME", base.c_str(), 1);
    ::setenv("XDG_CONFIG_HOME", (base / "config").c_str(), 1);
    ::setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
    fs::create_directories(base / "project");
    fs::create_directories(base / "state");
    if (withGit) makeRepository(base / "project", "");
}

TargetScene::TargetScene(Scene scene, fs::path base) : scene_(std::move(scene)), base_(std::move(base)) {}

Tree TargetScene::base() const {
    if (!scene_.isSmall) return sampleBefore();
    return {{"edited", file("old\n")}, {"goes", file("away\n")}, {"stays", file("as it is\n", 0755)}};
}

Tree TargetScene::goal() const {
    if (!scene_.isSmall) return sampleAfter();
    return {{"edited", file("new\n")}, {"comes", file("in\n", 0755)}, {"stays", file("as it is\n", 0755)}};
}

void TargetScene::prepare() const {
    build(project(), base());
    if (scene_.withCommit) commitAll(project(), scene_.isSmall);
    if (scene_.driver != "branch") return;
    makeRepository(target(), "--bare");
    if (!scene_.withPush) return;
    const std::string upstream = (base_ / "upstream").native();
    makeRepository(upstream, "--bare");
    run("git -C '" + target().native() + "' remote add upstream '" + upstream + "'");
}

Tree TargetScene::held(Tree tree) const {
    if (scene_.driver != "branch") return tree;
    std::erase_if(tree, [](const auto& item) { return item.second.type == EntryType::kDirectory; });
    for (auto& [path, node] : tree)
        if (node.type == EntryType::kFile) node.mode = (node.mode & 0100) != 0 ? 0755 : 0644;
    return tree;
}

Tree TargetScene::shown() const {
    if (scene_.driver == "branch") return held(committedTree(base_, target(), "main"));
    const fs::path elsewhere = scene_.driver == "command" ? target() : target() / "current";
    const fs::path where = scene_.isElsewhere() ? elsewhere : project();
    if (!fs::exists(where)) return {};
    Tree tree;
    for (auto& [path, node] : readTree(fs::canonical(where)))
        if (path != ".git" && !path.starts_with(".git/") && path != "uploads") tree[path] = node;
    return tree;
}

std::string TargetScene::refs() const {
    std::string text;
    for (const char* name : {"target", "upstream"}) {
        const std::string git = "git -C '" + (base_ / name).native() + "' ";
        text += outputOf(git + "for-each-ref 2>&1") + outputOf(git + "fsck --connectivity-only --no-dangling 2>&1");
    }
    return text;
}

std::string TargetScene::checkedOut() const {
    const std::string git = "git -C '" + project().native() + "' ";
    return outputOf(git + "rev-parse HEAD 2>&1") + outputOf(git + "status --porcelain=v1 -uall 2>&1") +
           outputOf(git + "ls-files -s 2>&1");
}

HostOutcome deploy(const fs::path& base, const HostCommand& command) {
    const std::string target = (base / "target").native();
    const std::string digest = (base / "state" / "deployed").native();
    HostOutcome outcome;
    outcome.exitCode = 0;
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

Tree committedTree(const fs::path& base, const fs::path& repository, const std::string& branch) {
    const fs::path directory = base / "state" / "checked-out";
    fs::remove_all(directory);
    fs::create_directories(directory);
    const std::string git = "git -c tar.umask=0022 -C '" + repository.native() + "' ";
    if (outputOf(git + "rev-parse -q --verify 'refs/heads/" + branch + "'").empty()) return {};
    run(git + "archive 'refs/heads/" + branch + "' | tar -x -p -C '" + directory.native() + "'");
    return readTree(directory);
}

}  // namespace gradus::test
