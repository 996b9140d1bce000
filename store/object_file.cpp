#include "store/object_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMagic = "GRADOBJ1";
constexpr std::size_t kEncodingAt = 8;
constexpr std::size_t kSizeAt = 16;
constexpr std::size_t kStoredAt = 24;
constexpr std::size_t kDigestAt = 32;
constexpr std::size_t kSealAt = 64;
static_assert(kSealAt + ObjectHeader::kSealSize == ObjectHeader::kSize);

void appendNumber(std::string& bytes, std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(value >> shift & 0xff);
}

std::uint64_t numberAt(std::string_view bytes, std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
    return value;
}

std::string readAt(int fd, const fs::path& path, std::uint64_t offset, std::size_t count) {
    std::string bytes(count, '\0');
    std::size_t done = 0;
    while (done < count) {
        const ssize_t got = ::pread(fd, bytes.data() + done, count - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throwErrno("read", path, errno);
        if (got == 0) throwDamaged(path, "it became shorter while it was read");
        done += static_cast<std::size_t>(got);
    }
    return bytes;
}

ObjectHeader parse(std::string_view bytes, const fs::path& path) {
    if (!bytes.starts_with(kMagic)) throwDamaged(path, "it does not start as an object does");
    const Digest digest = *Digest::fromBytes(bytes.substr(kDigestAt, Digest::kSize));
    const auto encoding = static_cast<ObjectEncoding>(bytes[kEncodingAt]);
    const ObjectHeader header{digest, encoding, numberAt(bytes, kSizeAt), numberAt(bytes, kStoredAt)};
    // Encoding again covers every byte: the seal, the reserved ones, and those of an unknown encoding.
    if (header.encode() != bytes) throwDamaged(path, "its header does not match its own checksum");
    if (encoding != ObjectEncoding::kRaw && encoding != ObjectEncoding::kZstd)
        throwDamaged(path, "its encoding is unknown to this release");
    return header;
}

void checkLength(const ObjectHeader& header, std::uint64_t length, const fs::path& path) {
    const std::uint64_t payload = length - ObjectHeader::kOverhead;
    if (payload != header.stored)
        throwDamaged(path, fmt::format("it holds {} bytes where {} were stored", payload, header.stored));
    if (header.encoding == ObjectEncoding::kRaw && header.size != header.stored)
        throwDamaged(path, "its two sizes contradict each other");
}

std::string_view kindOf(mode_t mode) {
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a named pipe";
    if (S_ISLNK(mode)) return "a symbolic link";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

[[noreturn]] void throwInTheWay(const fs::path& path, std::string_view kind) {
    throw Error(ErrorCode::kDamaged, "{} is {}, not a stored object", path.native(), kind)
        .hint("the object store never makes one: find out who did, move it away, and try again");
}

// A link gives ELOOP and a socket ENXIO, so the name is looked at, not the descriptor.
[[noreturn]] void throwUnopened(const fs::path& path, int error) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) throwInTheWay(path, kindOf(info.st_mode));
    throwErrno("open the object", path, error);
}

}  // namespace

std::string ObjectHeader::encode() const {
    std::string bytes(kMagic);
    bytes += static_cast<char>(encoding);
    bytes.resize(kSizeAt, '\0');
    appendNumber(bytes, size);
    appendNumber(bytes, stored);
    bytes += digest.view();
    bytes += sha256(bytes).view().substr(0, kSealSize);
    return bytes;
}

ObjectHeader readObjectHeader(int fd, const fs::path& path, const Digest& expected) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) throwErrno("look at", path, errno);
    const auto length = static_cast<std::uint64_t>(info.st_size);
    if (length < ObjectHeader::kOverhead) throwDamaged(path, length == 0 ? "it is empty" : "it is cut short");
    const std::string encoded = readAt(fd, path, 0, ObjectHeader::kSize);
    const ObjectHeader header = parse(encoded, path);
    if (header.digest != expected) throwDamaged(path, "it is the file of another object, " + header.digest.hex());
    checkLength(header, length, path);
    if (readAt(fd, path, length - ObjectHeader::kSealSize, ObjectHeader::kSealSize) != ObjectHeader::sealOf(encoded))
        throwDamaged(path, "its last bytes are not what was written");
    return header;
}

void throwDamaged(const fs::path& path, std::string_view reason) {
    throw Error(ErrorCode::kDamaged, "the object {} is damaged: {}", path.native(), reason)
        .hint("restore this file from a backup, or store the same content again: that replaces it");
}

void throwErrno(std::string_view action, const fs::path& path, int error) {
    throw Error(ErrorCode::kInfrastructure, "cannot {} {}: {}", action, path.native(), errnoText(error));
}

std::optional<FileDescriptor> openObjectFile(const fs::path& path) {
    // O_NONBLOCK: opening a FIFO for reading would otherwise wait for a writer for ever.
    const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == EINTR) return openObjectFile(path);
    if (fd < 0 && errno == ENOENT) return std::nullopt;
    if (fd < 0) throwUnopened(path, errno);
    FileDescriptor file(fd);
    struct stat info {};
    if (::fstat(fd, &info) != 0) throwErrno("look at", path, errno);
    if (!S_ISREG(info.st_mode)) throwInTheWay(path, kindOf(info.st_mode));
    return file;
}

FileDescriptor lockDirectory(const fs::path& directory, int operation) {
    // A description of its own for every holder: flock tells threads apart by it, as it does processes.
    FileDescriptor handle = openFile(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    while (::flock(handle.get(), operation) != 0)
        if (errno != EINTR) throwErrno("lock", directory, errno);
    return handle;
}

std::vector<std::string> namesIn(const fs::path& directory) {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
    if (!stream) throwErrno("list", directory, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(stream.get())) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) throwErrno("list", directory, errno);
    return names;
}

const std::vector<std::string>& fanOutNames() {
    static const std::vector<std::string> kNames = [] {
        std::vector<std::string> names;
        names.reserve(256);
        for (int i = 0; i < 256; ++i) names.push_back(fmt::format("{:02x}", i));
        return names;
    }();
    return kNames;
}

std::optional<Digest> digestOfName(std::string_view fanOut, std::string_view name) {
    return Digest::fromHex(std::string(fanOut).append(name));
}

}  // namespace gradus
