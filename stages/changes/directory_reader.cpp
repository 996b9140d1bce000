#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "stages/changes/base_view.h"
#include "stages/changes/directory_listing.h"
#include "stages/changes/file_scan.h"
#include "stages/changes/tree_reader.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::uint32_t kSpecialBits = 07000;

/// Nothing where the way ends at something that is not there or no directory.
FileDescriptor openDirectory(int root, const std::string& path) {
    FileDescriptor directory = openBeneath(root, path, false);
    if (directory || errno == ENOENT || errno == ENOTDIR) return directory;
    if (errno == ELOOP)
        throw Error(ErrorCode::kNotAllowed, "'{}' is a symbolic link, or leads through one", printable(path));
    throw Error(ErrorCode::kInfrastructure, "cannot open '{}': {}", printable(path), errnoText(errno));
}

std::string parentOf(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

}  // namespace

DirectoryReader::DirectoryReader(const std::filesystem::path& directory)
    : root_(openFile(directory, O_RDONLY | O_DIRECTORY)) {}

std::optional<Entry> DirectoryReader::at(const std::string& path) const { return read(path, nullptr); }

std::optional<Entry> DirectoryReader::keep(const std::string& path, Objects& objects) const {
    return read(path, &objects);
}

std::optional<Entry> DirectoryReader::read(const std::string& path, Objects* objects) const {
    if (const auto fault = pathFault(path))
        throw Error(ErrorCode::kUsage, "the path '{}' cannot be part of a change: {}", printable(path), *fault);
    const FileDescriptor parent = openDirectory(root_.get(), parentOf(path));
    if (!parent) return std::nullopt;
    const std::string name = path.substr(path.rfind('/') + 1);
    struct stat info {};
    if (::fstatat(parent.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) {
        if (errno == ENOENT) return std::nullopt;
        throw Error(ErrorCode::kInfrastructure, "cannot look at '{}': {}", printable(path), errnoText(errno));
    }
    // Of a directory such a bit is no part of what it is to a change: new files of a shared project get its group.
    if (S_ISDIR(info.st_mode)) return Entry{EntryType::kDirectory, info.st_mode & 0777, {}, 0};
    if (!S_ISLNK(info.st_mode) && (info.st_mode & kSpecialBits) != 0)
        throw Error(ErrorCode::kNotAllowed,
                    "'{}' has a set-user-ID, set-group-ID or sticky bit, which cannot be part of a change",
                    printable(path));
    return scanFile(parent.get(), name, path, {.keep = objects}).entry;
}

std::vector<std::string> DirectoryReader::names(const std::string& directory) const {
    const FileDescriptor open = openDirectory(root_.get(), directory);
    std::vector<DirectoryItem> items;
    if (!open) return {};
    if (const int error = listDirectory(open.get(), 0, items); error != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot list '{}': {}", printable(directory), errnoText(error));
    std::vector<std::string> names;
    for (DirectoryItem& item : items) names.push_back(std::move(item.name));
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace gradus
