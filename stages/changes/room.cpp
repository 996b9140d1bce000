#include "stages/changes/room.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace gradus {

std::optional<Room> roomAt(const std::filesystem::path& path) {
    struct statvfs where {};
    struct stat node {};
    if (::statvfs(path.c_str(), &where) != 0 || ::stat(path.c_str(), &node) != 0) return std::nullopt;
    // Some of it is root's alone.
    const bool isPrivileged = ::geteuid() == 0;
    Room room{node.st_dev, (isPrivileged ? where.f_bfree : where.f_bavail) * where.f_frsize, UINT64_MAX};
    // Some file systems do not count them.
    if (where.f_files > 0) room.inodes = isPrivileged ? where.f_ffree : where.f_favail;
    return room;
}

int accessOf(int directory) {
    return ::syscall(SYS_faccessat2, directory, "", W_OK | X_OK, AT_EACCESS | AT_EMPTY_PATH) == 0 ? 0 : errno;
}

}  // namespace gradus
