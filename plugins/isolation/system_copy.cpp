#include "plugins/isolation/system_copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "plugins/isolation/namespaces.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostClosed = 1000;
constexpr int kDeepest = 12;

std::string unescape(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size()) {
            plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

std::vector<std::string> words(const std::string& line) {
    std::istringstream stream(line);
    std::vector<std::string> all;
    for (std::string word; stream >> word;) all.push_back(word);
    return all;
}

// "36 35 98:0 /root /mount/point options optional… - type source options"
std::optional<SystemMount> parseLine(const std::string& line) {
    const std::vector<std::string> fields = words(line);
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 7 || fields.end() - dash < 2) return std::nullopt;
    const bool readOnly = fields[5] == "ro" || fields[5].starts_with("ro,");
    return SystemMount{fields[2], unescape(fields[3]), unescape(fields[4]), *(dash + 1), readOnly};
}

bool isWithin(const fs::path& path, const fs::path& directory) {
    const std::string& inner = path.native();
    const std::string& outer = directory.native();
    if (outer == "/") return true;
    return inner.starts_with(outer) && (inner.size() == outer.size() || inner[outer.size()] == '/');
}

// `path` below `from`, put below `to` instead.
fs::path moved(const fs::path& path, const fs::path& from, const fs::path& to) {
    const std::string rest = from == "/" ? path.native() : path.native().substr(from.native().size());
    if (rest.empty() || rest == "/") return to;
    return to == "/" ? fs::path(rest) : fs::path(to.native() + rest);
}

// The jail makes these itself, and /run and /tmp are private.
bool isMadeInside(const fs::path& path) {
    for (const char* own : {"/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp"})
        if (isWithin(path, own)) return true;
    return false;
}

bool isOfTheKernel(const std::string& type) {
    for (const char* name :
         {"proc", "sysfs", "devpts", "devtmpfs", "cgroup", "cgroup2", "securityfs", "debugfs", "tracefs", "bpf",
          "mqueue", "autofs", "binfmt_misc", "configfs", "pstore", "efivarfs", "rpc_pipefs", "nsfs", "hugetlbfs"})
        if (type == name) return true;
    return false;
}

// Names that differ by case are one file there, or their lookups are not the kernel's own: overlayfs refuses them.
bool isFitBelow(const std::string& type) {
    for (const char* name : {"vfat", "msdos", "exfat", "ntfs", "ntfs3", "hfs", "hfsplus", "cifs", "smb3", "afs"})
        if (type == name) return false;
    return true;
}

/// Finds what others than its owner may not look into, below places where machines keep such things. As root of a copy
/// everything could be read; this is what keeps what was closed outside closed inside.
class ClosedPlaces {
  public:
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
        if (found_.size() < kMostClosed) found_.push_back(path);
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
        copy_.hidden = ClosedPlaces().find();
        std::erase_if(copy_.hidden, [&](const fs::path& path) { return isSeeded(path); });
        std::set<fs::path> seen;
        const std::vector<SystemMount> mounts = systemMounts();
        // The last one made at a place is the one that is seen there.
        for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount)
            if (mount->at != "/" && seen.insert(mount->at).second) show(*mount);
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
    void show(const SystemMount& mount) {
        struct stat info {};
        if (isMadeInside(mount.at) || isHidden(mount.at) || isWithin(mount.at, project_)) return;
        if (::lstat(mount.at.c_str(), &info) != 0 || isOfTheKernel(mount.type)) {
            copy_.hidden.push_back(mount.at);
        } else if (!S_ISDIR(info.st_mode) || mount.readOnly || !isFitBelow(mount.type)) {
            copy_.binds.push_back({mount.at, mount.at, true});
        } else {
            copy_.overlays.push_back({mount.at, {mount.at}, std::nullopt, std::nullopt, true});
        }
    }

    const fs::path& project_;
    SystemCopy& copy_;
};

}  // namespace

std::vector<SystemMount> parseSystemMounts(std::string_view mountInfo) {
    std::vector<SystemMount> mounts;
    std::istringstream lines{std::string(mountInfo)};
    for (std::string line; std::getline(lines, line);)
        if (auto mount = parseLine(line)) mounts.push_back(std::move(*mount));
    return mounts;
}

std::vector<SystemMount> systemMounts() {
    std::ifstream file("/proc/self/mountinfo");
    std::stringstream text;
    text << file.rdbuf();
    return parseSystemMounts(text.str());
}

std::vector<fs::path> aliasesOf(const fs::path& path, const std::vector<SystemMount>& mounts) {
    const SystemMount* own = nullptr;
    for (const SystemMount& mount : mounts)
        if (isWithin(path, mount.at) && (own == nullptr || mount.at.native().size() >= own->at.native().size()))
            own = &mount;
    std::vector<fs::path> aliases;
    if (own == nullptr) return aliases;
    const fs::path inside = moved(path, own->at, own->top);
    for (const SystemMount& mount : mounts) {
        if (mount.device != own->device) continue;
        if (isWithin(inside, mount.top))
            aliases.push_back(moved(inside, mount.top, mount.at));
        else if (isWithin(mount.top, inside))
            aliases.push_back(mount.at);
    }
    std::erase_if(aliases, [&](const fs::path& alias) { return isWithin(alias, path) || alias == "/"; });
    return aliases;
}

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
