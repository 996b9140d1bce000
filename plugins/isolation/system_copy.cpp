#include "plugins/isolation/system_copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>

#include "plugins/host/mounts.h"
#include "plugins/isolation/namespaces.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/paths.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr int kDeepest = 12;

// The jail makes these itself, and /run and /tmp are private.
bool isMadeInside(const fs::path& path) {
    for (const char* own : {"/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp"})
        if (isWithin(path, own)) return true;
    return false;
}

// Names that differ by case are one file there, or their lookups are not the kernel's own: overlayfs refuses them.
bool isFitBelow(const std::string& type) {
    for (const char* name : {"vfat", "msdos", "exfat", "ntfs", "ntfs3", "hfs", "hfsplus", "cifs", "smb3", "afs"})
        if (type == name) return false;
    return true;
}

/// Finds what others than its owner may not look into, below places where machines keep such things. As root of a copy
/// everything could be read; this is what keeps what was closed outside closed inside. So none may be left out.
class ClosedPlaces {
  public:
    explicit ClosedPlaces(std::size_t most) : most_(most) {}

    std::vector<fs::path> find() {
        for (const char* place :
             {"/", "/var/lib", "/var/spool", "/var/log", "/var/cache", "/srv", "/opt", "/mnt", "/media", "/usr/local"})
            directoriesIn(place);
        walk("/etc", 0);
        return std::move(found_);
    }

  private:
    // What a package manager itself must be able to open.
    static bool isPackageManagers(const fs::path& path) {
        for (const char* own : {"/var/lib/apt", "/var/lib/dpkg", "/var/cache/apt", "/var/cache/debconf", "/var/lib/rpm",
                                "/var/cache/dnf", "/var/lib/dnf", "/var/lib/pacman", "/var/cache/pacman", "/lib/apk",
                                "/var/cache/ldconfig", "/var/log/apt"})
            if (isWithin(path, own)) return true;
        return false;
    }

    void add(const fs::path& path) {
        if (found_.size() >= most_)
            throw Error(ErrorCode::kNotAllowed,
                        "more than {} places are closed to others here, too many to hide in a copy of the system",
                        most_)
                .hint(fmt::format(
                    "run the command without --system, or close the directories that they lie in, such as {}",
                    path.parent_path().native()));
        found_.push_back(path);
    }

    static bool isClosed(const struct stat& info) {
        if (S_ISDIR(info.st_mode)) return (info.st_mode & (S_IROTH | S_IXOTH)) == 0;
        return S_ISREG(info.st_mode) && (info.st_mode & S_IROTH) == 0 && info.st_size > 0;
    }

    template <typename Visit>
    static void each(const fs::path& directory, const Visit& visit) {
        const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(directory.c_str()), &::closedir);
        while (const dirent* entry = list ? ::readdir(list.get()) : nullptr) {
            const std::string name = entry->d_name;
            struct stat info {};
            const fs::path path = directory / name;
            if (name != "." && name != ".." && ::lstat(path.c_str(), &info) == 0) visit(path, info);
        }
    }

    void directoriesIn(const fs::path& place) {
        each(place, [&](const fs::path& path, const struct stat& info) {
            if (S_ISDIR(info.st_mode) && isClosed(info) && !isMadeInside(path) && !isPackageManagers(path)) add(path);
        });
    }

    void walk(const fs::path& directory, int depth) {
        each(directory, [&](const fs::path& path, const struct stat& info) {
            if (isClosed(info))
                add(path);
            else if (S_ISDIR(info.st_mode) && depth < kDeepest)
                walk(path, depth + 1);
        });
    }

    const std::size_t most_;
    std::vector<fs::path> found_;
};

std::vector<std::string> firstFields(const fs::path& file) {
    std::ifstream lines(file);
    std::vector<std::string> all;
    for (std::string line; std::getline(lines, line);)
        if (const std::size_t colon = line.find(':'); colon != std::string::npos && colon > 0)
            all.push_back(line.substr(0, colon));
    return all;
}

// Everybody by name and nobody with a password: tools that add users find the file they expect, and no secret was even
// read to make it.
std::string withoutPasswords(const fs::path& names, std::string_view rest) {
    std::string text;
    for (const std::string& name : firstFields(names)) text += name + ":*" + std::string(rest) + "\n";
    return text;
}

void seed(std::vector<PrivateFile>& seeds, const fs::path& path, std::string content, mode_t mode) {
    std::error_code error;
    if (fs::is_directory(path.parent_path(), error)) seeds.push_back({path, std::move(content), mode});
}

void seedPasswords(std::vector<PrivateFile>& seeds) {
    seed(seeds, "/etc/shadow", withoutPasswords("/etc/passwd", ":::::::"), 0640);
    seed(seeds, "/etc/gshadow", withoutPasswords("/etc/group", "::"), 0640);
    for (const char* backup : {"/etc/shadow-", "/etc/gshadow-"}) seed(seeds, backup, "", 0640);
}

// An ordinary user cannot open these, and what cannot be opened cannot be copied. apt drops its rights to another user
// when it downloads, whom an ordinary user's copy of the system may not have.
void seedLocks(std::vector<PrivateFile>& seeds) {
    for (const char* lock : {"/var/lib/dpkg/lock", "/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/triggers/Lock",
                             "/var/cache/apt/archives/lock", "/var/lib/apt/lists/lock", "/var/log/apt/term.log"})
        seed(seeds, lock, "", 0640);
    for (const char* data : {"/var/cache/debconf/passwords.dat", "/etc/.pwd.lock", "/var/cache/ldconfig/aux-cache"})
        seed(seeds, data, "", 0600);
    seed(seeds, "/etc/apt/apt.conf.d/99gradus", "APT::Sandbox::User \"root\";\n", 0644);
}

class SystemPlan {
  public:
    SystemPlan(const fs::path& project, SystemCopy& copy) : project_(project), copy_(copy) {}

    void make() {
        copy_.overlays.push_back({"/", {"/"}, std::nullopt, std::nullopt, true});
        seedPasswords(copy_.seeds);
        if (!isMachineRoot()) return seedLocks(copy_.seeds);
        copy_.hidden = closedPlaces();
        std::erase_if(copy_.hidden, [&](const fs::path& path) { return isSeeded(path); });
        for (const HostMount& mount : topmost(hostMounts()))
            if (mount.path != "/") show(mount);
    }

  private:
    bool isSeeded(const fs::path& path) const {
        return std::any_of(copy_.seeds.begin(), copy_.seeds.end(),
                           [&](const PrivateFile& seed) { return seed.target == path; });
    }

    bool isHidden(const fs::path& path) const {
        const auto holds = [&](const fs::path& hidden) { return isWithin(path, hidden); };
        return std::any_of(copy_.hidden.begin(), copy_.hidden.end(), holds) ||
               std::any_of(alwaysHidden().begin(), alwaysHidden().end(), holds);
    }

    // An overlay does not see through mount points: each file system of its own needs its own, or a cover.
    void show(const HostMount& mount) {
        struct stat info {};
        if (isMadeInside(mount.path) || isHidden(mount.path) || isWithin(mount.path, project_)) return;
        const bool isThere = ::lstat(mount.path.c_str(), &info) == 0;
        // A socket or a device would lead out of the copy.
        const bool isFile = S_ISREG(info.st_mode);
        if (!isThere || isOfTheKernel(mount.type) || !(isFile || S_ISDIR(info.st_mode))) {
            copy_.hidden.push_back(mount.path);
        } else if (isFile || mount.readOnly || !isFitBelow(mount.type)) {
            copy_.binds.push_back({mount.path, mount.path, true});
        } else {
            copy_.overlays.push_back({mount.path, {mount.path}, std::nullopt, std::nullopt, true});
        }
    }

    const fs::path& project_;
    SystemCopy& copy_;
};

}  // namespace

std::vector<fs::path> closedPlaces(std::size_t most) { return ClosedPlaces(most).find(); }

SystemCopy planSystemCopy(const fs::path& project) {
    SystemCopy copy;
    SystemPlan(project, copy).make();
    return copy;
}

void addTo(Workspace& workspace, const SystemCopy& copy) {
    workspace.system = true;
    workspace.overlays.insert(workspace.overlays.end(), copy.overlays.begin(), copy.overlays.end());
    workspace.binds.insert(workspace.binds.end(), copy.binds.begin(), copy.binds.end());
    workspace.hidden.insert(workspace.hidden.end(), copy.hidden.begin(), copy.hidden.end());
    workspace.seeds = copy.seeds;
}

fs::path findFuseOverlay() {
    if (isMachineRoot()) return {};
    fs::path program;
    for (const char* candidate : {"/usr/local/bin/fuse-overlayfs", "/usr/bin/fuse-overlayfs", "/bin/fuse-overlayfs"})
        if (program.empty() && ::access(candidate, X_OK) == 0) program = candidate;
    if (program.empty())
        throw Error(ErrorCode::kInfrastructure,
                    "an ordinary user's copy of the system needs fuse-overlayfs, which is not installed")
            .hint("install it (Debian and Ubuntu: sudo apt-get install fuse-overlayfs), or call as root");
    if (const FileDescriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC)); !device)
        throw Error(ErrorCode::kInfrastructure, "/dev/fuse cannot be opened: {}", errnoText(errno))
            .hint(
                "load the module and open it to users (sudo modprobe fuse; sudo chmod 666 /dev/fuse), or call as "
                "root");
    return program;
}

std::vector<IdRange> subordinateIds(std::string_view file, std::string_view user, uid_t uid) {
    std::vector<IdRange> ranges;
    std::istringstream lines{std::string(file)};
    for (std::string line; std::getline(lines, line);) {
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string name = line.substr(0, first);
        if (name != user && name != std::to_string(uid)) continue;
        const unsigned long start = std::strtoul(line.c_str() + first + 1, nullptr, 10);
        const unsigned long count = std::strtoul(line.c_str() + second + 1, nullptr, 10);
        if (start > 0 && count > 0 && start + count < UINT32_MAX)
            ranges.push_back({static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(count)});
    }
    return ranges;
}

}  // namespace gradus
