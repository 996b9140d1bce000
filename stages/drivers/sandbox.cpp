#include "stages/drivers/sandbox.h"

#include "stages/changes/work_tree.h"
#include "store/project_identity.h"

namespace gradus {

TargetIdentity SandboxDriver::identity() const {
    const ProjectIdentity project = identify(context_.project);
    return {"sandbox", fmt::format("{}:{}", project.device, project.inode), {}};
}

std::optional<HeldTree> SandboxDriver::held() const {
    const WorkTree tree = readWorkTree({.project = context_.project, .cache = context_.treeCache});
    return HeldTree{context_.project, tree.fingerprint.digest()};
}

Checkpoint SandboxDriver::checkpoint(const StageChange&) { return {"sandbox", {}}; }

ApplyOutcome SandboxDriver::apply(const Checkpoint&) {
    return {.applied = true, .conflicts = {}, .failure = {}, .log = {}, .notes = {}};
}

RollbackOutcome SandboxDriver::rollback(const Checkpoint&) {
    return {.complete = true, .kept = {}, .problems = {}, .log = {}};
}

}  // namespace gradus
