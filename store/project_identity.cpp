#include "store/project_identity.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <cerrno>

#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

struct statx lookAt(const std::filesystem::path& directory) {
    struct statx info {};
    if (::statx(AT_FDCWD, directory.c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &info) != 0)
        throw Error(ErrorCode::kNotFound, "cannot look at {}: {}", printable(directory.native()), errnoText(errno));
    if (!S_ISDIR(info.stx_mode)) throw Error(ErrorCode::kUsage, "{} is not a directory", printable(directory.native()));
    return info;
}

/// An overlay gives a directory another time of birth when something is first changed in it.
bool isOverlay(const std::filesystem::path& directory) {
    struct statfs where {};
    return ::statfs(directory.c_str(), &where) != 0 || where.f_type == OVERLAYFS_SUPER_MAGIC;
}

// The kernel counts a device, not a file system: after a reboot or a remount the number is another. What stays with a
// directory are its number in the file system and its time of birth, to the nanosecond: nobody can set that, and a
// number that is used again has another one. A file handle says no more than these, and not every file system's lasts.
std::string keyOf(const std::filesystem::path& directory, const struct statx& info) {
    const bool isKnown = (info.stx_mask & STATX_BTIME) != 0 && info.stx_btime.tv_sec > 0;
    if (!isKnown || isOverlay(directory)) return "";
    return fmt::format("i{}b{}", info.stx_ino, info.stx_btime.tv_sec * kNanosecondsPerSecond + info.stx_btime.tv_nsec);
}

}  // namespace

ProjectIdentity identify(const std::filesystem::path& project) {
    const struct statx info = lookAt(project);
    return {project, static_cast<std::int64_t>(makedev(info.stx_dev_major, info.stx_dev_minor)),
            static_cast<std::int64_t>(info.stx_ino), keyOf(project, info)};
}

std::string directoryKey(const std::filesystem::path& directory) { return keyOf(directory, lookAt(directory)); }

}  // namespace gradus
