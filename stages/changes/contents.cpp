#include "stages/changes/contents.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::size_t kBuffer = 64 * 1024;

[[noreturn]] void failToRead(std::string_view name) {
    throw Error(ErrorCode::kInfrastructure, "cannot read '{}': {}", printable(name), errnoText(errno));
}

std::size_t readAt(int fd, char* space, std::size_t size, std::uint64_t at, std::string_view name) {
    while (true) {
        const ssize_t got = ::pread(fd, space, size, static_cast<off_t>(at));
        if (got >= 0) return static_cast<std::size_t>(got);
        if (errno != EINTR) failToRead(name);
    }
}

constexpr std::uint64_t kBlock = 512;  // st_blocks counts in these

/// At least so many bytes of it are holes.
std::uint64_t leastHoles(const struct stat& info) {
    const std::uint64_t stored = static_cast<std::uint64_t>(info.st_blocks) * kBlock;
    const auto size = static_cast<std::uint64_t>(info.st_size);
    return size > stored ? size - stored : 0;
}
bool mayHaveHoles(const struct stat& info) { return leastHoles(info) > 0; }

}  // namespace

/// A file's bytes in order; a hole is made up instead of read.
class Contents::Source final : public ByteSource {
  public:
    Source(int fd, const struct stat& info, std::string_view name)
        : fd_(fd), size_(static_cast<std::uint64_t>(info.st_size)), name_(name) {
        if (!mayHaveHoles(info)) dataEnd_ = size_;
    }

    std::size_t read(std::span<char> space) override {
        if (at_ >= size_) return 0;
        if (at_ >= dataEnd_) findData();
        const bool inHole = at_ < dataBegin_;
        const std::uint64_t left = (inHole ? dataBegin_ : dataEnd_) - at_;
        std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(space.size(), left));
        if (inHole) {
            std::memset(space.data(), 0, count);
            holes_ += count;
        } else {
            count = readAt(fd_, space.data(), count, at_, name_);
            data_ += count;
        }
        at_ += count;
        return count;
    }

    std::uint64_t holes() const { return holes_; }
    std::uint64_t data() const { return data_; }
    std::uint64_t extents() const { return extents_; }

  private:
    void findData() {
        ++extents_;
        const off_t data = ::lseek(fd_, static_cast<off_t>(at_), SEEK_DATA);
        if (data < 0 && errno != ENXIO) failToRead(name_);
        dataBegin_ = data < 0 ? size_ : std::min(static_cast<std::uint64_t>(data), size_);
        const off_t hole = data < 0 ? -1 : ::lseek(fd_, data, SEEK_HOLE);
        dataEnd_ = hole < 0 ? size_ : std::min(static_cast<std::uint64_t>(hole), size_);
    }

    int fd_;
    std::uint64_t size_;
    std::string_view name_;
    std::uint64_t at_ = 0;
    std::uint64_t dataBegin_ = 0;
    std::uint64_t dataEnd_ = 0;
    std::uint64_t holes_ = 0;
    std::uint64_t data_ = 0;
    std::uint64_t extents_ = 0;
};

void Contents::charge(std::uint64_t bytes) {
    if (bytes > bytesLeft_)
        throw Error(ErrorCode::kNotAllowed, "the changed files hold more than {} bytes, the most that is read", most_)
            .hint("remove what need not be part of the change, or let git ignore it");
    bytesLeft_ -= bytes;
}

Contents::Content Contents::readWhole(int fd, std::uint64_t size, std::string_view name) {
    std::size_t filled = 0;
    while (filled < size) {
        const std::size_t got =
            readAt(fd, buffer_.data() + filled, static_cast<std::size_t>(size) - filled, filled, name);
        if (got == 0) break;
        filled += got;
    }
    charge(filled);
    const std::string_view whole(buffer_.data(), filled);
    return {hasher_.update(whole).finish(), filled, whole, true};
}

std::optional<Contents::Content> Contents::read(int fd, const struct stat& info, std::string_view name) {
    buffer_.resize(kBuffer);
    // A hole costs its sandbox nothing and us a second per gigabyte: refused before the first byte, not after the last.
    if (leastHoles(info) > holesLeft_) return std::nullopt;
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (size <= kBuffer) return readWhole(fd, size, name);
    Source source(fd, info, name);
    Content content;
    std::uint64_t charged = 0;
    while (const std::size_t got = source.read(buffer_)) {
        charge(source.data() - charged);
        charged = source.data();
        hasher_.update({buffer_.data(), got});
        content.size += got;
        between_();
        if (source.holes() <= holesLeft_ && source.extents() <= extentsLeft_) continue;
        // What was spent on it is spent: a thousand such files must not cost a thousand times the bound.
        holesLeft_ -= std::min(holesLeft_, source.holes());
        extentsLeft_ -= std::min(extentsLeft_, source.extents());
        static_cast<void>(hasher_.finish());
        return std::nullopt;
    }
    holesLeft_ -= source.holes();
    extentsLeft_ -= source.extents();
    content.digest = hasher_.finish();
    return content;
}

Digest Contents::keep(int fd, const struct stat& info, const Content& content, std::string_view name,
                      Objects& objects) {
    if (content.inMemory) return objects.put(content.whole);
    Source source(fd, info, name);
    return objects.put(source);
}

}  // namespace gradus
