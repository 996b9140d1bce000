#include "stages/sandbox/pinned_base.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "stages/changes/base_view.h"
#include "stages/changes/directory_listing.h"
#include "stages/changes/git_work_tree.h"
#include "stages/changes/ignored_paths.h"
#include "stages/sandbox/layer_entries.h"
#include "stages/sandbox/layer_tree.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kGit = ".git";
constexpr std::string_view kRules = ".gitignore";
constexpr std::size_t kChunk = 65536;
constexpr std::uint64_t kBlock = 512;  // of st_blocks

std::string join(const std::string& directory, const std::string& name) {
    return directory.empty() ? name : directory + '/' + name;
}

[[noreturn]] void fail(std::string_view what, const std::string& path, int error) {
    throw Error(ErrorCode::kInfrastructure, "cannot {} '{}' of the project: {}", what, printable(path),
                errnoText(error))
        .hint(error == ENOSPC ? "free some space where the state directory lies, and call again" : "");
}

/// Bytes that only ever come and go as a whole: no command sees another one's.
bool isGitsStock(const std::string& name) {
    return name == "objects" || name == "lfs" || name == "annex" || name == "modules" || name == "worktrees";
}

bool isWithinGit(const std::string& path) {
    return path == kGit || path.starts_with(".git/") || path.ends_with("/.git") ||
           path.find("/.git/") != std::string::npos;
}

FileDescriptor openDirectory(int root, const std::string& path) { return openBeneath(root, path, false); }

/// How much lies below a directory, as far as it has to be known.
struct Measure {
    std::uint64_t paths = 0;
    std::uint64_t bytes = 0;

    bool fits(std::uint64_t mostPaths, std::uint64_t mostBytes) const {
        return paths <= mostPaths && bytes <= mostBytes;
    }
};

/// Walks everything below `path`, one directory open at a time, until `look` says no. False as well where something
/// cannot be entered, is another file system's, or is gone.
bool everyBelow(int root, const std::string& path,
                const std::function<bool(const struct stat&, const std::string&)>& look) {
    std::vector<std::string> waiting{path};
    std::optional<dev_t> device;
    while (!waiting.empty()) {
        const std::string at = std::move(waiting.back());
        waiting.pop_back();
        const FileDescriptor directory = openDirectory(root, at);
        struct stat info {};
        std::vector<DirectoryItem> items;
        if (!directory || ::fstat(directory.get(), &info) != 0 || !look(info, at)) return false;
        if (device && info.st_dev != *device) return false;
        device = info.st_dev;
        if (listDirectory(directory.get(), 0, items) != 0) return false;
        for (const DirectoryItem& item : items) {
            std::string inside = join(at, item.name);
            if (item.type == DT_DIR) {
                waiting.push_back(std::move(inside));
                continue;
            }
            if (::fstatat(directory.get(), item.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
            if (!look(info, inside)) return false;
        }
    }
    return true;
}

bool isCopied(const struct stat& info) { return S_ISREG(info.st_mode) || S_ISLNK(info.st_mode); }

std::uint64_t allocated(const struct stat& info) { return static_cast<std::uint64_t>(info.st_blocks) * kBlock; }

void copyStretch(int from, int to, off_t at, off_t end, const std::string& path) {
    static thread_local std::array<char, kChunk> buffer;
    while (at < end) {
        const auto wanted = std::min<std::size_t>(kChunk, static_cast<std::size_t>(end - at));
        const ssize_t got = ::pread(from, buffer.data(), wanted, at);
        if (got < 0) fail("read", path, errno);
        if (got == 0) return;  // cut meanwhile: whoever asks for its time will know
        for (ssize_t put = 0; put < got;) {
            const ssize_t wrote = ::pwrite(to, buffer.data() + put, static_cast<std::size_t>(got - put), at + put);
            if (wrote <= 0) fail("copy", path, wrote < 0 ? errno : EIO);
            put += wrote;
        }
        at += got;
    }
}

void copyBytes(int from, int to, const struct stat& info, const std::string& path) {
    if (allocated(info) >= static_cast<std::uint64_t>(info.st_size))
        return copyStretch(from, to, 0, info.st_size, path);
    for (off_t at = 0; at < info.st_size;) {
        const off_t data = ::lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) break;  // a hole up to the end
        const off_t end = data < 0 ? -1 : ::lseek(from, data, SEEK_HOLE);
        if (end < 0) fail("read", path, errno);
        copyStretch(from, to, data, end, path);
        at = end;
    }
    if (::ftruncate(to, info.st_size) != 0) fail("copy", path, errno);
}

/// One directory of the project beside its copy.
struct Beside {
    int from;
    int to;
    const std::string& path;
    bool& canShare;  ///< the file system has not said yet that it cannot
};

bool copyLink(const Beside& beside, const std::string& name, const struct stat& info) {
    std::array<char, 4097> text{};
    const ssize_t length = ::readlinkat(beside.from, name.c_str(), text.data(), text.size() - 1);
    if (length < 0) return false;
    if (::symlinkat(text.data(), beside.to, name.c_str()) != 0) fail("copy", join(beside.path, name), errno);
    // Only root may give files away; a copy that belongs to who makes it is what everybody else gets.
    if (::geteuid() == 0 && ::fchownat(beside.to, name.c_str(), info.st_uid, info.st_gid, AT_SYMLINK_NOFOLLOW) != 0)
        fail("own the copy of", join(beside.path, name), errno);
    const timespec times[2] = {info.st_atim, info.st_mtim};
    ::utimensat(beside.to, name.c_str(), times, AT_SYMLINK_NOFOLLOW);
    return true;
}

bool copyFile(const Beside& beside, const std::string& name) {
    const std::string path = join(beside.path, name);
    const FileDescriptor source(
        ::openat(beside.from, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info {};
    if (!source || ::fstat(source.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
    const FileDescriptor made(::openat(beside.to, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!made) fail("copy", path, errno);
    beside.canShare = beside.canShare && (info.st_size == 0 || ::ioctl(made.get(), FICLONE, source.get()) == 0);
    if (!beside.canShare) copyBytes(source.get(), made.get(), info, path);
    copyLook(source.get(), made.get(), Marks::kLeave);
    return true;
}

bool copyEntry(const Beside& beside, const std::string& name) {
    struct stat info {};
    if (::fstatat(beside.from, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
    return S_ISLNK(info.st_mode) ? copyLink(beside, name, info) : copyFile(beside, name);
}

}  // namespace

/// Decides, for every entry of the project, whether it is copied.
class PinPlan::Walk {
  public:
    Walk(const fs::path& project, const PinBudget& budget, PinPlan& plan)
        : budget_(budget), plan_(plan), root_(openFile(project, O_RDONLY | O_DIRECTORY)), ignored_(project, {}) {
        struct stat info {};
        ::fstat(root_.get(), &info);
        device_ = info.st_dev;
    }

    /// False: more than may be copied.
    bool run() {
        waiting_.push_back({"", ignored_.outermost(), false});
        while (!waiting_.empty()) {
            const Waiting next = std::move(waiting_.back());
            waiting_.pop_back();
            visit(next);
            if (!copied_.fits(budget_.mostPaths, budget_.mostBytes)) return false;
        }
        plan_.paths_ = copied_.paths + environment_.paths;
        plan_.bytes_ = copied_.bytes + environment_.bytes;
        return true;
    }

  private:
    struct Waiting {
        std::string path{};
        IgnoredPaths::Scope scope = IgnoredPaths::kNone;
        bool ignored = false;
    };

    void visit(const Waiting& place) {
        const FileDescriptor directory = openDirectory(root_.get(), place.path);
        std::vector<DirectoryItem> items;
        const int error = directory ? listDirectory(directory.get(), 0, items) : errno;
        // Gone meanwhile, or something else by now: whoever looks at the times later will know.
        if (error == ENOENT || error == ENOTDIR || error == ELOOP) return;
        if (error != 0) fail("read", place.path, error);
        Directory made{.path = place.path, .ignored = place.ignored};
        IgnoredPaths::Scope scope = place.scope;
        const bool hasRules =
            std::any_of(items.begin(), items.end(), [](const DirectoryItem& item) { return item.name == kRules; });
        if (scope != IgnoredPaths::kNone && hasRules && !place.ignored)
            if (const auto rules = readPlainFile(directory.get(), std::string(kRules), IgnoredPaths::kRulesCap))
                scope = ignored_.within(scope, place.path, *rules);
        for (const DirectoryItem& item : items) {
            made.names.insert(item.name);
            judge({place.path, scope, place.ignored}, directory.get(), item, made);
        }
        plan_.directories_.push_back(std::move(made));
    }

    void judge(const Waiting& place, int directory, const DirectoryItem& item, Directory& made) {
        const std::string path = join(place.path, item.name);
        struct stat info {};
        if (::fstatat(directory, item.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
        if (S_ISDIR(info.st_mode)) return judgeDirectory(place, item.name, path, info);
        const bool ignored = place.ignored || isIgnored(place.scope, path, false);
        // Sockets and pipes are nobody's bytes; what cannot be read outside cannot be read inside either.
        if (!isCopied(info) || !isReadable(directory, item.name, info)) return show(path, false);
        if (ignored && !place.ignored && allocated(info) > budget_.mostIgnoredBytes) return show(path, true);
        Measure& measure = ignored ? environment_ : copied_;
        ++measure.paths;
        measure.bytes += allocated(info);
        made.files.push_back({item.name, ignored});
    }

    void judgeDirectory(const Waiting& place, const std::string& name, const std::string& path,
                        const struct stat& info) {
        const bool isOpen = ::faccessat(root_.get(), path.c_str(), R_OK | X_OK, AT_EACCESS) == 0;
        if (info.st_dev != device_ || !isOpen) return show(path, false);
        if (name == kGit) {
            plan_.hasGit_ = plan_.hasGit_ || place.path.empty();
            return enter(path, place.scope, true);
        }
        const bool isStock = isGitsStock(name) && isWithinGit(place.path);
        const bool isEnvironment = isStock || (!place.ignored && isLeftAlone(place.scope, path));
        if (!isEnvironment) return enter(path, place.scope, place.ignored);
        if (isSmall(path)) return enter(path, IgnoredPaths::kNone, true);
        show(path, !isStock);
    }

    void enter(const std::string& path, IgnoredPaths::Scope scope, bool ignored) {
        ++(ignored ? environment_ : copied_).paths;
        waiting_.push_back({path, scope, ignored});
    }

    void show(const std::string& path, bool watched) { plan_.live_.push_back({path, watched}); }

    bool isIgnored(IgnoredPaths::Scope scope, const std::string& path, bool isDirectory) {
        if (scope == IgnoredPaths::kNone || !ignored_.isExcluded(scope, path, isDirectory)) return false;
        return isDirectory ? !ignored_.hasTrackedBeneath(path) : !ignored_.isTracked(path);
    }

    // Ignored, or a repository of its own: no change is about what is in it.
    bool isLeftAlone(IgnoredPaths::Scope scope, const std::string& path) {
        if (isIgnored(scope, path, true)) return true;
        if (scope != IgnoredPaths::kNone && ignored_.hasTrackedBeneath(path)) return false;
        struct stat info {};
        return ::fstatat(root_.get(), join(path, std::string(kGit)).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
    }

    bool isSmall(const std::string& path) {
        Measure measure = environment_;
        return everyBelow(root_.get(), path, [&](const struct stat& info, const std::string&) {
            ++measure.paths;
            measure.bytes += allocated(info);
            const bool isPlain = S_ISDIR(info.st_mode) || isCopied(info);
            return isPlain && measure.fits(budget_.mostIgnoredPaths, budget_.mostIgnoredBytes);
        });
    }

    static bool isReadable(int directory, const std::string& name, const struct stat& info) {
        return S_ISLNK(info.st_mode) || ::faccessat(directory, name.c_str(), R_OK, AT_EACCESS) == 0;
    }

    const PinBudget& budget_;
    PinPlan& plan_;
    FileDescriptor root_;
    dev_t device_ = 0;
    IgnoredPaths ignored_;
    std::vector<Waiting> waiting_;
    Measure copied_;
    Measure environment_;  ///< of what git ignores, and its own
};

std::optional<PinPlan> PinPlan::make(const fs::path& project, const PinBudget& budget) {
    PinPlan plan;
    plan.project_ = project;
    if (!Walk(project, budget, plan).run()) return std::nullopt;
    plan.openWays();
    return plan;
}

// Whatever is below a directory that hides the project's own is hidden as well. The top cannot hide anything.
void PinPlan::openWays() {
    if (live_.empty()) return;
    std::set<std::string> ways{""};
    for (const Live& live : live_)
        for (std::size_t slash = live.path.rfind('/'); slash != std::string::npos && slash > 0;
             slash = live.path.rfind('/', slash - 1))
            ways.insert(live.path.substr(0, slash));
    for (Directory& directory : directories_) directory.shows = ways.contains(directory.path);
}

bool PinPlan::copyTo(const fs::path& target) const {
    const FileDescriptor from = openFile(project_, O_RDONLY | O_DIRECTORY);
    const FileDescriptor to = openFile(target, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    bool canShare = true;
    for (const Directory& directory : directories_) {
        if (!directory.path.empty() && ::mkdirat(to.get(), directory.path.c_str(), 0700) != 0)
            fail("make a copy of", directory.path, errno);
        const FileDescriptor source = openDirectory(from.get(), directory.path);
        const FileDescriptor made = openDirectory(to.get(), directory.path);
        if (!source) return false;
        if (!made) fail("open the copy of", directory.path, errno);
        for (const File& file : directory.files)
            if (!copyEntry({source.get(), made.get(), directory.path, canShare}, file.name) && !file.ignored)
                return false;
    }
    // From the inside out: a directory may not let us in any more, and its time moves with every name in it.
    for (auto directory = directories_.rbegin(); directory != directories_.rend(); ++directory) {
        const FileDescriptor source = openDirectory(from.get(), directory->path);
        const FileDescriptor made = openDirectory(to.get(), directory->path);
        if (!source) return false;
        if (!made) fail("open the copy of", directory->path, errno);
        if (!directory->shows && !directory->path.empty()) setOpaque(made.get());
        copyLook(source.get(), made.get(), Marks::kLeave);
    }
    return true;
}

std::optional<std::string> PinPlan::firstTouched(const timespec& since) const {
    const FileDescriptor root = openFile(project_, O_RDONLY | O_DIRECTORY);
    for (const Directory& directory : directories_) {
        if (directory.ignored) continue;
        const FileDescriptor open = openDirectory(root.get(), directory.path);
        struct stat info {};
        if (!open || ::fstat(open.get(), &info) != 0) return directory.path;
        if (!isSettled(info.st_ctim, since))
            if (auto name = newName(root.get(), directory)) return name;
        for (const File& file : directory.files) {
            if (file.ignored) continue;
            if (::fstatat(open.get(), file.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
                !isSettled(info.st_ctim, since))
                return join(directory.path, file.name);
        }
    }
    return std::nullopt;
}

std::optional<std::string> PinPlan::newName(int root, const Directory& directory) const {
    const FileDescriptor open = openDirectory(root, directory.path);
    std::vector<DirectoryItem> items;
    if (!open || listDirectory(open.get(), 0, items) != 0) return std::nullopt;  // nothing of it is shown any more
    for (const DirectoryItem& item : items)
        if (!directory.names.contains(item.name)) return join(directory.path, item.name);
    return std::nullopt;
}

std::optional<std::string> PinPlan::firstMoved(const timespec& since) const {
    const FileDescriptor root = openFile(project_, O_RDONLY | O_DIRECTORY);
    for (const Directory& directory : directories_)
        if (directory.shows && !isWithinGit(directory.path))
            if (auto name = newName(root.get(), directory)) return name;
    for (const Live& live : live_) {
        if (!live.watched) continue;
        struct stat info {};
        std::string touched = live.path;
        const auto look = [&](const struct stat& seen, const std::string& path) {
            touched = path;
            return isSettled(seen.st_ctim, since);
        };
        if (::fstatat(root.get(), live.path.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return touched;
        const bool isStill = S_ISDIR(info.st_mode) ? everyBelow(root.get(), live.path, look) : look(info, live.path);
        if (!isStill) return touched;
    }
    return std::nullopt;
}

std::vector<std::string> PinPlan::settle(const timespec& since) {
    std::vector<std::string> restless;
    for (Live& live : live_) {
        PinPlan alone;
        alone.project_ = project_;
        alone.live_ = {live};
        if (!alone.firstMoved(since)) continue;
        live.watched = false;
        restless.push_back(live.path);
    }
    return restless;
}

std::vector<std::string> PinPlan::shownAsTheyAre() const {
    std::vector<std::string> paths;
    for (const Live& live : live_) paths.push_back(live.path);
    return paths;
}

}  // namespace gradus
