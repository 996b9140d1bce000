#include "plugins/isolation/jail/skeleton.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "plugins/isolation/jail/host_mounts.h"
#include "plugins/isolation/jail/image.h"
#include "plugins/isolation/jail/overlay.h"
#include "plugins/isolation/jail/places.h"

namespace gradus {

namespace {

Attempt enter(const Descriptor& mountNamespace) {
    if (::setns(mountNamespace.get(), CLONE_NEWNS) != 0) return failure("namespaces", "enter");
    return std::nullopt;
}

constexpr const char* kSharedMemory = "/dev/shm";
/// Where fuse-overlayfs shows the copy of the system, in the staging namespace only.
constexpr const char* kSystem = "/system";

/// One thing to put at one place. Sorted by target, a directory comes before what lies in it, so that the narrower
/// rule always covers the broader one.
struct Placement {
    enum class Kind { kHide, kMount };
    std::string target;
    Kind kind;
    Descriptor mounted;  ///< detached, made in the staging namespace; none where an optional source is missing
    bool isDirectory = true;
    bool operator<(const Placement& other) const { return target < other.target; }
};

/// "/etc/x" below "/etc" is "/x", and below "/" it is itself.
std::string below(const std::string& directory, const std::string& path) {
    return directory == "/" ? path : path.substr(directory.size());
}

class Builder {
  public:
    Builder(const JailSetup& setup, bool rootless, bool memoryIsWatched, const HostView& view, Skeleton& skeleton)
        : setup_(setup), rootless_(rootless), memoryIsWatched_(memoryIsWatched), view_(view), skeleton_(skeleton) {}

    Attempt build(Descriptor room) {
        if (auto failed = refuseNestedMounts(setup_, view_.mounts)) return failed;
        if (auto failed = makeMounts()) return failed;
        if (auto failed = room ? enter(room) : enterRoom(view_, rootless_, room)) return failed;
        root_ = openPath(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
        for (Placement& placement : placements_)
            if (auto failed = place(placement)) return failed;
        return seal();
    }

  private:
    // Everything that needs the host's paths, while they are in view.
    Attempt makeMounts() {
        if (auto failed = mountImages()) return failed;
        if (auto failed = openScratch()) return failed;
        for (const std::string& path : setup_.hidden)
            if (!isHiddenAlready(path)) placements_.push_back({path, Placement::Kind::kHide, {}, true});
        for (const JailBind& bind : setup_.binds)
            if (auto failed = makeBind(bind)) return failed;
        for (std::size_t i = 0; i < setup_.privates.size(); ++i)
            if (auto failed = makePrivate(i)) return failed;
        for (std::size_t i = 0; i < setup_.files.size(); ++i)
            if (auto failed = makeFile(i)) return failed;
        for (std::size_t i = 0; i < setup_.overlays.size(); ++i)
            if (auto failed = makeOverlay(i)) return failed;
        std::stable_sort(placements_.begin(), placements_.end());
        return std::nullopt;
    }

    // Seen in the staging namespace alone, where layers are opened.
    Attempt mountImages() {
        for (const JailImage& image : setup_.images) {
            const Descriptor place = openPath(AT_FDCWD, image.at, O_PATH | O_DIRECTORY | O_NOFOLLOW);
            if (!place) return failure("image", image.at);
            Descriptor mounted;
            if (auto failed = mountImage(image.file, image.readOnly, mounted)) return failed;
            if (auto failed = attachMount(mounted.get(), place.get(), image.at)) return failed;
            skeleton_.images.push_back(image.at);
        }
        return std::nullopt;
    }

    // The stem's cover is read-only for good, and lies below whatever a plan puts over it: in both cases it is made
    // again. What the host did not have when the stem was made needs no cover, unless a plan brings it along; a host
    // that came to have it has another stem (jail_pool.h).
    bool isHiddenAlready(const std::string& path) const {
        const auto has = [&](const std::vector<std::string>& paths) {
            return std::find(paths.begin(), paths.end(), path) != paths.end();
        };
        if (!has(view_.hidden) && !has(view_.absent)) return false;
        const auto related = [&](const auto& entry) {
            return liesBeneath(entry.target, path) || liesBeneath(path, entry.target);
        };
        return std::none_of(setup_.overlays.begin(), setup_.overlays.end(), related) &&
               std::none_of(setup_.binds.begin(), setup_.binds.end(), related) &&
               std::none_of(setup_.privates.begin(), setup_.privates.end(), related) &&
               std::none_of(setup_.files.begin(), setup_.files.end(), related);
    }

    // Two pages per file at least: a bounded number of bytes must not be spent as an unbounded number of names.
    Attempt openScratch() {
        std::vector<MountOption> options = {{"mode", "0755"}};
        if (const auto& disk = setup_.limits[LimitName::kDisk]) {
            const std::uint64_t bytes = std::max<std::uint64_t>(disk->value, 4096);
            options.push_back({"size", std::to_string(bytes)});
            options.push_back({"nr_inodes", std::to_string(std::max<std::uint64_t>(bytes / 2048, 256))});
        }
        // Where nothing else counts its pages, it is no way around the memory limit.
        const auto& memory = setup_.limits[LimitName::kMemory];
        if (memoryIsWatched_ && memory && !setup_.limits[LimitName::kDisk])
            options.push_back({"size", std::to_string(std::max<std::uint64_t>(memory->value, 65536))});
        if (auto failed = makeFileSystem("tmpfs", options, kWritableMount, skeleton_.scratch)) return failed;
        const Descriptor place = openPath(view_.base.get(), "scratch", O_PATH | O_DIRECTORY);
        if (auto failed = attachMount(skeleton_.scratch.get(), place.get(), "scratch")) return failed;
        if (auto failed = makeDirectory("shm", 01777, kSharedMemory)) return failed;
        return std::nullopt;
    }

    // A directory of the scratch space as a mount of its own.
    Attempt makeDirectory(const std::string& name, mode_t mode, const std::string& target) {
        const int scratch = skeleton_.scratch.get();
        if (::mkdirat(scratch, name.c_str(), 0755) != 0 ||
            ::fchownat(scratch, name.c_str(), setup_.uid, setup_.gid, 0) != 0 ||
            ::fchmodat(scratch, name.c_str(), mode, 0) != 0)
            return failure("private directory", target);
        Placement& placement = placements_.emplace_back(Placement{target, Placement::Kind::kMount, {}, true});
        return cloneTree(scratch, name, false, kWritableMount, placement.mounted);
    }

    Attempt makePrivate(std::size_t index) {
        const JailPrivate& directory = setup_.privates[index];
        skeleton_.writable.push_back(directory.target);
        return makeDirectory("private" + std::to_string(index), directory.mode, directory.target);
    }

    // In a private directory it is written into the directory itself: a program may replace it as any other. Anywhere
    // else it is a mount of its own, so that it is no change of an overlay's.
    Attempt makeFile(std::size_t index) {
        const JailFile& file = setup_.files[index];
        if (const auto directory = privateAround(file.target))
            return writeInto("private" + std::to_string(*directory),
                             file.target.substr(setup_.privates[*directory].target.size()), file);
        const std::string name = "file" + std::to_string(index);
        if (auto failed = writeInto(".", "/" + name, file)) return failed;
        Placement& placement = placements_.emplace_back(Placement{file.target, Placement::Kind::kMount, {}, false});
        return cloneTree(skeleton_.scratch.get(), name, false, kWritableMount, placement.mounted);
    }

    /// The private directory that shows at `target`; nothing if something narrower covers that place.
    std::optional<std::size_t> privateAround(const std::string& target) const {
        std::size_t longest = 0;
        const auto covers = [&](const std::string& place) {
            if (!liesBeneath(target, place) || place.size() <= longest) return false;
            longest = place.size();
            return true;
        };
        std::optional<std::size_t> found;
        for (std::size_t i = 0; i < setup_.privates.size(); ++i)
            if (covers(setup_.privates[i].target)) found = i;
        bool narrower = false;
        for (const JailOverlay& overlay : setup_.overlays) narrower |= covers(overlay.target);
        for (const JailBind& bind : setup_.binds) narrower |= covers(bind.target);
        for (const std::string& path : setup_.hidden) narrower |= covers(path);
        return narrower ? std::nullopt : found;
    }

    /// `inside` is a path below the scratch space's `directory`; what is missing on the way is the command's as well.
    Attempt writeInto(const std::string& directory, const std::string& inside, const JailFile& file) {
        const Descriptor top = openPath(skeleton_.scratch.get(), directory, O_PATH | O_DIRECTORY);
        const std::size_t slash = inside.rfind('/');
        std::vector<std::string> made;
        Descriptor parent;
        if (auto failed = makeMountPoint(top.get(), inside.substr(0, slash), true, made, parent)) return failed;
        for (const std::string& path : made)
            if (::fchownat(top.get(), path.c_str() + 1, setup_.uid, setup_.gid, AT_SYMLINK_NOFOLLOW) != 0)
                return failure("private file", file.target);
        const Descriptor written(::openat(parent.get(), inside.c_str() + slash + 1,
                                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!written) return failure("private file", file.target);
        const ssize_t put = ::write(written.get(), file.content.data(), file.content.size());
        if (put >= 0 && put != static_cast<ssize_t>(file.content.size()))
            return failure("private file", file.target, ENOSPC);
        if (put < 0 || ::fchown(written.get(), setup_.uid, setup_.gid) != 0 || ::fchmod(written.get(), file.mode) != 0)
            return failure("private file", file.target);
        return std::nullopt;
    }

    Attempt makeBind(const JailBind& bind) {
        const Descriptor source = openPath(AT_FDCWD, bind.source, O_PATH | O_NOFOLLOW);
        if (!source) return bind.optional && errno == ENOENT ? Attempt() : failure("bind", bind.source);
        struct stat info {};
        if (::fstat(source.get(), &info) != 0) return failure("bind", bind.source);
        const bool nested = std::any_of(view_.mounts.begin(), view_.mounts.end(),
                                        [&](const MountPoint& mount) { return liesBeneath(mount.path, bind.source); });
        Placement& placement =
            placements_.emplace_back(Placement{bind.target, Placement::Kind::kMount, {}, S_ISDIR(info.st_mode)});
        // As the host's own directories: a cover over a name in it stays, and its sockets are nobody's.
        if (S_ISDIR(info.st_mode) && !nested && !overlayAlone(source, placement.mounted)) return std::nullopt;
        Attempt failed = cloneTree(source.get(), "", nested, kReadOnlyMount, placement.mounted);
        if (failed) failed->detail = bind.source;
        return failed;
    }

    Attempt overlayAlone(const Descriptor& source, Descriptor& mounted) const {
        std::vector<Descriptor> layers;
        layers.emplace_back(::fcntl(source.get(), F_DUPFD_CLOEXEC, 3));
        layers.push_back(openPath(view_.base.get(), "empty", O_PATH | O_DIRECTORY));
        return mountLowers(layers, rootless_, mounted);
    }

    Attempt makeOverlay(std::size_t index) {
        const JailOverlay& overlay = setup_.overlays[index];
        OverlayLayers layers;
        if (auto failed = openLayers(overlay, layers)) return failed;
        if (!layers.upper)
            if (auto failed = makeScratchLayers(skeleton_.scratch.get(), index, layers)) return failed;
        if (overlay.target == "/")
            if (auto failed = makeSeeds(layers)) return failed;
        if (auto failed = makePoints(overlay, index, layers)) return failed;
        if (setup_.system && setup_.fuseProgram.empty() && overlay.lowers.size() > 1)
            if (auto failed = foldHost(index, overlay.lowers.size() - 1, layers)) return failed;
        Placement& placement = placements_.emplace_back(Placement{overlay.target, Placement::Kind::kMount, {}, true});
        if (auto failed = showLayers(overlay, layers, placement.mounted)) return failed;
        skeleton_.writable.push_back(overlay.target);
        const int upper = ::openat(layers.upper.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (upper < 0) return failure("open layer", "upper");
        skeleton_.uppers.emplace_back(upper);
        return std::nullopt;
    }

    Attempt showLayers(const JailOverlay& overlay, const OverlayLayers& layers, Descriptor& mounted) {
        if (overlay.target != "/" || setup_.fuseProgram.empty())
            return mountOverlay(overlay, layers, rootless_, mounted);
        const std::string place = kWorkshop + std::string(kSystem);
        if (::mkdir(place.c_str(), 0755) != 0 && errno != EEXIST) return failure("make directory", place);
        if (auto failed = skeleton_.fuse.start(setup_.fuseProgram, layers, place)) return failed;
        return cloneTree(AT_FDCWD, place, false, kWritableMount, mounted);
    }

    // Layers of a sandbox lie somewhere below the host's root, and an overlay refuses a layer that lies in another one.
    // The host's, made an overlay of its own first, holds none of them.
    Attempt foldHost(std::size_t index, std::size_t above, OverlayLayers& layers) {
        const std::string name = "host" + std::to_string(index);
        for (const std::string& made : {name, name + "-empty"})
            if (::mkdirat(skeleton_.scratch.get(), made.c_str(), 0755) != 0) return failure("make layer", made);
        std::vector<Descriptor> host;
        for (std::size_t i = above; i < layers.lowers.size(); ++i) host.push_back(std::move(layers.lowers[i]));
        // Below the others nothing of it is seen; without an upper, an overlay takes two layers at least.
        host.push_back(openPath(skeleton_.scratch.get(), name + "-empty", O_PATH | O_DIRECTORY));
        layers.lowers.resize(above);
        Descriptor mounted;
        if (auto failed = mountLowers(host, rootless_, mounted)) return failed;
        const Descriptor place = openPath(skeleton_.scratch.get(), name, O_PATH | O_DIRECTORY);
        if (auto failed = attachMount(mounted.get(), place.get(), name)) return failed;
        layers.lowers.push_back(std::move(mounted));
        return std::nullopt;
    }

    // Right above the host's own files, so that whatever a layer has of the same name wins.
    Attempt makeSeeds(OverlayLayers& layers) {
        if (setup_.seeds.empty()) return std::nullopt;
        constexpr const char* kSeeds = "seeds";
        if (::mkdirat(skeleton_.scratch.get(), kSeeds, 0755) != 0) return failure("seed", kSeeds);
        Descriptor seeds = openPath(skeleton_.scratch.get(), kSeeds, O_PATH | O_DIRECTORY);
        for (const JailFile& seed : setup_.seeds) {
            if (auto failed = lookLikeHost(seeds.get(), seed.target, layers.lowers.back().get())) return failed;
            if (auto failed = writeInto(kSeeds, seed.target, seed)) return failed;
        }
        if (auto failed = lookLike(seeds.get(), ".", layers.lowers.back().get(), ".")) return failed;
        layers.lowers.insert(layers.lowers.end() - 1, std::move(seeds));
        return std::nullopt;
    }

    // A directory that several layers have looks as in the topmost of them.
    static Attempt lookLikeHost(int seeds, const std::string& path, int host) {
        for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
            const std::string directory = path.substr(1, slash - 1);
            if (::mkdirat(seeds, directory.c_str(), 0755) != 0 && errno != EEXIST) return failure("seed", path);
            if (auto failed = lookLike(seeds, directory, host, directory)) return failed;
        }
        return std::nullopt;
    }

    static Attempt lookLike(int seeds, const std::string& name, int host, const std::string& model) {
        struct stat info {};
        if (::fstatat(host, model.c_str(), &info, 0) != 0) return failure("seed", model);
        // Owners that this user namespace cannot name stay ours.
        if (::fchownat(seeds, name.c_str(), info.st_uid, info.st_gid, 0) != 0 && errno != EINVAL && errno != EPERM)
            return failure("seed", name);
        if (::fchmodat(seeds, name.c_str(), info.st_mode & 07777, 0) != 0) return failure("seed", name);
        return std::nullopt;
    }

    // Mount points below an overlay would be made in its upper directory and pass for the command's own work. They are
    // made in a layer below all others instead, where whatever exists above wins.
    Attempt makePoints(const JailOverlay& overlay, std::size_t index, OverlayLayers& layers) {
        const std::string name = "points" + std::to_string(index);
        std::vector<std::string> made;
        Descriptor points;
        for (const auto& [target, isDirectory] : targetsBeneath(overlay.target)) {
            const std::string inside = below(overlay.target, target);
            if (existsIn(layers, inside)) continue;
            if (!points && ::mkdirat(skeleton_.scratch.get(), name.c_str(), 0755) != 0)
                return failure("mount point", target);
            if (!points) points = openPath(skeleton_.scratch.get(), name, O_PATH | O_DIRECTORY);
            Descriptor point;
            if (auto failed = makeMountPoint(points.get(), inside, isDirectory, made, point)) return failed;
        }
        for (const std::string& path : made)
            if (::fchownat(points.get(), path.c_str() + 1, setup_.uid, setup_.gid, AT_SYMLINK_NOFOLLOW) != 0)
                return failure("mount point", path);
        if (points) layers.lowers.push_back(std::move(points));
        return std::nullopt;
    }

    std::vector<std::pair<std::string, bool>> targetsBeneath(const std::string& directory) const {
        std::vector<std::pair<std::string, bool>> targets;
        for (const Placement& placement : placements_)
            if (placement.mounted && liesBeneath(placement.target, directory))
                targets.emplace_back(placement.target, placement.isDirectory);
        for (const JailOverlay& overlay : setup_.overlays)
            if (liesBeneath(overlay.target, directory)) targets.emplace_back(overlay.target, true);
        if (directory == "/")
            for (const char* own : {"/dev", "/proc", "/sys"}) targets.emplace_back(own, true);
        return targets;
    }

    static bool existsIn(const OverlayLayers& layers, const std::string& inside) {
        const std::string relative = inside.substr(1);
        struct stat info {};
        if (::fstatat(layers.upper.get(), relative.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return true;
        return std::any_of(layers.lowers.begin(), layers.lowers.end(), [&](const Descriptor& lower) {
            return ::fstatat(lower.get(), relative.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
        });
    }

    Attempt place(Placement& placement) {
        if (placement.kind == Placement::Kind::kHide) return hide(placement.target);
        if (placement.target == "/") return enterCopy(placement);
        Descriptor point;
        if (auto failed = makeMountPoint(root_.get(), placement.target, placement.isDirectory, skeleton_.made, point))
            return failed;
        return attachMount(placement.mounted.get(), point.get(), placement.target);
    }

    // The copy of the system becomes the root; of the stem only what the jail made itself comes along. What shows the
    // copy (a FUSE program) lives in the staging namespace and keeps its own root.
    Attempt enterCopy(Placement& placement) {
        constexpr std::array kOwn = {"/dev", "/proc", "/sys"};
        std::array<Descriptor, kOwn.size()> trees;
        for (std::size_t i = 0; i < kOwn.size(); ++i)
            if (auto failed = cloneTree(root_.get(), kOwn[i] + 1, true, 0, trees[i])) return failed;
        if (auto failed = attachMount(placement.mounted.get(), root_.get(), "/")) return failed;
        if (::fchdir(placement.mounted.get()) != 0) return failure("enter", "the copy of the system");
        if (::syscall(SYS_pivot_root, ".", ".") != 0) return failure("pivot", "the copy of the system");
        if (::umount2(".", MNT_DETACH) != 0) return failure("detach", "the old root");
        if (::chdir("/") != 0) return failure("enter", "/");
        root_ = openPath(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
        std::vector<std::string> made;
        for (std::size_t i = 0; i < kOwn.size(); ++i) {
            Descriptor point;
            if (auto failed = makeMountPoint(root_.get(), kOwn[i], true, made, point)) return failed;
            if (auto failed = attachMount(trees[i].get(), point.get(), kOwn[i])) return failed;
        }
        return std::nullopt;
    }

    Attempt hide(const std::string& path) {
        const Descriptor place = lookInside(root_.get(), path);
        if (!place) return errno == ENOENT || errno == ENOTDIR ? Attempt() : failure("hide", path);
        struct stat info {};
        if (::fstat(place.get(), &info) != 0) return failure("hide", path);
        Descriptor cover;
        if (!S_ISDIR(info.st_mode)) {
            if (auto failed = cloneTree(root_.get(), "dev/null", false, MOUNT_ATTR_NOSUID, cover)) return failed;
            return attachMount(cover.get(), place.get(), path);
        }
        // Writable for the sake of mount points in it, until everything is in place.
        if (auto failed = makeFileSystem("tmpfs", {{"mode", "0755"}, {"size", "1m"}}, kWritableMount, cover))
            return failed;
        if (auto failed = attachMount(cover.get(), place.get(), path)) return failed;
        covers_.push_back(std::move(cover));
        return std::nullopt;
    }

    Attempt seal() {
        for (const Descriptor& cover : covers_)
            if (auto failed = setMountAttributes(cover.get(), kReadOnlyMount, false, "hidden directory")) return failed;
        skeleton_.writable.emplace_back("/dev");
        if (setup_.system) return std::nullopt;
        return setMountAttributes(root_.get(), kReadOnlyMount, false, "/");
    }

    const JailSetup& setup_;
    const bool rootless_;
    const bool memoryIsWatched_;
    const HostView& view_;
    Skeleton& skeleton_;
    Descriptor root_;
    std::vector<Placement> placements_;
    std::vector<Descriptor> covers_;
};

}  // namespace

Attempt enterRoom(const HostView& view, bool rootless, Descriptor& room) {
    std::vector<ShownMount> mounts;
    if (auto failed = makeHostMounts(view, rootless, mounts)) return failed;
    if (auto failed = enter(view.stem)) return failed;
    if (::unshare(CLONE_NEWNS) != 0) return failure("namespaces", "sandbox");
    const Descriptor root = openPath(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
    if (auto failed = placeHostMounts(root.get(), mounts)) return failed;
    room = openPath(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY);
    if (!room) return failure("namespaces", "sandbox");
    return std::nullopt;
}

Attempt leaveRoom(const HostView& view) { return enter(view.staging); }

Attempt buildSkeleton(const JailSetup& setup, bool rootless, bool memoryIsWatched, const HostView& view,
                      Descriptor room, Skeleton& skeleton) {
    return Builder(setup, rootless, memoryIsWatched, view, skeleton).build(std::move(room));
}

Attempt dropSkeleton(const HostView& view, Skeleton& skeleton) {
    if (auto failed = leaveRoom(view)) return failed;
    if (skeleton.scratch) {
        const std::string scratch = std::string(kWorkshop) + "/scratch";
        if (::umount2(scratch.c_str(), MNT_DETACH) != 0) return failure("detach", "scratch");
    }
    for (auto image = skeleton.images.rbegin(); image != skeleton.images.rend(); ++image)
        if (::umount2(image->c_str(), MNT_DETACH) != 0) return failure("detach", *image);
    for (auto made = skeleton.made.rbegin(); made != skeleton.made.rend(); ++made) {
        const std::string path = "root" + *made;
        // What was made in an overlay or a cover went with it.
        if (::unlinkat(view.base.get(), path.c_str(), AT_REMOVEDIR) != 0 && errno == ENOTDIR)
            static_cast<void>(::unlinkat(view.base.get(), path.c_str(), 0));
    }
    skeleton = Skeleton();
    return std::nullopt;
}

}  // namespace gradus
