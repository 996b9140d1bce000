#include "stages/changes/directory_listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace gradus {

namespace {

constexpr std::size_t kBatch = 32768;

// Some file systems do not tell the type with the name.
unsigned char typeOf(int directory, const dirent64& entry) {
    if (entry.d_type != DT_UNKNOWN) return entry.d_type;
    struct stat info {};
    if (::fstatat(directory, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) return DT_UNKNOWN;
    return static_cast<unsigned char>(IFTODT(info.st_mode));
}

}  // namespace

int listDirectory(int directory, std::size_t layer, std::vector<DirectoryItem>& items,
                  const std::function<void()>& between) {
    alignas(dirent64) std::array<char, kBatch> batch;
    while (true) {
        const ssize_t got = ::getdents64(directory, batch.data(), batch.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) return 0;
        for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
            const auto& entry = *reinterpret_cast<const dirent64*>(batch.data() + at);
            at += entry.d_reclen;
            const std::string_view name(entry.d_name);
            if (name == "." || name == "..") continue;
            items.push_back({std::string(name), typeOf(directory, entry), layer});
        }
        if (between) between();
        // A batch that was not nearly full was the last one on every file system in use, but only an empty one proves
        // it.
    }
}

}  // namespace gradus
