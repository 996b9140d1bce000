#include "store/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(std::string_view action, const fs::path& path, int error) {
    throw Error(ErrorCode::kInfrastructure, "cannot {} {}: {}", action, path.native(), errnoText(error));
}

}  // namespace

std::string_view fileTypeName(mode_t mode) {
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISLNK(mode)) return "a link";
    if (S_ISFIFO(mode)) return "a named pipe";
    if (S_ISSOCK(mode)) return "a socket";
    if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
    return S_ISREG(mode) ? "a regular file" : "of a strange kind";
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
}

FileDescriptor::~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
}

FileDescriptor openFile(const fs::path& path, int flags, mode_t mode) {
    while (true) {
        const int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
        if (fd >= 0) return FileDescriptor(fd);
        if (errno != EINTR) fail("open", path, errno);
    }
}

std::string readSmallFile(const fs::path& path, std::uint64_t cap, std::string_view what) {
    // O_NONBLOCK: opening a FIFO for reading would otherwise wait for a writer for ever.
    const FileDescriptor file = openFile(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) fail("look at", path, errno);
    if (!S_ISREG(info.st_mode))
        throw Error(ErrorCode::kUsage, "{} {} is {}, not a file", what, path.native(), fileTypeName(info.st_mode));
    std::string bytes;
    char buffer[16384];
    while (true) {
        const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("read", path, errno);
        if (got == 0) return bytes;
        bytes.append(buffer, static_cast<std::size_t>(got));
        if (bytes.size() > cap)
            throw Error(ErrorCode::kUsage, "{} {} is larger than {} KiB, the most that is read", what, path.native(),
                        cap / 1024);
    }
}

void writeAll(int fd, std::string_view bytes, const fs::path& path) {
    while (!bytes.empty()) {
        const ssize_t put = ::write(fd, bytes.data(), bytes.size());
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) fail("write", path, errno);
        bytes.remove_prefix(static_cast<std::size_t>(put));
    }
}

void syncFile(int fd, const fs::path& path) {
    if (::fsync(fd) != 0) fail("sync", path, errno);
}

void syncDirectory(const fs::path& directory) {
    const FileDescriptor handle = openFile(directory, O_RDONLY | O_DIRECTORY);
    syncFile(handle.get(), directory);
}

void writeFileDurably(const fs::path& path, std::string_view bytes, mode_t mode) {
    // Unique among threads and processes: two writers of one path must not share a temporary.
    static std::atomic<unsigned> counter{0};
    fs::path temporary = path;
    temporary += fmt::format(".tmp.{}.{}", ::getpid(), counter++);
    try {
        const FileDescriptor file = openFile(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode);
        writeAll(file.get(), bytes, temporary);
        syncFile(file.get(), temporary);
        if (std::rename(temporary.c_str(), path.c_str()) != 0) fail("replace", path, errno);
    } catch (...) {
        ::unlink(temporary.c_str());
        throw;
    }
    syncDirectory(path.parent_path().empty() ? fs::path(".") : path.parent_path());
}

void makeDirectories(const fs::path& directory) {
    if (directory.has_parent_path() && directory != directory.parent_path() && !fs::exists(directory.parent_path()))
        makeDirectories(directory.parent_path());
    if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return;
    fail("create the directory", directory, errno);
}

void makeDirectoriesDurably(const fs::path& directory) {
    std::error_code ignored;
    if (fs::exists(fs::symlink_status(directory, ignored))) return;
    const fs::path parent = directory.has_parent_path() ? directory.parent_path() : fs::path(".");
    makeDirectoriesDurably(parent);
    makeDirectories(directory);
    syncDirectory(parent);
}

}  // namespace gradus
