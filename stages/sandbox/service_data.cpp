#include "stages/sandbox/service_data.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "stages/sandbox/clone_view.h"
#include "stages/sandbox/layer_entries.h"
#include "stages/sandbox/layer_tree.h"
#include "store/model/canonical.h"
#include "store/model/error.h"
#include "store/model/utf8.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostFiles = 200'000;
constexpr std::size_t kDeepestData = 100;

struct Found {
    std::string path;  ///< below the directory
    struct stat info {};
};

[[noreturn]] void refuseUnreadable(const std::string& path) {
    throw Error(ErrorCode::kNotAllowed, "{}, below the data of a service, cannot be read: {}", printable(path),
                errnoText(errno))
        .hint("make it readable for you, or make the data with `prepare`");
}

void listInto(int directory, const std::string& prefix, std::size_t depth, std::vector<Found>& all) {
    if (depth > kDeepestData) throw Error(ErrorCode::kNotAllowed, "directories nest too deep below '{}'", prefix);
    std::vector<std::string> names = namesIn(directory);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
        struct stat info {};
        if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) failEntry("look at", name);
        if (all.size() >= kMostFiles)
            throw Error(ErrorCode::kNotAllowed, "more than {} files are too many to start a service with", kMostFiles);
        all.push_back({prefix + name, info});
        if (!S_ISDIR(info.st_mode)) continue;
        const FileDescriptor below = openBelow(directory, name, Tree::kForeign);
        if (!below) refuseUnreadable(prefix + name);
        listInto(below.get(), prefix + name + "/", depth + 1, all);
    }
}

std::vector<Found> listed(int directory) {
    std::vector<Found> all;
    listInto(directory, "", 0, all);
    return all;
}

// What a change can put there must not lead to what no change could name: no link on the whole way.
FileDescriptor openWithoutLinks(const fs::path& directory) {
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_NO_SYMLINKS;
    FileDescriptor open(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, directory.c_str(), &how, sizeof how)));
    if (open) return open;
    if (errno == ELOOP)
        throw Error(ErrorCode::kNotAllowed,
                    "{} is a link, or lies behind one: data of a service is copied from a directory",
                    printable(directory.native()))
            .hint("put the directory itself there, or name the place that the link leads to in `data`");
    throw Error(ErrorCode::kInfrastructure, "cannot open {}: {}", printable(directory.native()), errnoText(errno));
}

std::optional<pid_t> pidIn(int directory, const std::string& file) {
    constexpr std::size_t kLongest = 32;
    const FileDescriptor open(::openat(directory, file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    char text[kLongest] = "";
    if (!open || ::read(open.get(), text, sizeof text - 1) <= 0) return std::nullopt;
    const long pid = std::strtol(text, nullptr, 10);
    return pid > 0 ? std::optional(static_cast<pid_t>(pid)) : std::nullopt;
}

std::string nameOfProcess(pid_t pid) {
    std::ifstream in(fmt::format("/proc/{}/comm", pid));
    std::string name;
    std::getline(in, name);
    return name.empty() ? fmt::format("process {}", pid) : fmt::format("{} (process {})", printable(name), pid);
}

bool isAlive(pid_t pid) { return ::kill(pid, 0) == 0 || errno == EPERM; }

// What servers leave beside their data while they run: the first word is a pid.
bool isPidFile(const std::string& path) {
    const std::string name = fs::path(path).filename();
    return name == "postmaster.pid" || name.ends_with(".pid") || name == "mongod.lock" ||
           name == "postmaster.opts.lock";
}

std::optional<std::string> byPidFile(int directory, const std::vector<Found>& files) {
    for (const Found& file : files) {
        if (!S_ISREG(file.info.st_mode) || !isPidFile(file.path)) continue;
        const auto pid = pidIn(directory, file.path);
        if (pid && isAlive(*pid))
            return fmt::format("{} names {}, which runs", printable(file.path), nameOfProcess(*pid));
    }
    return std::nullopt;
}

using Inode = std::pair<dev_t, ino_t>;

/// "1: POSIX  ADVISORY  WRITE 1234 08:01:5678 0 EOF": every lock that anybody holds.
std::optional<std::string> byLock(const std::map<Inode, std::string>& files) {
    std::ifstream in("/proc/locks");
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::string number;
        std::string kind;
        words >> number >> kind;
        if (kind == "->") continue;  // only waits for one
        std::string advisory;
        std::string mode;
        pid_t pid = 0;
        std::string place;
        words >> advisory >> mode >> pid >> place;
        unsigned major = 0;
        unsigned minor = 0;
        unsigned long inode = 0;
        if (std::sscanf(place.c_str(), "%x:%x:%lu", &major, &minor, &inode) != 3) continue;
        const auto found = files.find({makedev(major, minor), inode});
        if (found != files.end())
            return fmt::format("{} is locked by {}", printable(found->second), nameOfProcess(pid));
    }
    return std::nullopt;
}

bool isOpenForWriting(pid_t pid, const std::string& number) {
    std::ifstream in(fmt::format("/proc/{}/fdinfo/{}", pid, number));
    for (std::string word; in >> word;) {
        if (word != "flags:") continue;
        std::string flags;
        in >> flags;
        return (std::strtoul(flags.c_str(), nullptr, 8) & O_ACCMODE) != O_RDONLY;
    }
    return false;
}

std::optional<std::string> byOpenFile(const std::map<Inode, std::string>& files) {
    std::error_code error;
    for (fs::directory_iterator it("/proc", error); !error && it != fs::directory_iterator(); it.increment(error)) {
        const std::string name = it->path().filename();
        pid_t pid = 0;
        if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
        std::error_code closed;
        for (fs::directory_iterator fd(it->path() / "fd", closed); !closed && fd != fs::directory_iterator();
             fd.increment(closed)) {
            struct stat info {};
            if (::stat(fd->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
            const auto found = files.find({info.st_dev, info.st_ino});
            if (found != files.end() && isOpenForWriting(pid, fd->path().filename()))
                return fmt::format("{} has {} open", nameOfProcess(pid), printable(found->second));
        }
    }
    return std::nullopt;
}

/// Changes with every write to any of the files.
Digest stampOf(const fs::path& directory, const std::vector<Found>& files) {
    Canonical form("gradus.data-stamp.1");
    form.text(directory.native()).list(files.size());
    for (const Found& file : files)
        form.text(file.path)
            .number(std::int64_t{file.info.st_mode})
            .number(std::int64_t{file.info.st_size})
            .number(static_cast<std::int64_t>(file.info.st_ino))
            .number(std::int64_t{file.info.st_mtim.tv_sec})
            .number(std::int64_t{file.info.st_mtim.tv_nsec})
            .number(std::int64_t{file.info.st_ctim.tv_sec})
            .number(std::int64_t{file.info.st_ctim.tv_nsec});
    return form.hash();
}

std::optional<std::string> liveUserOf(int directory, const std::vector<Found>& files) {
    if (auto reason = byPidFile(directory, files)) return reason;
    std::map<Inode, std::string> inodes;
    for (const Found& file : files)
        if (S_ISREG(file.info.st_mode)) inodes.emplace(Inode{file.info.st_dev, file.info.st_ino}, file.path);
    if (auto reason = byLock(inodes)) return reason;
    return byOpenFile(inodes);
}

/// A directory of the host's at rest, as it was found.
std::vector<Found> listedAtRest(int directory, const fs::path& path) {
    std::vector<Found> files = listed(directory);
    if (const auto user = liveUserOf(directory, files))
        throw Error(ErrorCode::kBusy, "{} is in use: {}", printable(path.native()), *user)
            .hint("a copy of a live database is not whole: stop that server first, or make the data with `prepare`");
    for (const Found& file : files)
        if (S_ISREG(file.info.st_mode) && ::faccessat(directory, file.path.c_str(), R_OK, AT_EACCESS) != 0)
            refuseUnreadable(file.path);
    return files;
}

void removeTree(const fs::path& directory) {
    const FileDescriptor open(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (open) removeContents(open.get());
    ::rmdir(directory.c_str());
}

/// Held by whoever makes the data of one key; the file goes with it.
class KeyLock {
  public:
    /// Somebody else may be making the same: whoever comes second waits, and finds it.
    static KeyLock wait(const fs::path& file) {
        for (;;) {
            KeyLock lock(file, openFile(file, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
            int result = 0;
            do result = ::flock(lock.open_.get(), LOCK_EX);
            while (result != 0 && errno == EINTR);
            if (result == 0 && lock.isTheFile()) return lock;
            lock.open_ = FileDescriptor();  // its last holder removed it
            if (result != 0) throw Error(ErrorCode::kInfrastructure, "cannot lock {}", file.native());
        }
    }
    /// Nothing if somebody holds it.
    static std::optional<KeyLock> attempt(const fs::path& file) {
        KeyLock lock(file, openFile(file, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
        if (::flock(lock.open_.get(), LOCK_EX | LOCK_NB) == 0 && lock.isTheFile()) return lock;
        lock.open_ = FileDescriptor();
        return std::nullopt;
    }
    KeyLock(KeyLock&&) noexcept = default;
    KeyLock& operator=(KeyLock&&) = delete;
    ~KeyLock() {
        if (open_) ::unlink(file_.c_str());
    }

  private:
    KeyLock(fs::path file, FileDescriptor open) : file_(std::move(file)), open_(std::move(open)) {}

    bool isTheFile() const {
        struct stat ours {};
        struct stat there {};
        return ::fstat(open_.get(), &ours) == 0 && ::lstat(file_.c_str(), &there) == 0 && ours.st_ino == there.st_ino;
    }

    fs::path file_;
    FileDescriptor open_;
};

bool moveTo(const fs::path& trash, const fs::path& place) {
    const fs::path target = trash / fmt::format("data.{}.{}", place.filename().native(), ::getpid());
    return ::rename(place.c_str(), target.c_str()) == 0;
}

// Nobody holds what a process that was killed had begun to make.
void collectUnfinished(const fs::path& place, const fs::path& trash) {
    const fs::path name = place.filename();
    if (name.extension() == ".new" || name.extension() == ".lock") {
        const auto lock = KeyLock::attempt(fs::path(place).replace_extension(".lock"));
        if (lock && name.extension() == ".new") moveTo(trash, place);
    } else if (name.native().starts_with(DataRoom::kPrefix)) {
        const FileDescriptor open(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (open && ::flock(open.get(), LOCK_EX | LOCK_NB) == 0) moveTo(trash, place);
    }
}

}  // namespace

DataRoom::DataRoom(const fs::path& root) {
    makeDirectories(root);
    std::string name = (root / (std::string(kPrefix) + "XXXXXX")).native();
    if (::mkdtemp(name.data()) == nullptr)
        throw Error(ErrorCode::kInfrastructure, "cannot make a directory in {}: {}", root.native(), errnoText(errno));
    path_ = name;
    held_ = openFile(path_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    ::flock(held_.get(), LOCK_EX | LOCK_NB);
}

DataRoom::~DataRoom() {
    try {
        removeContents(held_.get());
    } catch (const std::exception&) {
        return;  // left to collect()
    }
    ::rmdir(path_.c_str());
}

fs::path ServiceData::nothing(uid_t uid, gid_t gid) const {
    makeDirectories(root_);
    fs::path path = root_ / fmt::format("nothing-{}-{}", uid, gid);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        throw Error(ErrorCode::kInfrastructure, "cannot make {}: {}", path.native(), errnoText(errno));
    if (isMachineRoot() && ::chown(path.c_str(), uid, gid) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot own {}: {}", path.native(), errnoText(errno));
    return path;
}

fs::path ServiceData::find(const Digest& key, const fs::path& of,
                           const std::function<void(const fs::path&)>& make) const {
    makeDirectories(root_);
    const fs::path place = root_ / key.hex();
    const auto isThere = [&] { return fs::is_directory(fs::symlink_status(place)); };
    // The time is when it was last asked for.
    if (isThere() && ::utimensat(AT_FDCWD, place.c_str(), nullptr, 0) == 0) return place / "data";
    const KeyLock lock = KeyLock::wait(root_ / (key.hex() + ".lock"));
    if (isThere()) return place / "data";
    const fs::path fresh = root_ / (key.hex() + ".new");
    removeTree(fresh);
    makeDirectories(fresh / "data");
    make(fresh / "data");
    writeFileDurably(fresh / "of", of.native());
    // On the disk before it is there: what is there is taken as whole.
    if (::syncfs(openFile(fresh, O_RDONLY | O_DIRECTORY).get()) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot write {} to the disk: {}", fresh.native(), errnoText(errno));
    if (::rename(fresh.c_str(), place.c_str()) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot place {}: {}", place.native(), errnoText(errno));
    return place / "data";
}

std::pair<Digest, fs::path> ServiceData::copyOf(const fs::path& directory) const {
    const FileDescriptor source = openWithoutLinks(directory);
    const Digest key = stampOf(directory, listedAtRest(source.get(), directory));
    const fs::path copy = find(key, directory, [&](const fs::path& target) {
        const FileDescriptor made = openFile(target, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        copyTree(source.get(), made.get(), Tree::kForeign);
        if (stampOf(directory, listedAtRest(source.get(), directory)) != key)
            throw Error(ErrorCode::kBusy, "{} changed while it was copied", printable(directory.native()))
                .hint("stop what writes there, then call again");
    });
    return {key, copy};
}

std::uint64_t ServiceData::collect(Time before,
                                   const std::function<bool(const Digest& key, const fs::path& of)>& isNeeded,
                                   const fs::path& trash) const {
    std::uint64_t count = 0;
    std::error_code error;
    for (fs::directory_iterator it(root_, error); !error && it != fs::directory_iterator(); it.increment(error)) {
        const std::string name = it->path().filename();
        struct stat info {};
        const auto key = Digest::fromHex(name);
        if (!key) collectUnfinished(it->path(), trash);
        if (!key || ::lstat(it->path().c_str(), &info) != 0) continue;
        const Time used = fromMillis(info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1'000'000);
        if (used > before) continue;
        constexpr std::uint64_t kLongestPath = 4096;
        if (isNeeded(*key, readSmallFile(it->path() / "of", kLongestPath, "where the data belongs"))) continue;
        if (moveTo(trash, it->path())) ++count;
    }
    return count;
}

Digest contentDigest(const fs::path& directory) {
    Canonical form("gradus.inputs.1");
    Hasher hash;
    const std::vector<Found> files = listed(openFile(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).get());
    form.list(files.size());
    for (const Found& file : files) {
        form.text(file.path).number(std::int64_t{file.info.st_mode & (S_IFMT | 0777U)});
        if (S_ISREG(file.info.st_mode)) {
            const FileDescriptor open = openFile(directory / file.path, O_RDONLY | O_NOFOLLOW);
            char buffer[65536];
            for (ssize_t got = 0; (got = ::read(open.get(), buffer, sizeof buffer)) > 0;)
                hash.update({buffer, static_cast<std::size_t>(got)});
            form.digest(hash.finish());
        }
        if (S_ISLNK(file.info.st_mode)) form.text(fs::read_symlink(directory / file.path).native());
    }
    return form.hash();
}

}  // namespace gradus
