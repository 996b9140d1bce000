#include "plugins/isolation/jail/host_mounts.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>

#include "plugins/isolation/jail/overlay.h"
#include "plugins/isolation/jail/places.h"
#include "plugins/isolation/jail/skeleton.h"

namespace gradus {

namespace {

/// Directories in which mounts lie: an ordinary user can overlay them only around these.
constexpr int kDeepestSplit = 12;

bool has(const std::vector<std::string>& paths, const std::string& path) {
    return std::find(paths.begin(), paths.end(), path) != paths.end();
}

class HostMounts {
  public:
    HostMounts(const HostView& view, bool rootless, std::vector<ShownMount>& mounts)
        : view_(view), rootless_(rootless), mounts_(mounts) {}

    Attempt make() {
        empty_ = openPath(view_.base.get(), "empty", O_PATH | O_DIRECTORY);
        if (!empty_) return failure("host view", "empty");
        for (const std::string& path : view_.shown) {
            if (isCovered(path)) continue;
            if (auto failed = show(path)) return failed;
        }
        for (const std::string& path : view_.covered)
            if (auto failed = blank(path)) return failed;
        return std::nullopt;
    }

  private:
    static std::string staged(const std::string& path) { return "root" + path; }

    bool isCovered(const std::string& path) const {
        return std::any_of(view_.covered.begin(), view_.covered.end(),
                           [&](const std::string& hidden) { return hidden == path || liesBeneath(path, hidden); });
    }
    bool isAroundMounts(const std::string& path) const {
        return std::any_of(view_.shown.begin(), view_.shown.end(),
                           [&](const std::string& shown) { return liesBeneath(shown, path); });
    }

    Attempt show(const std::string& path) {
        // Something else may lie over it by now, or it went with what does: then that is shown.
        Descriptor source = openPath(view_.base.get(), staged(path), O_PATH | O_NOFOLLOW);
        struct stat info {};
        if (!source || ::fstat(source.get(), &info) != 0) return std::nullopt;
        if (!S_ISDIR(info.st_mode)) return S_ISSOCK(info.st_mode) ? Attempt() : bind(source, path);
        if (!rootless_ || !isAroundMounts(path)) return overlay(std::move(source), path);
        return split(source, path, 0);
    }

    Attempt overlay(Descriptor source, const std::string& path) {
        std::vector<Descriptor> layers;
        layers.push_back(std::move(source));
        // Below the others nothing of it is seen; without an upper, an overlay takes two layers at least.
        layers.emplace_back(::fcntl(empty_.get(), F_DUPFD_CLOEXEC, 3));
        Descriptor mounted;
        if (!mountLowers(layers, rootless_, mounted)) {
            mounts_.push_back({path, std::move(mounted)});
            return std::nullopt;
        }
        return holdsNoSockets(layers.front().get()) ? bind(layers.front(), path) : blank(path);
    }

    // None can be made there, so none is listened on.
    static bool holdsNoSockets(int directory) {
        constexpr std::array<long, 8> kTypes{0x4d44, 0x2011BAB0, 0x5346544e, 0x7366746e,
                                             0x9660, 0x73717368, 0x0187,     0xE0F5E1E2};
        struct statfs info {};
        return ::fstatfs(directory, &info) == 0 &&
               std::find(kTypes.begin(), kTypes.end(), static_cast<long>(info.f_type)) != kTypes.end();
    }

    Attempt bind(const Descriptor& source, const std::string& path) {
        Descriptor mounted;
        if (cloneTree(source.get(), "", false, kReadOnlyMount, mounted)) return blank(path);
        mounts_.push_back({path, std::move(mounted)});
        return std::nullopt;
    }

    Attempt blank(const std::string& path) {
        struct stat info {};
        const bool isDirectory =
            ::fstatat(view_.base.get(), staged(path).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
        Descriptor mounted;
        if (auto failed = isDirectory ? cloneTree(view_.base.get(), "empty", false, kReadOnlyMount, mounted)
                                      : cloneTree(view_.base.get(), "root/dev/null", false, MOUNT_ATTR_NOSUID, mounted))
            return failed;
        mounts_.push_back({path, std::move(mounted)});
        return std::nullopt;
    }

    // The kernel refuses an ordinary user a layer with mounts below: what lies around them is overlaid piece by piece.
    Attempt split(const Descriptor& source, const std::string& path, int depth) {
        if (depth > kDeepestSplit) return blank(path);
        struct stat info {};
        Descriptor frame;
        if (::fstat(source.get(), &info) != 0) return failure("host view", path);
        if (auto failed = makeFileSystem("tmpfs", {{"size", "1m"}, {"mode", "0755"}}, kWritableMount, frame))
            return failed;
        const int frameNumber = frame.get();
        mounts_.push_back({path, std::move(frame)});
        const int again = ::openat(source.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const std::unique_ptr<DIR, int (*)(DIR*)> list(again < 0 ? nullptr : ::fdopendir(again), &::closedir);
        while (const dirent* entry = list ? ::readdir(list.get()) : nullptr) {
            const std::string name = entry->d_name;
            if (name == "." || name == "..") continue;
            if (auto failed = piece(source, frameNumber, name, path + "/" + name, depth)) return failed;
        }
        if (::fchmodat(frameNumber, ".", info.st_mode & 0777, 0) != 0) return failure("host view", path);
        return setMountAttributes(frameNumber, kReadOnlyMount, false, path);
    }

    Attempt piece(const Descriptor& directory, int frame, const std::string& name, const std::string& path, int depth) {
        struct stat info {};
        if (::fstatat(directory.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
        if (S_ISLNK(info.st_mode)) return link(directory, frame, name, path);
        if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) return std::nullopt;
        const int made = S_ISDIR(info.st_mode) ? ::mkdirat(frame, name.c_str(), 0755)
                                               : ::mknodat(frame, name.c_str(), S_IFREG | 0444, 0);
        if (made != 0) return failure("host view", path);
        // What is a mount itself comes as one.
        if (has(view_.shown, path) || has(view_.covered, path)) return std::nullopt;
        Descriptor source = openPath(directory.get(), name, O_PATH | O_NOFOLLOW);
        if (!source) return blank(path);
        if (!S_ISDIR(info.st_mode)) return bind(source, path);
        return isAroundMounts(path) ? split(source, path, depth + 1) : overlay(std::move(source), path);
    }

    static Attempt link(const Descriptor& directory, int frame, const std::string& name, const std::string& path) {
        char text[4096];
        const ssize_t length = ::readlinkat(directory.get(), name.c_str(), text, sizeof text - 1);
        if (length < 0) return std::nullopt;
        text[length] = '\0';
        if (::symlinkat(text, frame, name.c_str()) != 0) return failure("host view", path);
        return std::nullopt;
    }

    const HostView& view_;
    const bool rootless_;
    std::vector<ShownMount>& mounts_;
    Descriptor empty_;
};

}  // namespace

Attempt makeHostMounts(const HostView& view, bool rootless, std::vector<ShownMount>& mounts) {
    return HostMounts(view, rootless, mounts).make();
}

Attempt placeHostMounts(int root, const std::vector<ShownMount>& mounts) {
    for (const ShownMount& mount : mounts) {
        const Descriptor place = lookInside(root, mount.path);
        // Renamed or deleted outside, a moment ago: then it is not shown. An ordinary user's overlay does not even find
        // a directory at its top that this user may not read, because it asks that directory for its overlay marks.
        if (!place && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) continue;
        if (!place) return failure("host view", mount.path);
        if (auto failed = attachMount(mount.mounted.get(), place.get(), mount.path)) return failed;
    }
    return std::nullopt;
}

Attempt makeOwnerless(Descriptor& userNamespace) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return failure("owners", "pipe");
    const Descriptor heard(ends[0]);
    Descriptor said(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) return failure("owners", "fork");
    if (child == 0) {
        const char answer = ::unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
        if (::write(said.get(), &answer, 1) == 1)
            while (true) ::pause();
        ::_exit(1);
    }
    said.reset();
    char answer = 'n';
    Attempt failed;
    // An id that no file has: a map must have one line at least.
    constexpr const char* kMap = "4294967294 4294967294 1";
    const std::string process = "/proc/" + std::to_string(child);
    if (::read(heard.get(), &answer, 1) != 1 || answer != 'y') failed = failure("owners", "user namespace", EPERM);
    for (const char* kind : {"/uid_map", "/gid_map"})
        if (const int error = failed ? 0 : writeText(process + kind, kMap)) failed = failure("owners", kind, error);
    if (!failed) userNamespace = openPath(AT_FDCWD, process + "/ns/user", O_RDONLY);
    if (!failed && !userNamespace) failed = failure("owners", "user namespace");
    ::kill(child, SIGKILL);
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
    return failed;
}

bool takeOwners(int mounted, const Descriptor& userNamespace) {
    if (!userNamespace) return false;
    mount_attr change{};
    change.attr_set = MOUNT_ATTR_IDMAP;
    change.userns_fd = static_cast<std::uint64_t>(userNamespace.get());
    return ::mount_setattr(mounted, "", AT_EMPTY_PATH, &change, sizeof change) == 0;
}

}  // namespace gradus
