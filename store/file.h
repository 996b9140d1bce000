#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace gradus {

/// Owns an open descriptor; closing happens in the destructor.
class FileDescriptor {
  public:
    FileDescriptor() = default;
    explicit FileDescriptor(int fd) : fd_(fd) {}
    FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept;
    ~FileDescriptor();

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }

  private:
    int fd_ = -1;
};

/// open(2) with O_CLOEXEC, retried on EINTR. Throws Error naming the path and the reason.
FileDescriptor openFile(const std::filesystem::path& path, int flags, mode_t mode = 0600);

/// "a directory", "a named pipe": what people call a file of that mode.
std::string_view fileTypeName(mode_t mode);

/// The whole of a regular file of at most `cap` bytes. Never blocks: a FIFO, device, socket or directory is refused by
/// what it is. `what` names the file's part in messages ("the pipeline file").
std::string readSmallFile(const std::filesystem::path& path, std::uint64_t cap, std::string_view what);

/// Writes all of it, through short writes and EINTR. Throws Error naming `path`.
void writeAll(int fd, std::string_view bytes, const std::filesystem::path& path);

/// Makes what was written to `fd` survive a power cut.
void syncFile(int fd, const std::filesystem::path& path);

/// Makes names created, renamed or removed in `directory` survive a power cut.
void syncDirectory(const std::filesystem::path& directory);

/// Replaces `path` as a whole: a reader sees the old bytes or the new ones, also after a power cut.
void writeFileDurably(const std::filesystem::path& path, std::string_view bytes, mode_t mode = 0600);

/// Creates `directory` and its parents (mode 0700) where missing.
void makeDirectories(const std::filesystem::path& directory);
/// The same; their names survive a power cut, up to the first one that was there before.
void makeDirectoriesDurably(const std::filesystem::path& directory);

}  // namespace gradus
