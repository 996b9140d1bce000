#include "stages/changes/file_scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <vector>

#include "store/file.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr int kTries = 5;
constexpr std::size_t kPiece = std::size_t{64} * 1024;
/// Nothing waits on a named pipe and no link is followed, should one take a file's place at the last moment.
constexpr int kReadFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

[[noreturn]] void failToRead(std::string_view path, int error) {
    throw Error(ErrorCode::kInfrastructure, "cannot read '{}': {}", printable(path), errnoText(error));
}

/// A file's bytes, told to git's hash on the way.
class FileSource final : public ByteSource {
  public:
    FileSource(int fd, std::string_view path, BlobHasher& blob) : fd_(fd), path_(path), blob_(blob) {}

    std::size_t read(std::span<char> space) override {
        ssize_t got = 0;
        do got = ::read(fd_, space.data(), space.size());
        while (got < 0 && errno == EINTR);
        if (got < 0) failToRead(path_, errno);
        blob_.update({space.data(), static_cast<std::size_t>(got)});
        size_ += static_cast<std::uint64_t>(got);
        return static_cast<std::size_t>(got);
    }
    std::uint64_t size() const { return size_; }

  private:
    int fd_;
    std::string_view path_;
    BlobHasher& blob_;
    std::uint64_t size_ = 0;
};

// False: somebody was writing.
bool scanRegular(int file, std::string_view path, const ScanOptions& options, FileScan& scan) {
    const auto size = static_cast<std::uint64_t>(scan.info.st_size);
    BlobHasher blob(options.blob, size);
    FileSource source(file, path, blob);
    const Digest digest = options.keep != nullptr ? options.keep->put(source) : digestOf(source);
    struct stat after {};
    if (::fstat(file, &after) != 0) failToRead(path, errno);
    if (source.size() != size || !isUntouched(scan.info, after)) return false;
    scan.entry = {EntryType::kFile, scan.info.st_mode & 0777, digest, size};
    scan.blob = blob.finish();
    return true;
}

bool scanLink(int directory, const std::string& name, const ScanOptions& options, FileScan& scan) {
    std::array<char, PATH_MAX> space{};
    const ssize_t length = ::readlinkat(directory, name.c_str(), space.data(), space.size());
    if (length < 0) return false;
    const std::string_view text(space.data(), static_cast<std::size_t>(length));
    BlobHasher blob(options.blob, text.size());
    blob.update(text);
    scan.blob = blob.finish();
    scan.entry = {EntryType::kSymlink, 0777, sha256(text), text.size()};
    if (options.keep != nullptr) options.keep->put(text);
    return true;
}

bool scanOnce(int directory, const std::string& name, std::string_view path, const ScanOptions& options,
              FileScan& scan) {
    if (::fstatat(directory, name.c_str(), &scan.info, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0)
        failToRead(path, errno);
    if (S_ISLNK(scan.info.st_mode)) return scanLink(directory, name, options, scan);
    if (!S_ISREG(scan.info.st_mode))
        throw Error(ErrorCode::kNotAllowed, "'{}' is {}, which cannot be part of a change", printable(path),
                    fileTypeName(scan.info.st_mode));
    const FileDescriptor file(::openat(directory, name.c_str(), kReadFlags));
    struct stat opened {};
    if (!file && errno != ELOOP && errno != ENOENT && errno != ENXIO) failToRead(path, errno);
    if (!file || ::fstat(file.get(), &opened) != 0 || !isUntouched(scan.info, opened)) return false;
    return scanRegular(file.get(), path, options, scan);
}

}  // namespace

Digest digestOf(ByteSource& source) {
    thread_local std::vector<char> buffer(kPiece);
    Hasher hasher;
    while (const std::size_t got = source.read(buffer)) hasher.update({buffer.data(), got});
    return hasher.finish();
}

bool isUntouched(const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size && a.st_mode == b.st_mode &&
           a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
           a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

FileScan scanFile(int directory, const std::string& name, std::string_view path, const ScanOptions& options) {
    FileScan scan;
    for (int tries = 0; tries < kTries; ++tries)
        if (scanOnce(directory, name, path, options, scan)) return scan;
    throw Error(ErrorCode::kBusy, "'{}' is being written: it changed whenever it was read", printable(path))
        .hint("stop what is writing it, then call again");
}

}  // namespace gradus
