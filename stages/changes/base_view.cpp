#include "stages/changes/base_view.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr long kSecond = 1'000'000'000;

// A file system that keeps less of the time than the clock gives cuts the rest off: the change came up to this much
// later than its stamp. Judged by the stamp itself; two seconds is FAT.
long cutOff(const timespec& stamp) {
    if (stamp.tv_nsec == 0) return 2 * kSecond;
    if (stamp.tv_nsec % 10'000'000 == 0) return 10'000'000;
    if (stamp.tv_nsec % 1'000 == 0) return 1'000;
    return stamp.tv_nsec % 100 == 0 ? 100 : 0;
}

bool isBefore(const timespec& a, const timespec& b) {
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

timespec latest(timespec stamp) {
    const long nanoseconds = stamp.tv_nsec + cutOff(stamp);
    return {stamp.tv_sec + nanoseconds / kSecond, nanoseconds % kSecond};
}

}  // namespace

bool isSettled(const timespec& stamp, const timespec& since) { return isBefore(latest(stamp), since); }

FileDescriptor openBeneath(int root, const std::string& path, bool sameMount) {
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_NO_SYMLINKS | (sameMount ? std::uint64_t{RESOLVE_NO_XDEV} : 0);
    const char* const name = path.empty() ? "." : path.c_str();
    return FileDescriptor(static_cast<int>(::syscall(SYS_openat2, root, name, &how, sizeof how)));
}

BaseView::BaseView(const std::filesystem::path& base, timespec since, bool pinned)
    : root_(openFile(base, O_RDONLY | O_DIRECTORY)), since_(since), pinned_(pinned) {}

bool BaseView::isOld(const struct stat& info) const { return pinned_ || isSettled(info.st_ctim, since_); }

BaseEntry BaseView::probe(int directory, const char* name, bool trusted) const {
    BaseEntry entry;
    entry.present = ::fstatat(directory, name, &entry.info, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0;
    if (!entry.present && errno != ENOENT)
        throw Error(ErrorCode::kInfrastructure, "cannot look at '{}' in the base: {}", printable(name),
                    errnoText(errno));
    entry.known = entry.present && trusted && isOld(entry.info);
    return entry;
}

}  // namespace gradus
