#include "stages/sandbox/layer_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>

#include "stages/sandbox/layer_entries.h"
#include "store/model/error.h"

namespace gradus {

namespace {

void refuseDeeper(int depth) {
    if (depth > kDeepest)
        throw Error(ErrorCode::kNotAllowed, "a sandbox's directories nest deeper than {}", kDeepest)
            .hint("remove them inside the sandbox, then try again");
}

FileDescriptor makeBelow(int directory, const std::string& name) {
    if (::mkdirat(directory, name.c_str(), 0700) != 0) failEntry("make", name);
    FileDescriptor made(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!made) failEntry("open", name);
    return made;
}

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "/" + name; }

// Opening a directory may have changed its mode, so how it looked before is what counts.
void putOn(const struct stat& look, int directory) {
    if (::fchmod(directory, look.st_mode & 07777) != 0) failEntry("set the mode of", "a directory");
}

/// A directory by its whole path, one name after the other: the kernel takes no path as long as these may be.
ReadDirectory openFar(int root, const std::string& path, Tree tree) {
    std::optional<ReadDirectory> at;
    for (std::size_t begin = 0; begin < path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        ReadDirectory next(at ? at->get() : root, path.substr(begin, end - begin), tree);
        at.emplace(std::move(next));
        begin = end + 1;
    }
    return std::move(*at);
}

class TreeCopy {
  public:
    TreeCopy(int source, int target, Tree tree, const std::set<std::string>& leftOut)
        : source_(source), target_(target), tree_(tree), leftOut_(leftOut), entries_(target, tree) {}

    void run() {
        copy(source_, target_, "", 0);
        while (!far_.empty()) {
            const std::string path = std::move(far_.back());
            far_.pop_back();
            const ReadDirectory source = openFar(source_, path, tree_);
            // By a descriptor of its own: the other one would give it back the mode that it was made with.
            const FileDescriptor target(
                ::openat(openFar(target_, path, Tree::kOurs).get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
            if (!target) failEntry("open", "a directory");
            fill(source, target.get(), path, 0);
        }
    }

  private:
    void copy(int from, int to, const std::string& path, int depth) {
        for (const std::string& name : namesIn(from)) {
            if (leftOut_.contains(joined(path, name))) continue;
            const struct stat info = statBelow(from, name);
            if (!S_ISDIR(info.st_mode)) {
                entries_.copy(from, to, name, joined(path, name));
                continue;
            }
            const FileDescriptor target = makeBelow(to, name);
            // A descriptor per level would run out: what lies deeper waits until these are closed again.
            if (depth >= kDeepest)
                far_.push_back(joined(path, name));
            else
                fill(ReadDirectory(from, name, tree_), target.get(), joined(path, name), depth);
        }
    }

    void fill(const ReadDirectory& source, int target, const std::string& path, int depth) {
        copy(source.get(), target, path, depth + 1);
        copyLook(source.get(), target, Marks::kCarry);
        putOn(source.info(), target);
    }

    int source_;
    int target_;
    Tree tree_;
    const std::set<std::string>& leftOut_;
    EntryCopier entries_;
    std::vector<std::string> far_;
};

/// The directories of one name that an overlay would show as one.
struct Merged {
    std::vector<ReadDirectory> parts;  ///< topmost first
    bool opaque = false;               ///< nothing below them shows
};

class TreeMerge {
  public:
    TreeMerge(int target, FuseMarks fuse) : fuse_(fuse), entries_(target) {}

    template <typename Directory>
    void merge(const std::vector<Directory>& layers, int to, const std::string& path, int depth) {
        refuseDeeper(depth);
        std::set<std::string> names;
        for (const Directory& layer : layers)
            for (std::string& name : namesIn(layer.get())) names.insert(std::move(name));
        for (const std::string& name : names) mergeName(layers, to, name, joined(path, name), depth);
    }

  private:
    template <typename Directory>
    void mergeName(const std::vector<Directory>& layers, int to, const std::string& name, const std::string& path,
                   int depth) {
        Merged merged;
        for (const Directory& layer : layers) {
            struct stat info {};
            if (::fstatat(layer.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
                if (errno == ENOENT) continue;
                failEntry("look at", name);
            }
            if (!S_ISDIR(info.st_mode)) {
                // Below a directory, a file or a deletion ends what the directory is merged with.
                if (merged.parts.empty()) return linkOrCopy(layer.get(), to, name, path);
                merged.opaque = true;
                break;
            }
            merged.parts.emplace_back(layer.get(), name);
            merged.opaque = isOpaque(merged.parts.back().get(), fuse_);
            if (merged.opaque) break;
        }
        const FileDescriptor target = makeBelow(to, name);
        merge(merged.parts, target.get(), path, depth + 1);
        copyLook(merged.parts.front().get(), target.get(), Marks::kCarry);
        putOn(merged.parts.front().info(), target.get());
        if (merged.opaque) setOpaque(target.get());
    }

    void linkOrCopy(int from, int to, const std::string& name, const std::string& path) {
        if (::linkat(from, name.c_str(), to, name.c_str(), 0) != 0) entries_.copy(from, to, name, path);
    }

    FuseMarks fuse_;
    EntryCopier entries_;
};

class Removal {
  public:
    explicit Removal(int root) : root_(root) {}

    void empty(int directory, int depth) {
        for (const std::string& name : namesIn(directory)) remove(directory, name, depth);
    }
    std::uint64_t bytes() const { return bytes_; }
    /// Whether something was moved up since this was last asked: there is more to do.
    bool hasLifted() { return std::exchange(lifted_, false); }
    /// What was met first that cannot be deleted.
    const std::optional<Error>& failure() const { return failure_; }

  private:
    // What somebody else deleted meanwhile is deleted. What cannot be must not keep the rest.
    void check(int result, const std::string& name) {
        if (result == 0 || errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST || failure_) return;
        try {
            failEntry("remove", name);
        } catch (const Error& error) {
            failure_ = error;
        }
    }

    void remove(int directory, const std::string& name, int depth) {
        struct stat info {};
        if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return check(-1, name);
        if (!S_ISDIR(info.st_mode)) {
            if (info.st_nlink == 1) bytes_ += static_cast<std::uint64_t>(info.st_blocks) * 512;
            return check(::unlinkat(directory, name.c_str(), 0), name);
        }
        if (depth >= kDeepest) return lift(directory, name);
        const FileDescriptor below = openBelow(directory, name);
        if (!below) return check(-1, name);
        empty(below.get(), depth + 1);
        check(::unlinkat(directory, name.c_str(), AT_REMOVEDIR), name);
    }

    // A descriptor per level would run out: what is too deep is moved up, and met again.
    void lift(int directory, const std::string& name) {
        static std::atomic<std::uint64_t> count{0};
        const std::string place = "deep." + std::to_string(::getpid()) + "." + std::to_string(++count);
        const int result = ::renameat(directory, name.c_str(), root_, place.c_str());
        lifted_ = lifted_ || result == 0;
        check(result, name);
    }

    int root_;
    std::uint64_t bytes_ = 0;
    bool lifted_ = false;
    std::optional<Error> failure_;
};

}  // namespace

void copyTree(int source, int target, Tree tree, const std::set<std::string>& leftOut) {
    TreeCopy(source, target, tree, leftOut).run();
    copyLook(source, target, Marks::kLeave);
}

void mergeTrees(const std::vector<FileDescriptor>& layers, int target, FuseMarks fuse) {
    TreeMerge(target, fuse).merge(layers, target, "", 0);
    copyLook(layers.front().get(), target, Marks::kLeave);
}

namespace {

void addAllocated(int directory, int depth, std::set<std::pair<dev_t, ino_t>>& seen, std::uint64_t& bytes) {
    constexpr std::uint64_t kBlock = 512;
    for (const std::string& name : namesIn(directory)) {
        struct stat info {};
        if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        const bool isNew = S_ISDIR(info.st_mode) || info.st_nlink < 2 || seen.insert({info.st_dev, info.st_ino}).second;
        if (isNew) bytes += static_cast<std::uint64_t>(info.st_blocks) * kBlock;
        if (!S_ISDIR(info.st_mode) || depth == kDeepest) continue;
        const FileDescriptor below(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (below) addAllocated(below.get(), depth + 1, seen, bytes);
    }
}

}  // namespace

std::uint64_t allocatedBelow(int directory) {
    std::set<std::pair<dev_t, ino_t>> seen;
    std::uint64_t bytes = 0;
    addAllocated(directory, 0, seen, bytes);
    return bytes;
}

std::uint64_t removeContents(int directory) {
    Removal removal(directory);
    // What was lifted out of the depth is in the directory itself by then.
    for (int round = 0; round < 100'000 && !namesIn(directory).empty(); ++round) {
        removal.empty(directory, 0);
        if (!removal.hasLifted() && removal.failure()) throw Error(*removal.failure());
    }
    return removal.bytes();
}

}  // namespace gradus
