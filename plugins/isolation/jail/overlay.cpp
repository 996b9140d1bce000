#include "plugins/isolation/jail/overlay.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace gradus {

namespace {

constexpr int kDirectory = O_PATH | O_DIRECTORY | O_NOFOLLOW;

Attempt openLayer(const std::string& path, Descriptor& layer) {
    layer = openPath(AT_FDCWD, path, kDirectory);
    if (!layer) return failure("open layer", path);
    return std::nullopt;
}

Attempt makeLayer(int scratch, const std::string& name, Descriptor& layer) {
    if (::mkdirat(scratch, name.c_str(), 0755) != 0) return failure("make layer", name);
    layer = openPath(scratch, name, kDirectory);
    if (!layer) return failure("open layer", name);
    return std::nullopt;
}

bool isPlanned(const JailSetup& setup, const std::string& path) {
    const auto named = [&](const auto& entry) { return entry.target == path; };
    const auto covers = [&](const JailPrivate& entry) {
        return entry.target == path || liesBeneath(path, entry.target);
    };
    return std::any_of(setup.overlays.begin(), setup.overlays.end(), named) ||
           std::any_of(setup.binds.begin(), setup.binds.end(), named) ||
           std::any_of(setup.privates.begin(), setup.privates.end(), covers) ||
           std::any_of(setup.hidden.begin(), setup.hidden.end(),
                       [&](const std::string& hidden) { return hidden == path || liesBeneath(path, hidden); });
}

bool isMadeByTheJail(const std::string& path) {
    for (const char* own : {"/proc", "/sys", "/dev"})
        if (path == own || liesBeneath(path, own)) return true;
    return false;
}

}  // namespace

Attempt openLayers(const JailOverlay& overlay, OverlayLayers& layers) {
    for (const std::string& lower : overlay.lowers)
        if (auto failed = openLayer(lower, layers.lowers.emplace_back())) return failed;
    if (overlay.upper.empty()) return std::nullopt;
    if (auto failed = openLayer(overlay.upper, layers.upper)) return failed;
    return openLayer(overlay.work, layers.work);
}

Attempt makeScratchLayers(int scratch, std::size_t index, OverlayLayers& layers) {
    const std::string number = std::to_string(index);
    if (auto failed = makeLayer(scratch, "upper" + number, layers.upper)) return failed;
    if (auto failed = makeLayer(scratch, "work" + number, layers.work)) return failed;
    struct stat lower {};
    if (::fstat(layers.lowers.front().get(), &lower) != 0) return failure("look at layer", number);
    const int upper = layers.upper.get();
    // The upper's own owner and mode are what the merged directory shows. An owner that this user namespace cannot
    // name stays ours; only the top directory's look is affected.
    if (::fchownat(upper, "", lower.st_uid, lower.st_gid, AT_EMPTY_PATH) != 0 && errno != EINVAL && errno != EPERM)
        return failure("own layer", number);
    if (::chmod(descriptorPath(upper).c_str(), lower.st_mode & 0777) != 0) return failure("mode of layer", number);
    return std::nullopt;
}

namespace {

std::vector<MountOption> optionsFor(const std::vector<Descriptor>& lowers, bool rootless) {
    std::vector<MountOption> options;
    // In a user namespace the marks of deleted and replaced directories must be user.* attributes.
    if (rootless) options.push_back({"userxattr", ""});
    // Layer paths are short names of open descriptors: no path is looked up twice and none needs escaping. One
    // "lowerdir" with colons works on every kernel; an option holds 255 bytes, so many layers go one by one.
    std::string joined;
    for (const Descriptor& lower : lowers) joined += (joined.empty() ? "" : ":") + descriptorPath(lower.get());
    if (joined.size() < 255) {
        options.push_back({"lowerdir", joined});
    } else {
        for (const Descriptor& lower : lowers) options.push_back({"lowerdir+", descriptorPath(lower.get())});
    }
    // Forged attributes in an upper a command could write must never redirect a lookup elsewhere.
    if (!rootless) {
        options.push_back({"redirect_dir", "nofollow"});
        options.push_back({"metacopy", "off"});
    }
    options.push_back({"index", "off"});
    return options;
}

}  // namespace

Attempt mountOverlay(const JailOverlay& overlay, const OverlayLayers& layers, bool rootless, Descriptor& mounted) {
    std::vector<MountOption> options = optionsFor(layers.lowers, rootless);
    options.push_back({"upperdir", descriptorPath(layers.upper.get())});
    options.push_back({"workdir", descriptorPath(layers.work.get())});
    if (overlay.disposable) options.push_back({"volatile", ""});
    Attempt failed = makeFileSystem("overlay", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, mounted);
    if (failed) failed->detail = overlay.target + ": " + failed->detail;
    return failed;
}

Attempt mountLowers(const std::vector<Descriptor>& lowers, bool rootless, Descriptor& mounted) {
    constexpr unsigned kAttributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    return makeFileSystem("overlay", optionsFor(lowers, rootless), kAttributes, mounted);
}

Attempt refuseNestedMounts(const JailSetup& setup, const std::vector<MountPoint>& mounts) {
    for (const JailOverlay& overlay : setup.overlays) {
        // The program sees what its user sees, mounts and all.
        if (overlay.target == "/" && !setup.fuseProgram.empty()) continue;
        for (const std::string& lower : overlay.lowers)
            for (const MountPoint& mount : mounts) {
                if (!liesBeneath(mount.path, lower)) continue;
                if (overlay.target == "/" && isMadeByTheJail(mount.path)) continue;
                const std::string inside =
                    overlay.target == "/" ? mount.path : overlay.target + mount.path.substr(lower.size());
                if (isPlanned(setup, inside)) continue;
                return failure("overlay",
                               mount.path + " is a mount of its own inside " + lower +
                                   "; give it its own overlay, bind it read-only, or hide it",
                               EXDEV);
            }
    }
    return std::nullopt;
}

}  // namespace gradus
