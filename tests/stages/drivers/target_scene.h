#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plugins/host/host_command.h"
#include "tests/stages/changes/tree_rig.h"

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
    bool isReal() const { return driver != "sandbox"; }
    /// It has a seed, and a target of its own beside the project.
    bool isElsewhere() const { return isReal() && driver != "worktree"; }
};
std::ostream& operator<<(std::ostream& out, const Scene& scene);

void run(const std::string& command);
std::string outputOf(const std::string& command);

/// The value of a variable that a command is given.
std::string told(const HostCommand& command, const std::string& name);

/// An empty project in base/project, base/state for what nobody looks at, and a git that is the same whoever runs it.
void layOut(const std::filesystem::path& base, bool withGit);

/// What a scene has on disk: a project as above, the target in base/target, what that is pushed to in base/upstream.
class TargetScene {
  public:
    TargetScene(Scene scene, std::filesystem::path base);

    const Scene& scene() const { return scene_; }
    std::filesystem::path project() const { return base_ / "project"; }
    std::filesystem::path target() const { return base_ / "target"; }

    /// The trees that a change leads from and to.
    Tree base() const;
    Tree goal() const;
    /// The project with its base, committed where that is wanted, and the repositories of a branch.
    void prepare() const;

    /// What a driver can hold of a tree.
    Tree held(Tree tree) const;
    /// What the stage shows now; empty if nothing.
    Tree shown() const;
    /// What git says of both repositories of a branch, and that they are sound.
    std::string refs() const;
    /// What git says of the project: the branch, the index and the work tree.
    std::string checkedOut() const;

  private:
    Scene scene_;
    std::filesystem::path base_;
};

/// Does what a command stage's commands should: the tree is in base/target, its digest in the state.
HostOutcome deploy(const std::filesystem::path& base, const HostCommand& command);

/// The tree of a branch, checked out by git itself; nothing where there is no such branch.
Tree committedTree(const std::filesystem::path& base, const std::filesystem::path& repository,
                   const std::string& branch);

}  // namespace gradus::test
