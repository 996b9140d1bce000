#include "plugins/isolation/jail/places.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gradus {

namespace {

Attempt stepInto(const std::string& name, const std::string& path, bool isDirectory, bool& made, Descriptor& at) {
    for (int attempt = 0; attempt < 2; ++attempt) {
        Descriptor next = openPath(at.get(), name, O_PATH | O_NOFOLLOW);
        if (next) {
            at = std::move(next);
            return std::nullopt;
        }
        if (errno != ENOENT) break;
        const int error = isDirectory ? ::mkdirat(at.get(), name.c_str(), 0755)
                                      : ::mknodat(at.get(), name.c_str(), S_IFREG | 0444, 0);
        if (error != 0) break;
        made = true;
    }
    return failure("mount point", path);
}

}  // namespace

Descriptor lookInside(int root, const std::string& path) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    return Descriptor(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
}

Attempt makeMountPoint(int root, const std::string& path, bool isDirectory, std::vector<std::string>& made,
                       Descriptor& point) {
    Descriptor at(::fcntl(root, F_DUPFD_CLOEXEC, 0));
    const std::vector<std::string> names = splitWords(path, "/");
    std::string walked;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const bool last = i + 1 == names.size();
        bool isNew = false;
        if (auto failed = stepInto(names[i], path, !last || isDirectory, isNew, at)) return failed;
        walked += "/" + names[i];
        if (isNew) made.push_back(walked);
    }
    struct stat info {};
    if (::fstat(at.get(), &info) != 0) return failure("mount point", path);
    if (S_ISLNK(info.st_mode)) return failure("mount point", path + " is a symbolic link", ELOOP);
    if (S_ISDIR(info.st_mode) != isDirectory) return failure("mount point", path, isDirectory ? ENOTDIR : EISDIR);
    point = std::move(at);
    return std::nullopt;
}

}  // namespace gradus
