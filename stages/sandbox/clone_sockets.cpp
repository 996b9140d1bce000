// A socket in the file system is reached whatever the network is, so the host's are hidden one by one.

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include "stages/sandbox/clone_draft.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr int kDeepestSocket = 4;
constexpr std::size_t kMostEntries = 5000;

bool isSocket(const fs::path& path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

// Its server may be gone, and whoever asks then waits for it.
bool isRemote(std::string_view type) {
    constexpr std::array<std::string_view, 9> kTypes{"nfs", "nfs4", "cifs",   "smb3",  "ceph",
                                                     "afs", "9p",   "lustre", "autofs"};
    return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

/// "net:[4026531840]"; empty for a process that is gone. Half the price of a look at what the link leads to.
std::string networkOf(const std::string& process) {
    char name[64];
    const ssize_t length = ::readlink((process + "/ns/net").c_str(), name, sizeof name);
    return length > 0 ? std::string(name, static_cast<std::size_t>(length)) : std::string();
}

/// Sockets of the host, wherever they can be seen.
class HostSockets {
  public:
    explicit HostSockets(const CloneDraft& draft) : draft_(draft) {}

    std::set<fs::path> find() {
        addBound("/proc/net/unix");
        if (isMachineRoot()) addOtherNetworks();
        for (const HostMount& mount : topmost(draft_.mounts)) addMounted(mount);
        return std::move(found_);
    }

  private:
    // The kernel names the sockets of one network; a process in each of the others tells theirs.
    void addOtherNetworks() {
        std::set<std::string> seen{networkOf("/proc/self")};
        const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir("/proc"), &::closedir);
        while (const dirent* entry = list ? ::readdir(list.get()) : nullptr) {
            if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
            const std::string process = std::string("/proc/") + entry->d_name;
            if (seen.insert(networkOf(process)).second) addBound(process + "/net/unix");
        }
    }

    void addBound(const std::string& table) {
        std::ifstream lines(table);
        for (std::string line; std::getline(lines, line);)
            if (const std::size_t slash = line.find(" /"); slash != std::string::npos)
                addWithAliases(line.substr(slash + 1));
    }

    void addWithAliases(const fs::path& bound) {
        const fs::path path = realParent(bound.parent_path()) / bound.filename();
        add(path);
        for (const fs::path& alias : aliasesOf(path, draft_.mounts)) add(alias);
    }

    const fs::path& realParent(const fs::path& parent) {
        const auto [at, isNew] = parents_.try_emplace(parent.native());
        if (isNew) {
            std::error_code error;
            at->second = fs::canonical(parent, error);
            if (error) at->second = parent.lexically_normal();
        }
        return at->second;
    }

    // Bound where no table of ours tells of it, and mounted here: a container's way to its host.
    void addMounted(const HostMount& mount) {
        if (isRemote(mount.type) || isOfTheKernel(mount.type) || !isReachable(mount.path)) return;
        add(mount.path);
        // Where machines keep their sockets is in memory.
        if (mount.type == "tmpfs") walk(mount.path, 0);
    }

    void walk(const fs::path& directory, int depth) {
        const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(directory.c_str()), &::closedir);
        while (const dirent* entry = list ? ::readdir(list.get()) : nullptr) {
            const std::string_view name = entry->d_name;
            if (name == "." || name == "..") continue;
            if (++entries_ > kMostEntries) return;
            if (entry->d_type == DT_SOCK) add(directory / name);
            if (entry->d_type == DT_DIR && depth < kDeepestSocket) walk(directory / name, depth + 1);
        }
    }

    // In an overlay a socket is another inode than the one that is listened on.
    bool isReachable(const fs::path& path) const {
        return draft_.view.shows(path) && !(isWithin(path, draft_.request.project) && draft_.view.isCopied(path));
    }

    void add(const fs::path& path) {
        if (isReachable(path) && isSocket(path)) found_.insert(path);
    }

    const CloneDraft& draft_;
    std::map<std::string, fs::path> parents_;
    std::set<fs::path> found_;
    std::size_t entries_ = 0;
};

}  // namespace

std::set<fs::path> hostSockets(const CloneDraft& draft) { return HostSockets(draft).find(); }

}  // namespace gradus
