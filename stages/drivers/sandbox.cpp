#include "stages/drivers/sandbox.h"

#include "stages/changes/work_tree.h"

namespace gradus {

TargetIdentity SandboxDriver::identity() const { return TargetIdentity::at("sandbox", context_.project, "", {}); }

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
