#include "plugins/isolation/jail/skeleton.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "plugins/isolation/jail/devices.h"
#include "plugins/isolation/jail/overlay.h"
#include "plugins/isolation/jail/proc.h"

namespace gradus {

namespace {

constexpr unsigned kReadOnly = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr unsigned kWritable = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

// Where the tree is assembled. Only this process's mount namespace sees it, and every source is open by then.
constexpr const char* kWorkshop = "/tmp";  // kSkeletonRoot lies in it

/// What the plan names, opened while the host's tree is still in plain view.
struct Sources {
    std::vector<MountPoint> mounts;
    std::vector<OverlayLayers> layers;
    std::vector<Descriptor> binds;
};

/// One thing to put at one place. Sorted by target, a directory comes before what lies in it, so that the narrower
/// rule always covers the broader one.
struct Placement {
    enum class Kind { kHide, kBind, kOverlay, kPrivate, kFile };
    std::string target;
    Kind kind;
    std::size_t index;
    bool operator<(const Placement& other) const { return target < other.target; }
};

class Builder {
  public:
    Builder(const JailSetup& setup, bool rootless, Skeleton& skeleton)
        : setup_(setup), rootless_(rootless), skeleton_(skeleton) {}

    Attempt build() {
        if (auto failed = openSources()) return failed;
        if (auto failed = refuseNestedMounts(setup_, sources_.mounts)) return failed;
        if (auto failed = openWorkshop()) return failed;
        if (auto failed = showHost()) return failed;
        if (auto failed = placeDevices(skeleton_, rootless_)) return failed;
        if (auto failed = mountSys(skeleton_.root.get())) return failed;
        for (const Placement& placement : placements())
            if (auto failed = place(placement)) return failed;
        return seal();
    }

  private:
    Attempt openSources() {
        const std::optional<std::string> info = readText("/proc/self/mountinfo");
        if (!info) return failure("read mounts", "/proc/self/mountinfo");
        sources_.mounts = readMountPoints(*info);
        for (const JailOverlay& overlay : setup_.overlays)
            if (auto failed = openLayers(overlay, sources_.layers.emplace_back())) return failed;
        for (const JailBind& bind : setup_.binds) {
            sources_.binds.push_back(openPath(AT_FDCWD, bind.source, O_PATH | O_NOFOLLOW));
            if (!sources_.binds.back() && !(bind.optional && errno == ENOENT)) return failure("bind", bind.source);
        }
        return std::nullopt;
    }

    Attempt openWorkshop() {
        if (auto failed =
                makeFileSystem("tmpfs", {{"size", "4m"}, {"mode", "0755"}}, MOUNT_ATTR_NOSUID, skeleton_.base))
            return failed;
        const Descriptor workshop = openPath(AT_FDCWD, kWorkshop, O_PATH | O_DIRECTORY);
        if (!workshop) return failure("open", kWorkshop);
        if (auto failed = attachMount(skeleton_.base.get(), workshop.get(), kWorkshop)) return failed;
        for (const char* name : {"root", "scratch", "dev", "hidden", "empty"})
            if (::mkdirat(skeleton_.base.get(), name, 0755) != 0) return failure("make directory", name);
        if (auto failed = openScratch()) return failed;
        return attachCopy("root", "root", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, skeleton_.root);
    }

    // Two pages per file at least: a bounded number of bytes must not be spent as an unbounded number of names.
    Attempt openScratch() {
        std::vector<MountOption> options = {{"mode", "0755"}};
        if (const auto& disk = setup_.limits[LimitName::kDisk]) {
            const std::uint64_t bytes = std::max<std::uint64_t>(disk->value, 4096);
            options.push_back({"size", std::to_string(bytes)});
            options.push_back({"nr_inodes", std::to_string(std::max<std::uint64_t>(bytes / 2048, 256))});
        }
        if (auto failed = makeFileSystem("tmpfs", options, kWritable, skeleton_.scratch)) return failed;
        const Descriptor place = openPath(skeleton_.base.get(), "scratch", O_PATH | O_DIRECTORY);
        return attachMount(skeleton_.scratch.get(), place.get(), "scratch");
    }

    // A directory of `base` mounted again, as a mount with attributes of its own.
    Attempt attachCopy(const std::string& source, const std::string& at, unsigned attributes, Descriptor& mounted) {
        if (auto failed = cloneTree(skeleton_.base.get(), source, false, attributes, mounted)) return failed;
        const Descriptor place = openPath(skeleton_.base.get(), at, O_PATH | O_DIRECTORY);
        return attachMount(mounted.get(), place.get(), at);
    }

    bool isHidden(const std::string& path) const {
        return std::find(setup_.hidden.begin(), setup_.hidden.end(), path) != setup_.hidden.end();
    }

    // These are made by the jail itself, or are nobody's business.
    static bool isMadeHere(const std::string& name) {
        for (const char* own : {"proc", "sys", "dev", "tmp", "run", "lost+found"})
            if (name == own) return true;
        return false;
    }

    Attempt showHost() {
        const std::unique_ptr<DIR, int (*)(DIR*)> top(::opendir("/"), &::closedir);
        if (!top) return failure("list", "/");
        while (const dirent* entry = ::readdir(top.get())) {
            const std::string name = entry->d_name;
            if (name == "." || name == "..") continue;
            if (auto failed = showEntry(name)) return failed;
        }
        return std::nullopt;
    }

    Attempt showEntry(const std::string& name) {
        const std::string path = "/" + name;
        struct stat info {};
        if (::lstat(path.c_str(), &info) != 0) return std::nullopt;
        if (S_ISLNK(info.st_mode)) return copyLink(path, name);
        if (!S_ISDIR(info.st_mode)) return std::nullopt;
        if (::mkdirat(skeleton_.root.get(), name.c_str(), 0755) != 0) return failure("make directory", path);
        if (isMadeHere(name) || isHidden(path)) return std::nullopt;
        const bool nested = std::any_of(sources_.mounts.begin(), sources_.mounts.end(), [&](const MountPoint& mount) {
            return mount.path == path || liesBeneath(mount.path, path);
        });
        Descriptor tree;
        if (auto failed = cloneTree(AT_FDCWD, path, nested, kReadOnly, tree)) return failed;
        const Descriptor place = openPath(skeleton_.root.get(), name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
        return attachMount(tree.get(), place.get(), path);
    }

    Attempt copyLink(const std::string& path, const std::string& name) {
        char text[4096];
        const ssize_t length = ::readlink(path.c_str(), text, sizeof text - 1);
        if (length < 0) return failure("read link", path);
        text[length] = '\0';
        if (::symlinkat(text, skeleton_.root.get(), name.c_str()) != 0) return failure("make link", path);
        return std::nullopt;
    }

    std::vector<Placement> placements() const {
        std::vector<Placement> all;
        const auto add = [&](const auto& entries, Placement::Kind kind) {
            for (std::size_t i = 0; i < entries.size(); ++i) all.push_back({entries[i].target, kind, i});
        };
        add(setup_.overlays, Placement::Kind::kOverlay);
        add(setup_.binds, Placement::Kind::kBind);
        add(setup_.privates, Placement::Kind::kPrivate);
        add(setup_.files, Placement::Kind::kFile);
        for (std::size_t i = 0; i < setup_.hidden.size(); ++i)
            all.push_back({setup_.hidden[i], Placement::Kind::kHide, i});
        std::stable_sort(all.begin(), all.end());
        return all;
    }

    Attempt place(const Placement& placement) {
        switch (placement.kind) {
            case Placement::Kind::kHide:
                return hide(placement.target);
            case Placement::Kind::kBind:
                return placeBind(placement.index);
            case Placement::Kind::kOverlay:
                return placeOverlay(placement.index);
            case Placement::Kind::kPrivate:
                return placePrivate(placement.index);
            case Placement::Kind::kFile:
                return placeFile(setup_.files[placement.index]);
        }
        return std::nullopt;
    }

    // Symbolic links are followed, but only inside the new root: what is hidden is what a command would reach.
    Descriptor lookInside(const std::string& path) const {
        open_how how{};
        how.flags = O_PATH | O_CLOEXEC;
        how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
        return Descriptor(
            static_cast<int>(::syscall(SYS_openat2, skeleton_.root.get(), path.c_str(), &how, sizeof how)));
    }

    Attempt hide(const std::string& path) {
        const Descriptor place = lookInside(path);
        if (!place) return errno == ENOENT || errno == ENOTDIR ? Attempt() : failure("hide", path);
        struct stat info {};
        if (::fstat(place.get(), &info) != 0) return failure("hide", path);
        return S_ISDIR(info.st_mode) ? hideDirectory(path, place) : hideFile(path, place);
    }

    Attempt hideFile(const std::string& path, const Descriptor& place) {
        Descriptor nothing;
        if (auto failed = cloneTree(skeleton_.root.get(), "dev/null", false, MOUNT_ATTR_NOSUID, nothing)) return failed;
        return attachMount(nothing.get(), place.get(), path);
    }

    Attempt hideDirectory(const std::string& path, const Descriptor& place) {
        const std::string name = "hidden/" + std::to_string(skeleton_.hiddenDirs.size());
        if (::mkdirat(skeleton_.base.get(), name.c_str(), 0755) != 0) return failure("hide", path);
        Descriptor& mounted = skeleton_.hiddenDirs.emplace_back();
        if (auto failed = cloneTree(skeleton_.base.get(), name, false, kWritable, mounted)) return failed;
        return attachMount(mounted.get(), place.get(), path);
    }

    Attempt placeBind(std::size_t index) {
        const Descriptor& source = sources_.binds[index];
        if (!source) return std::nullopt;  // optional, and not there
        struct stat info {};
        if (::fstat(source.get(), &info) != 0) return failure("bind", setup_.binds[index].source);
        const std::string& path = setup_.binds[index].source;
        const bool nested = std::any_of(sources_.mounts.begin(), sources_.mounts.end(),
                                        [&](const MountPoint& mount) { return liesBeneath(mount.path, path); });
        Descriptor mounted;
        if (auto failed = cloneTree(source.get(), "", nested, kReadOnly, mounted)) {
            failed->detail = path;
            return failed;
        }
        return attachAt(setup_.binds[index].target, S_ISDIR(info.st_mode), mounted);
    }

    Attempt placeOverlay(std::size_t index) {
        const JailOverlay& overlay = setup_.overlays[index];
        OverlayLayers& layers = sources_.layers[index];
        if (!layers.upper)
            if (auto failed = makeScratchLayers(skeleton_.scratch.get(), index, layers)) return failed;
        Descriptor mounted;
        if (auto failed = mountOverlay(overlay, layers, rootless_, mounted)) return failed;
        skeleton_.writable.push_back(overlay.target);
        return attachAt(overlay.target, true, mounted);
    }

    Attempt placePrivate(std::size_t index) {
        const JailPrivate& directory = setup_.privates[index];
        const std::string name = "private" + std::to_string(index);
        const int scratch = skeleton_.scratch.get();
        if (::mkdirat(scratch, name.c_str(), 0755) != 0) return failure("private directory", directory.target);
        if (::fchownat(scratch, name.c_str(), setup_.uid, setup_.gid, 0) != 0 ||
            ::fchmodat(scratch, name.c_str(), directory.mode, 0) != 0)
            return failure("private directory", directory.target);
        Descriptor mounted;
        if (auto failed = cloneTree(scratch, name, false, kWritable, mounted)) return failed;
        skeleton_.writable.push_back(directory.target);
        return attachAt(directory.target, true, mounted);
    }

    // Written into the private directory itself, not mounted: a program may replace the file as any other.
    Attempt placeFile(const JailFile& file) {
        const std::size_t slash = file.target.rfind('/');
        Descriptor parent;
        if (auto failed = makeMountPoint(skeleton_, file.target.substr(0, slash), true, parent)) return failed;
        const std::string name = file.target.substr(slash + 1);
        const Descriptor made(
            ::openat(parent.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!made) return failure("private file", file.target);
        const ssize_t written = ::write(made.get(), file.content.data(), file.content.size());
        if (written != static_cast<ssize_t>(file.content.size()) || ::fchown(made.get(), setup_.uid, setup_.gid) != 0 ||
            ::fchmod(made.get(), file.mode) != 0)
            return failure("private file", file.target);
        return std::nullopt;
    }

    Attempt attachAt(const std::string& target, bool isDirectory, const Descriptor& mounted) {
        Descriptor point;
        if (auto failed = makeMountPoint(skeleton_, target, isDirectory, point)) return failed;
        return attachMount(mounted.get(), point.get(), target);
    }

    // Everything is in place: what was writable for the sake of mount points no longer is.
    Attempt seal() {
        for (const Descriptor& hidden : skeleton_.hiddenDirs)
            if (auto failed = setMountAttributes(hidden.get(), kReadOnly, false, "hidden directory")) return failed;
        skeleton_.hiddenDirs.clear();
        for (OverlayLayers& layers : sources_.layers) {
            const int upper = ::openat(layers.upper.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (upper < 0) return failure("open layer", "upper");
            skeleton_.uppers.emplace_back(upper);
        }
        return setMountAttributes(skeleton_.root.get(), kReadOnly, false, "/");
    }

    const JailSetup& setup_;
    const bool rootless_;
    Skeleton& skeleton_;
    Sources sources_;
};

Attempt stepInto(const std::string& name, const std::string& path, bool isDirectory, Descriptor& at) {
    for (int attempt = 0; attempt < 2; ++attempt) {
        Descriptor next = openPath(at.get(), name, O_PATH | O_NOFOLLOW);
        if (next) {
            at = std::move(next);
            return std::nullopt;
        }
        if (errno != ENOENT) break;
        const int made = isDirectory ? ::mkdirat(at.get(), name.c_str(), 0755)
                                     : ::mknodat(at.get(), name.c_str(), S_IFREG | 0444, 0);
        if (made != 0) break;
    }
    return failure("mount point", path);
}

}  // namespace

Attempt makeMountPoint(const Skeleton& skeleton, const std::string& path, bool isDirectory, Descriptor& point) {
    Descriptor at(::fcntl(skeleton.root.get(), F_DUPFD_CLOEXEC, 0));
    const std::vector<std::string> names = splitWords(path, "/");
    for (std::size_t i = 0; i < names.size(); ++i) {
        const bool last = i + 1 == names.size();
        if (auto failed = stepInto(names[i], path, !last || isDirectory, at)) return failed;
    }
    struct stat info {};
    if (::fstat(at.get(), &info) != 0) return failure("mount point", path);
    if (S_ISLNK(info.st_mode)) return failure("mount point", path + " is a symbolic link", ELOOP);
    if (S_ISDIR(info.st_mode) != isDirectory) return failure("mount point", path, isDirectory ? ENOTDIR : EISDIR);
    point = std::move(at);
    return std::nullopt;
}

Attempt buildSkeleton(const JailSetup& setup, bool rootless, Skeleton& skeleton) {
    return Builder(setup, rootless, skeleton).build();
}

Attempt pivotIntoSkeleton() {
    // By path, not by the descriptor: that one names the mount of the parent's namespace, of which ours is a copy.
    if (::chdir(kSkeletonRoot) != 0) return failure("enter", "the new root");
    if (::syscall(SYS_pivot_root, ".", ".") != 0) return failure("pivot", "the new root");
    if (::umount2(".", MNT_DETACH) != 0) return failure("detach", "the old root");
    if (::chdir("/") != 0) return failure("enter", "/");
    return std::nullopt;
}

}  // namespace gradus
