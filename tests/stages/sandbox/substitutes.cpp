// The smallest clone and harvest that the sandboxes' own tests need: one overlay, no home; files by what an overlay of
// the layers would show.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "stages/changes/harvest.h"
#include "stages/sandbox/clone.h"
#include "stages/sandbox/layer_entries.h"

namespace gradus {

namespace {

namespace fs = std::filesystem;

void walk(int directory, const std::string& path, std::map<std::string, bool>& seen) {
    for (const std::string& name : namesIn(directory)) {
        const std::string below = path.empty() ? name : path + "/" + name;
        const struct stat info = statBelow(directory, name);
        seen.emplace(below, !isWhiteout(info));
        if (S_ISDIR(info.st_mode)) walk(ReadDirectory(directory, name).get(), below, seen);
    }
}

}  // namespace

ClonePlan planClone(const CloneRequest& request) {
    ClonePlan plan;
    Overlay overlay;
    overlay.target = request.project;
    overlay.lowers = request.lowers.empty() ? std::vector{request.project} : request.lowers;
    overlay.upper = request.upper;
    overlay.work = request.work;
    plan.workspace.overlays.push_back(overlay);
    plan.workspace.hidden = request.hiddenPaths;
    struct stat info {};
    if (::stat(request.project.c_str(), &info) != 0)
        throw Error(ErrorCode::kNotFound, "cannot clone {}", request.project.native());
    plan.identity = ::geteuid() == 0 ? Identity{info.st_uid, info.st_gid} : Identity{::geteuid(), ::getegid()};
    plan.environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
    plan.directory = request.directory;
    return plan;
}

std::optional<std::string> resolvesDifferently(const ClonePlan&, const CloneRequest&, const std::string&) {
    return std::nullopt;
}

Harvest harvest(const HarvestSource& source, const HarvestOptions& options) {
    std::map<std::string, bool> seen;
    for (const int layer : source.layers) walk(layer, "", seen);
    std::vector<PathChange> changes;
    for (const auto& [path, isThere] : seen) {
        const bool wasThere = fs::exists(fs::symlink_status(source.base / path));
        if (!isThere && !wasThere) continue;
        PathChange change;
        change.path = path;
        if (wasThere) change.before = Entry{};
        if (isThere) change.after = Entry{};
        if (isThere && options.keep != nullptr) change.after->digest = options.keep->put(path);
        changes.push_back(change);
    }
    Harvest result;
    result.changes = ChangeSet(std::move(changes));
    return result;
}

timespec fileSystemNow() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}

}  // namespace gradus
