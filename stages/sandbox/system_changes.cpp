#include "stages/sandbox/system_changes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "stages/sandbox/layer_entries.h"
#include "store/file.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostCounted = 1'000'000;
constexpr std::size_t kMostListed = 1000;
constexpr int kDeepestCounted = 256;

// What fuse-overlayfs keeps in a layer for itself; ".wh.NAME" is its other sign of a deletion.
constexpr std::string_view kFuseMark = ".wh.";
bool isFusesOwn(const std::string& name) { return name == ".wh..wh..opq" || name == ".wh..opq"; }

class SystemWalk {
  public:
    SystemWalk(const std::vector<PrivateFile>& seeds, SystemChanges& changes, const std::function<void()>& between)
        : seeds_(seeds), changes_(changes), between_(between) {}

    /// `layers` are directories of one name, topmost first. `hosts`: the host has such a directory too.
    void walk(const std::vector<int>& layers, const fs::path& at, bool hosts, int depth) {
        if (depth > kDeepestCounted) return;
        std::set<std::string> names;
        for (const int layer : layers)
            for (std::string& name : namesIn(layer)) names.insert(std::move(name));
        for (const std::string& name : names) {
            if (changes_.entries >= kMostCounted) return;
            if (between_) between_();
            if (!isFusesOwn(name)) visit(layers, at, name, hosts, depth);
        }
    }

  private:
    void visit(const std::vector<int>& layers, const fs::path& at, const std::string& name, bool hosts, int depth) {
        if (name.starts_with(kFuseMark)) {
            const fs::path deleted = at / name.substr(kFuseMark.size());
            if (hosts && isOnHost(deleted)) add(deleted, ChangeKind::kDeleted);
            return;
        }
        const fs::path path = at / name;
        const bool known = hosts && isOnHost(path);
        std::vector<FileDescriptor> open;
        for (const int layer : layers) {
            struct stat info {};
            if (::fstatat(layer, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
            if (!S_ISDIR(info.st_mode)) {
                if (open.empty()) return file(path, info, known);
                break;
            }
            open.push_back(openBelow(layer, name));
            if (!open.back() || isOpaque(open.back().get(), fuse_)) break;
        }
        directory(open, path, known, depth);
    }

    void file(const fs::path& path, const struct stat& info, bool known) {
        if (isWhiteout(info)) {
            if (known) add(path, ChangeKind::kDeleted);
            return;
        }
        if (!isUntouchedSeed(path, info)) add(path, known ? ChangeKind::kModified : ChangeKind::kAdded);
    }

    void directory(const std::vector<FileDescriptor>& open, const fs::path& path, bool known, int depth) {
        std::vector<int> layers;
        for (const FileDescriptor& layer : open)
            if (layer) layers.push_back(layer.get());
        if (layers.empty()) return;
        if (!known)
            add(path, ChangeKind::kAdded);
        else if (isOpaque(layers.back(), fuse_))
            add(path, ChangeKind::kModified);
        walk(layers, path, known, depth + 1);
    }

    // One that cannot be looked at is there.
    static bool isOnHost(const fs::path& path) {
        struct stat info {};
        return ::lstat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
    }

    bool isUntouchedSeed(const fs::path& path, const struct stat& info) const {
        return std::any_of(seeds_.begin(), seeds_.end(), [&](const PrivateFile& seed) {
            return seed.target == path && S_ISREG(info.st_mode) &&
                   static_cast<std::uint64_t>(info.st_size) == seed.content.size();
        });
    }

    void add(const fs::path& path, ChangeKind kind) {
        ++changes_.entries;
        const std::string& text = path.native();
        ++changes_.below[text.substr(0, text.find('/', 1))];
        if (changes_.listed.size() < kMostListed) changes_.listed.push_back({text, kind});
    }

    const std::vector<PrivateFile>& seeds_;
    SystemChanges& changes_;
    const std::function<void()>& between_;
    const FuseMarks fuse_ = isMachineRoot() ? FuseMarks::kFiles : FuseMarks::kCount;
};

}  // namespace

SystemChanges systemChanges(const std::vector<SystemSource>& sources, const std::vector<PrivateFile>& seeds,
                            const std::function<void()>& between) {
    SystemChanges changes;
    for (const SystemSource& source : sources)
        SystemWalk(seeds, changes, between).walk(source.layers, source.base, true, 0);
    std::sort(changes.listed.begin(), changes.listed.end(),
              [](const SystemChange& left, const SystemChange& right) { return left.path < right.path; });
    return changes;
}

}  // namespace gradus
