#include "stages/sandbox/layer_entries.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "stages/sandbox/layer_tree.h"
#include "store/model/error.h"
#include "store/model/utf8.h"
#include "store/privilege.h"

namespace gradus {

namespace {

// Root's overlays use attributes that only root can set; in a user namespace they must be the user's.
const char* opaqueName() { return isMachineRoot() ? "trusted.overlay.opaque" : "user.overlay.opaque"; }

void copyAttributes(int from, int to, Marks marks) {
    const ssize_t size = ::flistxattr(from, nullptr, 0);
    if (size <= 0) return;
    std::string names(static_cast<std::size_t>(size), '\0');
    const ssize_t got = ::flistxattr(from, names.data(), names.size());
    for (ssize_t at = 0; at < got;) {
        const char* name = names.data() + at;
        at += static_cast<ssize_t>(std::char_traits<char>::length(name)) + 1;
        const bool isMark = std::string_view(name).find(".overlay.") != std::string_view::npos;
        const ssize_t length = ::fgetxattr(from, name, nullptr, 0);
        if (length < 0 || (isMark && marks == Marks::kLeave)) continue;
        std::string value(static_cast<std::size_t>(length), '\0');
        const ssize_t read = ::fgetxattr(from, name, value.data(), value.size());
        // Labels and lists of another file system, and what an ordinary user may not set, are not ours to carry over;
        // without the overlay's own marks the layer would say something else.
        if (read >= 0 && ::fsetxattr(to, name, value.data(), static_cast<std::size_t>(read), 0) != 0 && isMark)
            failEntry("copy attribute", name);
    }
}

void own(int directory, const std::string& name, const struct stat& info) {
    if (::fchownat(directory, name.c_str(), info.st_uid, info.st_gid, AT_SYMLINK_NOFOLLOW) != 0 && errno != EPERM &&
        errno != EINVAL)
        failEntry("own", name);
}

void setTimes(int directory, const std::string& name, const struct stat& info) {
    const timespec times[2] = {info.st_atim, info.st_mtim};
    if (::utimensat(directory, name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) failEntry("set the times of", name);
}

// The last bytes that a disk has room for are written without a fault; only the next call says that it is full.
void writeAllAt(int to, std::string_view bytes, off_t at, const std::string& name) {
    while (!bytes.empty()) {
        const ssize_t put = ::pwrite(to, bytes.data(), bytes.size(), at);
        if (put <= 0) failEntry("write", name);
        bytes.remove_prefix(static_cast<std::size_t>(put));
        at += put;
    }
}

void copyBytes(int from, int to, off_t size, const std::string& name) {
    for (off_t at = 0; at < size;) {
        off_t data = ::lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) break;  // a hole up to the end
        if (data < 0) failEntry("read", name);
        const off_t end = ::lseek(from, data, SEEK_HOLE);
        if (end < 0) failEntry("read", name);
        char buffer[65536];
        while (data < end) {
            const ssize_t got =
                ::pread(from, buffer, std::min<std::size_t>(sizeof buffer, static_cast<std::size_t>(end - data)), data);
            if (got <= 0) failEntry("read", name);
            writeAllAt(to, {buffer, static_cast<std::size_t>(got)}, data, name);
            data += got;
        }
        at = end;
    }
    if (::ftruncate(to, size) != 0) failEntry("write", name);
}

void copyLink(int from, int to, const std::string& name) {
    char text[4097];
    const ssize_t length = ::readlinkat(from, name.c_str(), text, sizeof text - 1);
    if (length < 0) failEntry("read link", name);
    text[length] = '\0';
    if (::symlinkat(text, to, name.c_str()) != 0) failEntry("make link", name);
}

}  // namespace

void failEntry(std::string_view what, const std::string& name) {
    const int error = errno;
    throw Error(ErrorCode::kInfrastructure, "cannot {} {} of a sandbox's layer: {}", what, printable(name),
                errnoText(error))
        .hint(error == ENOSPC ? "free some space and run the command again" : "");
}

std::vector<std::string> namesIn(int directory) {
    const int again = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(again < 0 ? nullptr : ::fdopendir(again), &::closedir);
    if (!listing) failEntry("list", "a directory");
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(listing.get())) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
    return names;
}

FileDescriptor openBelow(int directory, const std::string& name, Tree tree) {
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    FileDescriptor below(::openat(directory, name.c_str(), kFlags));
    if (tree == Tree::kForeign) return below;
    if (!below && errno == EACCES && ::fchmodat(directory, name.c_str(), 0700, 0) == 0)
        below = FileDescriptor(::openat(directory, name.c_str(), kFlags));
    // Readable is not enough: its entries must be reachable, and removable.
    if (below && ::faccessat(below.get(), ".", R_OK | W_OK | X_OK, AT_EACCESS) != 0) ::fchmod(below.get(), 0700);
    return below;
}

ReadDirectory::ReadDirectory(int directory, const std::string& name, Tree tree)
    : info_(statBelow(directory, name)), open_(openBelow(directory, name, tree)) {
    if (!open_) failEntry("open", name);
}

ReadDirectory::~ReadDirectory() {
    struct stat now {};
    if (open_ && ::fstat(open_.get(), &now) == 0 && now.st_mode != info_.st_mode)
        ::fchmod(open_.get(), info_.st_mode & 07777);
}

struct stat statBelow(int directory, const std::string& name) {
    struct stat info {};
    if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) failEntry("look at", name);
    return info;
}

bool isOpaque(int directory, FuseMarks fuse) {
    constexpr const char* kFuseOpaque = ".wh..wh..opq";
    char value = 0;
    if (::fgetxattr(directory, opaqueName(), &value, 1) == 1 && value == 'y') return true;
    return fuse == FuseMarks::kCount && ::faccessat(directory, kFuseOpaque, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void setOpaque(int directory) {
    if (::fsetxattr(directory, opaqueName(), "y", 1, 0) != 0) failEntry("mark", "a directory");
}

void copyLook(int source, int target, Marks marks) {
    struct stat info {};
    if (::fstat(source, &info) != 0) failEntry("look at", "a directory");
    copyAttributes(source, target, marks);
    if (::fchown(target, info.st_uid, info.st_gid) != 0 && errno != EPERM && errno != EINVAL)
        failEntry("own", "a directory");
    if (::fchmod(target, info.st_mode & 07777) != 0) failEntry("set the mode of", "a directory");
    const timespec times[2] = {info.st_atim, info.st_mtim};
    if (::futimens(target, times) != 0) failEntry("set the times of", "a directory");
}

bool EntryCopier::linkKnown(const struct stat& info, int to, const std::string& name, const std::string& path) {
    if (info.st_nlink < 2 || !S_ISREG(info.st_mode)) return false;
    const auto [at, isNew] = known_.try_emplace({info.st_dev, info.st_ino}, path);
    return !isNew && ::linkat(root_, at->second.c_str(), to, name.c_str(), 0) == 0;
}

void EntryCopier::copyFile(int from, int to, const std::string& name, const struct stat& info) {
    constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    FileDescriptor source(::openat(from, name.c_str(), kFlags));
    if (!source && errno == EACCES && source_ == Tree::kOurs && ::fchmodat(from, name.c_str(), 0600, 0) == 0) {
        source = FileDescriptor(::openat(from, name.c_str(), kFlags));
        if (source) ::fchmod(source.get(), info.st_mode & 07777);
    }
    if (!source) failEntry("read", name);
    const FileDescriptor target(::openat(to, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!target) failEntry("write", name);
    copyBytes(source.get(), target.get(), info.st_size, name);
    copyAttributes(source.get(), target.get(), Marks::kCarry);
    own(to, name, info);
    if (::fchmod(target.get(), info.st_mode & 07777) != 0) failEntry("set the mode of", name);
}

void EntryCopier::copy(int from, int to, const std::string& name, const std::string& path) {
    const struct stat info = statBelow(from, name);
    if (linkKnown(info, to, name, path)) return;
    if (S_ISREG(info.st_mode)) {
        copyFile(from, to, name, info);
    } else if (S_ISLNK(info.st_mode)) {
        copyLink(from, to, name);
        own(to, name, info);
    } else if (isWhiteout(info) || S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) {
        if (::mknodat(to, name.c_str(), info.st_mode, 0) != 0) failEntry("make", name);
        own(to, name, info);
    } else {
        errno = EINVAL;
        failEntry("copy", name);
    }
    setTimes(to, name, info);
}

}  // namespace gradus
