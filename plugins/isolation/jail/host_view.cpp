#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "plugins/isolation/jail/devices.h"
#include "plugins/isolation/jail/host_mounts.h"
#include "plugins/isolation/jail/overlay.h"
#include "plugins/isolation/jail/places.h"
#include "plugins/isolation/jail/proc.h"
#include "plugins/isolation/jail/skeleton.h"

namespace gradus {

namespace {

class HostViewBuilder {
  public:
    HostViewBuilder(const std::vector<std::string>& hidden, bool rootless, HostView& view)
        : hidden_(hidden), rootless_(rootless), view_(view) {}

    Attempt build() {
        const std::optional<std::string> info = readText("/proc/self/mountinfo");
        if (!info) return failure("read mounts", "/proc/self/mountinfo");
        view_.mounts = readMountPoints(*info);
        if (auto failed = openWorkshop()) return failed;
        if (!rootless_)
            if (auto failed = makeOwnerless(ownerless_)) return failed;
        if (auto failed = showHost()) return failed;
        if (auto failed = placeDevices(view_.base.get(), root_.get(), rootless_)) return failed;
        if (auto failed = mountSys(root_.get())) return failed;
        for (const std::string& path : hidden_)
            if (auto failed = hide(path)) return failed;
        for (const std::string& path : unreadable_)
            if (auto failed = hide(path)) return failed;
        return enterStem();
    }

  private:
    Attempt openWorkshop() {
        if (auto failed = makeFileSystem("tmpfs", {{"size", "4m"}, {"mode", "0755"}}, MOUNT_ATTR_NOSUID, view_.base))
            return failed;
        const Descriptor place = openPath(AT_FDCWD, kWorkshop, O_PATH | O_DIRECTORY);
        if (!place) return failure("open", kWorkshop);
        // Before the workshop covers a part of it.
        if (auto failed = cloneTree(AT_FDCWD, "/proc", isNested("/proc"), kPlainProc, proc_)) return failed;
        if (auto failed = attachMount(view_.base.get(), place.get(), kWorkshop)) return failed;
        for (const char* name : {"root", "scratch", "dev", "empty"})
            if (::mkdirat(view_.base.get(), name, 0755) != 0) return failure("make directory", name);
        if (auto failed = cloneTree(view_.base.get(), "root", false, kWritableMount, root_)) return failed;
        const Descriptor root = openPath(view_.base.get(), "root", O_PATH | O_DIRECTORY);
        return attachMount(root_.get(), root.get(), "root");
    }

    bool isNested(const std::string& path) const {
        return std::any_of(view_.mounts.begin(), view_.mounts.end(),
                           [&](const MountPoint& mount) { return liesBeneath(mount.path, path); });
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
        // Where a minimal host lacks them.
        for (const char* name : {"proc", "sys", "dev", "tmp", "run"})
            if (::mkdirat(root_.get(), name, 0755) != 0 && errno != EEXIST) return failure("make directory", name);
        const Descriptor place = openPath(root_.get(), "proc", O_PATH | O_DIRECTORY | O_NOFOLLOW);
        return attachMount(proc_.get(), place.get(), "/proc");
    }

    Attempt showEntry(const std::string& name) {
        const std::string path = "/" + name;
        struct stat info {};
        if (::lstat(path.c_str(), &info) != 0) return std::nullopt;
        if (S_ISLNK(info.st_mode)) return copyLink(path, name);
        if (!S_ISDIR(info.st_mode)) return std::nullopt;
        if (::mkdirat(root_.get(), name.c_str(), 0755) != 0) return failure("make directory", path);
        const bool hidden = std::find(hidden_.begin(), hidden_.end(), path) != hidden_.end();
        if (isMadeHere(name) || hidden) return std::nullopt;
        if (!rootless_) return showAlone(path);
        Descriptor tree;
        if (auto failed = cloneTree(AT_FDCWD, path, isNested(path), kReadOnlyMount, tree)) return failed;
        const Descriptor place = openPath(root_.get(), name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
        view_.shown.push_back(path);
        for (const std::string& beneath : mountsBeneath(path)) view_.shown.push_back(beneath);
        return attachMount(tree.get(), place.get(), path);
    }

    // Of several at one place only the last is seen.
    std::vector<std::string> mountsBeneath(const std::string& path) const {
        std::vector<std::string> found;
        for (const MountPoint& mount : view_.mounts)
            if (liesBeneath(mount.path, path)) found.push_back(mount.path);
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        return found;
    }

    // One mount at a time, each without owners: what lies below may be of a kind that cannot be mapped.
    Attempt showAlone(const std::string& path) {
        std::vector<std::string> all = mountsBeneath(path);
        all.insert(all.begin(), path);
        for (const std::string& one : all) {
            Descriptor tree;
            if (cloneTree(AT_FDCWD, one, false, kReadOnlyMount, tree)) continue;  // gone, or below another
            const Descriptor place = lookInside(root_.get(), one);
            if (!place) continue;
            bool mapped = canMap_ && takeOwners(tree.get(), ownerless_);
            if (mapped && !canBeLower(tree)) {
                // A mount keeps its map for good.
                mapped = false;
                if (auto failed = cloneTree(AT_FDCWD, one, false, kReadOnlyMount, tree)) return failed;
            }
            if (auto failed = attachMount(tree.get(), place.get(), one)) return failed;
            view_.shown.push_back(one);
            if (!mapped) hideUnreadable(one, 0);
        }
        return std::nullopt;
    }

    // A file is no layer. Before Linux 5.19 an overlay takes no mapped ones: then none is mapped.
    bool canBeLower(const Descriptor& tree) {
        struct stat info {};
        if (canBeLower_ || ::fstat(tree.get(), &info) != 0 || !S_ISDIR(info.st_mode)) return true;
        const std::string place = std::string(kWorkshop) + "/scratch";
        const Descriptor scratch = openPath(view_.base.get(), "scratch", O_PATH | O_DIRECTORY);
        if (attachMount(tree.get(), scratch.get(), place)) return true;
        std::vector<Descriptor> layers;
        layers.push_back(openPath(view_.base.get(), "scratch", O_PATH | O_DIRECTORY));
        layers.push_back(openPath(view_.base.get(), "empty", O_PATH | O_DIRECTORY));
        Descriptor mounted;
        canBeLower_ = !mountLowers(layers, false, mounted);
        canMap_ = canBeLower_;
        return canMap_;
    }

    // Where owners cannot be taken away, what only they may read is hidden by name: where secrets are, and as far as
    // that goes.
    void hideUnreadable(const std::string& path, int depth) {
        constexpr int kDeepest = 4;
        const bool isSecret = path == "/etc" || path.starts_with("/etc/");
        if (!isSecret || depth > kDeepest) return;
        const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(path.c_str()), &::closedir);
        while (const dirent* entry = list ? ::readdir(list.get()) : nullptr) {
            const std::string name = entry->d_name;
            const std::string inside = path + "/" + name;
            struct stat info {};
            if (name == "." || name == ".." || ::lstat(inside.c_str(), &info) != 0) continue;
            if (S_ISDIR(info.st_mode) && (info.st_mode & S_IXOTH) != 0)
                hideUnreadable(inside, depth + 1);
            else if ((S_ISREG(info.st_mode) && (info.st_mode & S_IROTH) == 0) || S_ISDIR(info.st_mode))
                unreadable_.push_back(inside);
        }
    }

    Attempt copyLink(const std::string& path, const std::string& name) {
        char text[4096];
        const ssize_t length = ::readlink(path.c_str(), text, sizeof text - 1);
        if (length < 0) return failure("read link", path);
        text[length] = '\0';
        if (::symlinkat(text, root_.get(), name.c_str()) != 0) return failure("make link", path);
        return std::nullopt;
    }

    Attempt hide(const std::string& path) {
        const Descriptor place = lookInside(root_.get(), path);
        if (!place && errno != ENOENT && errno != ENOTDIR) return failure("hide", path);
        if (!place) {
            view_.absent.push_back(path);
            return std::nullopt;
        }
        struct stat info {};
        if (::fstat(place.get(), &info) != 0) return failure("hide", path);
        Descriptor cover;
        if (auto failed = S_ISDIR(info.st_mode) ? cloneTree(view_.base.get(), "empty", false, kReadOnlyMount, cover)
                                                : cloneTree(root_.get(), "dev/null", false, MOUNT_ATTR_NOSUID, cover))
            return failed;
        view_.hidden.push_back(path);
        view_.covered.push_back(resolvedIn(place.get(), path));
        return attachMount(cover.get(), place.get(), path);
    }

    // Where a link leads to: a cover lies there.
    static std::string resolvedIn(int place, const std::string& path) {
        char text[4096];
        const std::string root = std::string(kWorkshop) + "/root";
        const ssize_t length = ::readlink(descriptorPath(place).c_str(), text, sizeof text);
        const std::string found(text, length < 0 ? 0 : static_cast<std::size_t>(length));
        return found.starts_with(root + "/") ? found.substr(root.size()) : path;
    }

    // A copy of this namespace whose root is the new one, and from which the host's tree is gone.
    Attempt enterStem() {
        view_.staging = openPath(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY);
        if (!view_.staging) return failure("namespaces", "staging");
        if (::unshare(CLONE_NEWNS) != 0) return failure("namespaces", "stem");
        const std::string root = std::string(kWorkshop) + "/root";
        if (::chdir(root.c_str()) != 0) return failure("enter", "the new root");
        if (::syscall(SYS_pivot_root, ".", ".") != 0) return failure("pivot", "the new root");
        if (::umount2(".", MNT_DETACH) != 0) return failure("detach", "the old root");
        if (::chdir("/") != 0) return failure("enter", "/");
        view_.stem = openPath(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY);
        if (!view_.stem || ::setns(view_.staging.get(), CLONE_NEWNS) != 0) return failure("namespaces", "stem");
        return std::nullopt;
    }

    const std::vector<std::string>& hidden_;
    const bool rootless_;
    HostView& view_;
    Descriptor root_;
    Descriptor proc_;
    Descriptor ownerless_;
    bool canMap_ = true;
    bool canBeLower_ = false;
    std::vector<std::string> unreadable_;
};

}  // namespace

Attempt buildHostView(const std::vector<std::string>& hidden, bool rootless, HostView& view) {
    return HostViewBuilder(hidden, rootless, view).build();
}

}  // namespace gradus
