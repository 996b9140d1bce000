#include "store/objects.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "store/model/error.h"
#include "store/object_file.h"
#include "store/object_writer.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

/// Contents up to this size are read again before they are believed to be there already. Larger ones are believed by
/// their header, length and closing seal: reading a gigabyte again to save writing it would save nothing.
constexpr std::uint64_t kReadBeforeBelieved = std::uint64_t{1024} * 1024;

/// Marks an object whose name is known to last. One without it was put there by a writer that may have died before
/// its directory was synced.
constexpr mode_t kSettled = 0400;

class DescriptorSource final : public ByteSource {
  public:
    DescriptorSource(int fd, const fs::path& name) : fd_(fd), name_(name) {}

    std::size_t read(std::span<char> space) override {
        while (true) {
            const ssize_t got = ::read(fd_, space.data(), space.size());
            if (got >= 0) return static_cast<std::size_t>(got);
            if (errno != EINTR) throwErrno("read", name_, errno);
        }
    }

  private:
    int fd_;
    const fs::path& name_;
};

// A source may give less than it is asked for long before its end.
std::size_t fill(ByteSource& source, std::span<char> space) {
    std::size_t filled = 0;
    while (filled < space.size()) {
        const std::size_t got = source.read(space.subspan(filled));
        if (got == 0) break;
        filled += got;
    }
    return filled;
}

// The modification time is the age that a sweep looks at, by the same clock that it is given.
void makeYoung(int fd, const fs::path& path, Time now) {
    const std::int64_t millis = toMillis(now);
    const timespec time{millis / 1000, millis % 1000 * 1'000'000};
    const timespec times[2] = {time, time};
    if (::futimens(fd, times) != 0) throwErrno("refresh the object", path, errno);
}

// Also for an object found in its place: whoever put it there may not have come this far, or not yet.
void settle(int fd, const fs::path& path) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) throwErrno("look at", path, errno);
    if ((info.st_mode & 0777) == kSettled) return;
    syncDirectory(path.parent_path());
    // Only saves the next writer a sync; failing is no loss.
    static_cast<void>(::fchmod(fd, kSettled));
}

// The directory is there since the store was made, unless somebody tidied it away. The store itself is not made again:
// that it is gone may only mean that its disk is not mounted.
FileDescriptor lockPlace(const fs::path& place) {
    const fs::path fanOut = place.parent_path();
    if (::access(fanOut.c_str(), F_OK) != 0 && errno == ENOENT) {
        if (::mkdir(fanOut.c_str(), 0700) != 0 && errno != EEXIST) throwErrno("create the directory", fanOut, errno);
        syncDirectory(fanOut.parent_path());
    }
    return lockDirectory(fanOut, LOCK_SH);
}

}  // namespace

/// What is found under an object's name.
struct Objects::Occupant {
    std::optional<ObjectReader> whole;  ///< only its descriptor is of use: it may have been read to the end
    bool isBroken = false;
};

Objects::Objects(fs::path directory, const Clock& clock) : directory_(std::move(directory)), clock_(clock) {
    prepareObjects(directory_);
}

fs::path Objects::pathOf(const Digest& digest) const {
    const std::string name = digest.hex();
    return directory_ / name.substr(0, 2) / name.substr(2);
}

Digest Objects::put(ByteSource& source) {
    std::vector<char> buffer(kObjectBlock);
    const std::string_view first(buffer.data(), fill(source, buffer));
    if (first.size() < buffer.size()) return put(first);
    ObjectWriter writer(temporariesOf(directory_), first);
    writer.write(first);
    while (const std::size_t got = source.read(buffer)) writer.write({buffer.data(), got});
    return store(writer);
}

Digest Objects::put(std::string_view bytes) {
    // Hashing twice is cheaper than writing in vain.
    const Digest digest = sha256(bytes);
    if (refresh(digest)) return digest;
    ObjectWriter writer(temporariesOf(directory_), bytes.substr(0, kObjectBlock));
    writer.write(bytes);
    return store(writer);
}

Digest Objects::putFrom(int fd, const fs::path& name) {
    DescriptorSource source(fd, name);
    return put(source);
}

bool Objects::refresh(const Digest& digest) {
    const fs::path path = pathOf(digest);
    Occupant occupant;
    {
        const FileDescriptor lock = lockPlace(path);
        occupant = occupantOf(digest);
        if (!occupant.whole) return false;
        makeYoung(occupant.whole->descriptor(), path, clock_.now());
    }
    settle(occupant.whole->descriptor(), path);
    return true;
}

Objects::Occupant Objects::occupantOf(const Digest& digest) const {
    const fs::path path = pathOf(digest);
    std::optional<FileDescriptor> file = openObjectFile(path);
    if (!file) return {};
    try {
        ObjectReader reader = ObjectReader::over(std::move(*file), path, digest);
        if (reader.size() <= kReadBeforeBelieved) reader.verify();
        return {std::move(reader), false};
    } catch (const Error& error) {
        // Damage is an answer here: the content is at hand and takes the place of the damaged file.
        if (error.code() != ErrorCode::kDamaged) throw;
        return {std::nullopt, true};
    }
}

Digest Objects::store(ObjectWriter& writer) {
    const Digest digest = writer.finish();
    if (refresh(digest)) return digest;
    // Before the name, the bytes: a name that lasts must never lead to bytes that did not.
    writer.sync();
    while (!place(writer, digest))
        if (refresh(digest)) return digest;
    settle(writer.descriptor(), pathOf(digest));
    return digest;
}

// False when another writer of the same content was faster: its object is then as good as ours.
bool Objects::place(ObjectWriter& writer, const Digest& digest) const {
    const fs::path path = pathOf(digest);
    const FileDescriptor lock = lockPlace(path);
    const Occupant occupant = occupantOf(digest);
    if (occupant.whole) return false;
    makeYoung(writer.descriptor(), path, clock_.now());
    return writer.moveTo(path, occupant.isBroken);
}

std::optional<ObjectReader> Objects::find(const Digest& digest) const {
    const fs::path path = pathOf(digest);
    std::optional<FileDescriptor> file = openObjectFile(path);
    if (!file) return std::nullopt;
    return ObjectReader::over(std::move(*file), path, digest);
}

std::optional<std::uint64_t> Objects::size(const Digest& digest) const {
    const std::optional<ObjectReader> reader = find(digest);
    if (!reader) return std::nullopt;
    return reader->size();
}

ObjectReader Objects::open(const Digest& digest) const {
    std::optional<ObjectReader> reader = find(digest);
    if (!reader)
        throw Error(ErrorCode::kNotFound, "there is no object {} in {}", digest.hex(), directory_.native())
            .hint("its content was never stored here, or was swept because nothing referred to it");
    return std::move(*reader);
}

std::string Objects::readAll(const Digest& digest, std::uint64_t cap) const {
    ObjectReader reader = open(digest);
    if (reader.size() > cap)
        throw Error(ErrorCode::kNotAllowed, "the object {} holds {} bytes, {} is the most that is read at once here",
                    digest.hex(), reader.size(), cap)
            .hint("read it as a stream");
    std::string bytes(reader.size(), '\0');
    fill(reader, bytes);
    return bytes;
}

}  // namespace gradus
