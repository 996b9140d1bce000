#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "store/model/error.h"
#include "store/object_file.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFormat = "gradus objects 1\n";

bool isThere(const fs::path& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0) return true;
    if (errno != ENOENT) throwErrno("look at", path, errno);
    return false;
}

bool isPrepared(const fs::path& store) {
    const fs::path file = store / "format";
    if (!isThere(file)) return false;
    const std::string format = readSmallFile(file, 1024, "the object store's format file");
    if (format == kFormat) return true;
    throw Error(ErrorCode::kUsage, "{} says '{}', this release reads '{}'", file.native(),
                format.substr(0, format.find('\n')), kFormat.substr(0, kFormat.size() - 1))
        .hint("use the release that made this store, or another directory");
}

// What an earlier attempt, cut off half way, may have left; its half-written format file included.
bool isOurs(const std::string& name) {
    return name == "tmp" || name.starts_with("format.tmp.") || std::ranges::binary_search(fanOutNames(), name);
}

void refuseStrangers(const fs::path& store) {
    for (const std::string& name : namesIn(store))
        if (!isOurs(name))
            throw Error(ErrorCode::kUsage, "{} is not an object store, and not empty: it holds '{}'", store.native(),
                        name)
                .hint("give the object store a directory of its own");
}

void makeOwnDirectories(const fs::path& store) {
    for (const std::string& name : fanOutNames()) makeDirectories(store / name);
    makeDirectories(temporariesOf(store));
    syncDirectory(store);
}

}  // namespace

// All directories are made and synced before the format file says so: afterwards no put has to wonder whether the
// directory it writes into would itself survive a power cut.
void prepareObjects(const fs::path& directory) {
    if (isPrepared(directory)) return;
    makeDirectoriesDurably(directory);
    const FileDescriptor lock = lockDirectory(directory, LOCK_EX);
    if (isPrepared(directory)) return;
    refuseStrangers(directory);
    makeOwnDirectories(directory);
    writeFileDurably(directory / "format", kFormat);
}

}  // namespace gradus
