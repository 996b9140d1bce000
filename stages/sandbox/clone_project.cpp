#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "stages/sandbox/clone_draft.h"
#include "store/model/error.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLocal = "a local ext4, xfs or btrfs file system";

void checkLayers(const CloneRequest& request, const std::vector<fs::path>& lowers) {
    for (const fs::path& lower : lowers)
        if (const auto name = unfitAsLower(lower))
            throw Error(ErrorCode::kInfrastructure, "{} is on {}, which cannot be shown copy-on-write", lower.native(),
                        *name)
                .hint(fmt::format("copy the project to {} and work there", kLocal));
    if (request.upper.has_value() != request.work.has_value())
        throw Error(ErrorCode::kUsage, "the layer for changes and its work directory belong together");
    if (!request.upper) return;
    if (const auto name = unfitAsUpper(*request.upper))
        throw Error(ErrorCode::kInfrastructure, "{} is on {}, which cannot hold the changes of a sandbox",
                    request.upper->native(), *name)
            .hint(fmt::format("set GRADUS_HOME to a directory on {}", kLocal));
    if (!isMachineRoot() && !takesUserAttributes(*request.upper))
        throw Error(ErrorCode::kInfrastructure,
                    "{} is on a file system without user attributes, which an ordinary user's sandbox needs",
                    request.upper->native())
            .hint(fmt::format("set GRADUS_HOME to a directory on {}", kLocal));
}

// Only root can give each mount an overlay of its own: for everybody else the kernel locks them to what they lie in.
void refuseAsOrdinaryUser(const fs::path& project, const HostMount& mount) {
    if (isMachineRoot()) return;
    throw Error(ErrorCode::kInfrastructure,
                "{} is a mount of its own ({}) inside {}: an ordinary user cannot clone what has mounts below it",
                mount.path.native(), mount.type, project.native())
        .hint(fmt::format("unmount it (umount {}), or call as root", mount.path.native()));
}

void showMount(CloneDraft& draft, const HostMount& mount, const fs::path& target) {
    struct stat info {};
    // Covered by another mount, or out of reach: nothing of it is seen outside either.
    if (::lstat(mount.path.c_str(), &info) != 0) {
        draft.view.hide(target);
    } else if (isOfTheKernel(mount.type)) {
        draft.view.hide(target);
        draft.notes.push_back(fmt::format("{} is empty inside: it is a mount of type {}", target.native(), mount.type));
    } else if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) {
        draft.view.hide(target);
        draft.notes.push_back(fmt::format("{} is empty inside: it is neither a file nor a directory", target.native()));
    } else if (S_ISREG(info.st_mode)) {
        draft.view.bind(mount.path, target);
        draft.notes.push_back(fmt::format("{} is shown read-only: it is a mounted file", target.native()));
    } else if (const auto unfit = unfitAsLower(mount.path)) {
        draft.view.bind(mount.path, target);
        draft.notes.push_back(fmt::format("{} is shown read-only: it is on {}", target.native(), *unfit));
    } else if (draft.view.overlay({target, {mount.path}, std::nullopt, std::nullopt, true})) {
        draft.alsoKept.push_back(draft.view.workspace().overlays.size() - 1);
        draft.notes.push_back(fmt::format(
            "{} is a mount of its own: what a command changes there is not part of the changes", target.native()));
    }
}

void showMountsBelow(CloneDraft& draft, const fs::path& lower) {
    const fs::path& project = draft.request.project;
    for (const HostMount& mount : mountsBelow(topmost(draft.mounts), lower)) {
        refuseAsOrdinaryUser(project, mount);
        const fs::path relative = mount.path.lexically_relative(lower);
        showMount(draft, mount, project / relative);
        draft.notOurs.push_back(relative.native());
    }
}

void refuseKernelPlaces(const fs::path& project) {
    for (const char* place : {"/proc", "/sys", "/dev"})
        if (isWithin(project, place))
            throw Error(ErrorCode::kNotAllowed, "{} lies in {}, of which every sandbox has its own", project.native(),
                        place)
                .hint("copy the project to a directory of its own, below your home or /tmp");
}

void noteOwner(CloneDraft& draft) {
    struct stat info {};
    if (isMachineRoot() || ::stat(draft.request.project.c_str(), &info) != 0 || info.st_uid == ::geteuid()) return;
    draft.notes.push_back(fmt::format(
        "the project belongs to uid {}: inside, its files can be read but not changed (\"Value too large\")",
        info.st_uid));
}

void noteOldMemoryLayer(CloneDraft& draft) {
    if (draft.request.upper || draft.request.onDisk || memoryHoldsLayers()) return;
    draft.notes.emplace_back(
        "this kernel cannot mark a replaced directory in memory (Linux 6.6 can): removing a directory of the project "
        "fails with an I/O error; a sandbox that is kept has its layers on disk");
}

}  // namespace

void showProject(CloneDraft& draft) {
    const CloneRequest& request = draft.request;
    const std::vector<fs::path> lowers =
        request.lowers.empty() ? std::vector<fs::path>{request.project} : request.lowers;
    checkLayers(request, lowers);
    draft.view.overlay({request.project, lowers, request.upper, request.work, !request.upper.has_value()});
    for (const fs::path& lower : lowers) showMountsBelow(draft, lower);
    refuseKernelPlaces(request.project);
    noteOwner(draft);
    noteOldMemoryLayer(draft);
}

}  // namespace gradus
