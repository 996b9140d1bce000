#include "stages/changes/tree_writer_beneath.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBufferSize = std::size_t{128} * 1024;
constexpr std::size_t kLongestLink = 4096;
constexpr int kPatience = 50;

/// Never outside, never through a link, never into another mount.
constexpr std::uint64_t kBeneath = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;

int openBeneath(int root, const std::string& path, int flags) {
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
    how.resolve = kBeneath;
    while (true) {
        const long fd = ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
        // EAGAIN: something was renamed meanwhile and the kernel could not be sure.
        if (fd >= 0 || (errno != EINTR && errno != EAGAIN)) return static_cast<int>(fd);
    }
}

Obstacle obstacleOf(int error, std::string_view path) {
    switch (error) {
        case ENOENT:
        case ENOTDIR:
            return Obstacle::kMissing;
        case ELOOP:
            return Obstacle::kLink;
        case EXDEV:
            return Obstacle::kMount;
        case EACCES:
            return Obstacle::kDenied;
        case ENOSYS:
            throw Error(ErrorCode::kInfrastructure, "this kernel has no openat2, without which no tree is written")
                .hint("Linux 5.6 or newer is needed, and a container's filter must let openat2 pass");
        default:
            throwFault("open", path, error);
    }
}

Sighting fromStatx(const struct statx& info) {
    Sighting seen;
    seen.exists = true;
    seen.mode = info.stx_mode;
    seen.user = info.stx_uid;
    seen.group = info.stx_gid;
    seen.size = info.stx_size;
    seen.inode = info.stx_ino;
    seen.modified = {info.stx_mtime.tv_sec, static_cast<long>(info.stx_mtime.tv_nsec)};
    seen.changed = {info.stx_ctime.tv_sec, static_cast<long>(info.stx_ctime.tv_nsec)};
    seen.isMountPoint = (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
    seen.isFrozen = (info.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) != 0;
    return seen;
}

bool isEqual(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

mode_t typeOf(EntryType type) {
    if (type == EntryType::kDirectory) return S_IFDIR;
    return type == EntryType::kFile ? S_IFREG : S_IFLNK;
}

// O_NONBLOCK: what was a file may be a pipe by now, and opening that would wait.
FileDescriptor openToRead(int directory, const std::string& name) {
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = -1;
    do fd = ::openat(directory, name.c_str(), flags);
    while (fd < 0 && errno == EINTR);
    return FileDescriptor(fd);
}

/// Nothing, with errno set, when it cannot be read to its end or has become longer than `size`.
std::optional<Digest> hashOf(int file, std::uint64_t size) {
    thread_local std::vector<char> buffer(kBufferSize);
    Hasher hasher;
    std::uint64_t total = 0;
    while (true) {
        const ssize_t got = ::read(file, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::nullopt;
        if (got == 0) break;
        hasher.update({buffer.data(), static_cast<std::size_t>(got)});
        total += static_cast<std::uint64_t>(got);
        if (total > size) break;
    }
    errno = 0;
    return total == size ? std::optional(hasher.finish()) : std::nullopt;
}

std::optional<Digest> hashOfFile(int directory, const std::string& name, const Sighting& seen) {
    const FileDescriptor file = openToRead(directory, name);
    if (!file) return std::nullopt;
    const Sighting opened = sight(file.get());
    if (opened.inode == seen.inode && S_ISREG(opened.mode)) return hashOf(file.get(), seen.size);
    errno = 0;
    return std::nullopt;
}

std::optional<Digest> hashOfLink(int directory, const std::string& name) {
    std::array<char, kLongestLink> text{};
    const ssize_t length = ::readlinkat(directory, name.c_str(), text.data(), text.size());
    if (length < 0) {
        // No link any more.
        if (errno == EINVAL) errno = ENOENT;
        return std::nullopt;
    }
    return sha256({text.data(), static_cast<std::size_t>(length)});
}

// File capabilities are a kind of setuid; IMA and EVM sign the very content that changes.
bool isCarriedOver(std::string_view name) {
    return name != "security.capability" && name != "security.ima" && name != "security.evm";
}

/// "c" for "a/b/c".
std::string nameIn(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

std::vector<std::string> attributeNames(int file) {
    std::string names(static_cast<std::size_t>(std::max<ssize_t>(::flistxattr(file, nullptr, 0), 0)), '\0');
    const ssize_t length = names.empty() ? 0 : ::flistxattr(file, names.data(), names.size());
    std::vector<std::string> found;
    for (std::size_t at = 0; length > 0 && at < static_cast<std::size_t>(length); at += found.back().size() + 1)
        found.emplace_back(names.c_str() + at);
    return found;
}

}  // namespace

bool Sighting::isUnwritten(const Sighting& other) const {
    return exists == other.exists && inode == other.inode && mode == other.mode && size == other.size &&
           isEqual(modified, other.modified);
}

bool Sighting::isSameAs(const Sighting& other) const { return isUnwritten(other) && isEqual(changed, other.changed); }

bool Sighting::isDirectoryOf(std::uint32_t wanted) const {
    return isDirectory() && (permissions() == wanted || permissions() == (wanted | 0700));
}

void throwFault(std::string_view action, std::string_view path, int error) {
    Error fault(ErrorCode::kInfrastructure, "cannot {} '{}': {}", action, printable(path), errnoText(error));
    if (error == ENOSPC || error == EDQUOT) throw std::move(fault).hint("free space there, then try again");
    if (error == EROFS) throw std::move(fault).hint("the file system is mounted read-only");
    if (error == EINVAL && action == "move into place")
        throw std::move(fault).hint(
            "this file system cannot exchange names; a local one (ext4, xfs, btrfs, tmpfs) can");
    throw std::move(fault);
}

bool isMoved(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENXIO; }

Sighting sight(int directory, const std::string& name) {
    struct statx info {};
    const int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (name.empty() ? AT_EMPTY_PATH : 0);
    if (::statx(directory, name.c_str(), flags, STATX_BASIC_STATS, &info) == 0) return fromStatx(info);
    if (errno == ENOENT || errno == ENOTDIR) return {};
    throwFault("look at", name, errno);
}

Sighting sight(int descriptor) { return sight(descriptor, ""); }

bool couldBe(const Sighting& seen, const Entry& entry) {
    if (!seen.exists || (seen.mode & S_IFMT) != typeOf(entry.type)) return false;
    // Linux gives every link the mode 0777 and a directory a size of its own.
    if (entry.type != EntryType::kSymlink && seen.permissions() != entry.mode) return false;
    return entry.type == EntryType::kDirectory || seen.size == entry.size;
}

bool isExactly(int directory, const std::string& name, const Sighting& seen, const Entry& entry, int* error) {
    if (!couldBe(seen, entry)) return false;
    if (entry.type == EntryType::kDirectory) return true;
    const auto digest =
        entry.type == EntryType::kFile ? hashOfFile(directory, name, seen) : hashOfLink(directory, name);
    const bool isDenied = !digest && (errno == EACCES || errno == EPERM);
    if (isDenied && error != nullptr) *error = errno;
    if (!digest && errno != 0 && !isDenied && !isMoved(errno)) throwFault("read", name, errno);
    return digest == entry.digest;
}

std::vector<std::string> namesBeneath(int directory, std::size_t limit) {
    const int fd = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) throwFault("list", ".", errno);
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd), &::closedir);
    if (!stream) throwFault("list", ".", errno);
    std::vector<std::string> names;
    while (const dirent* entry = names.size() < limit ? ::readdir(stream.get()) : nullptr) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
    return names;
}

std::vector<Attribute> attributesOf(int file) {
    std::vector<Attribute> attributes;
    for (const std::string& name : attributeNames(file)) {
        if (!isCarriedOver(name)) continue;
        const ssize_t length = ::fgetxattr(file, name.c_str(), nullptr, 0);
        if (length < 0) continue;
        std::string value(static_cast<std::size_t>(length), '\0');
        if (::fgetxattr(file, name.c_str(), value.data(), value.size()) == length) attributes.push_back({name, value});
    }
    return attributes;
}

TreeRoot::TreeRoot(const fs::path& path) : path_(fs::absolute(path).lexically_normal()) {
    root_ = openFile(path_, O_RDONLY | O_DIRECTORY);
    own_ = sight(root_.get());
    inode_ = own_.inode;
}

FileDescriptor TreeRoot::directory(std::string_view path, int flags, Obstacle& obstacle) const {
    const std::string where = path.empty() ? "." : std::string(path);
    const int fd = openBeneath(root_.get(), where, flags | O_DIRECTORY);
    obstacle = fd < 0 ? obstacleOf(errno, path) : Obstacle::kNone;
    return FileDescriptor(fd);
}

FileDescriptor TreeRoot::directoryPatiently(std::string_view path, int flags, Obstacle& obstacle) const {
    FileDescriptor found = directory(path, flags, obstacle);
    for (int attempt = 0; attempt < kPatience && obstacle == Obstacle::kLink; ++attempt) {
        ::sched_yield();
        found = directory(path, flags, obstacle);
    }
    return found;
}

Place TreeRoot::place(std::string_view path) const {
    Place place{.name = nameIn(path)};
    place.directory = directory(directoryOf(path), O_PATH, place.obstacle);
    return place;
}

Place TreeRoot::placePatiently(std::string_view path) const {
    Place place{.name = nameIn(path)};
    place.directory = directoryPatiently(directoryOf(path), O_PATH, place.obstacle);
    return place;
}

// An open file of its own: what a lock belongs to is not the descriptor, and not the directory.
FileDescriptor TreeRoot::lock() const {
    FileDescriptor held(::openat(root_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!held) throwFault("open", path_.native(), errno);
    while (::flock(held.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            throw Error(ErrorCode::kBusy, "another process writes in {}", path_.native())
                .hint("wait until it has finished, then try again");
        if (errno != EINTR) throwFault("lock", path_.native(), errno);
    }
    return held;
}

std::string_view directoryOf(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

}  // namespace gradus
