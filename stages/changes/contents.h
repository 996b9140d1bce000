#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "store/model/digest.h"
#include "store/objects.h"

namespace gradus {

/// What all reads together may cost.
struct ContentBounds {
    std::uint64_t bytes = 0;
    std::uint64_t holes = 0;
    std::uint64_t extents = 0;
};

/// Reads regular files for their digests, within bounds. Holes are known and not read. One thread at a time.
class Contents {
  public:
    /// `between` is called after each piece that was read, and may throw.
    Contents(const ContentBounds& bounds, std::function<void()> between)
        : bytesLeft_(bounds.bytes),
          holesLeft_(bounds.holes),
          extentsLeft_(bounds.extents),
          most_(bounds.bytes),
          between_(std::move(between)) {}

    struct Content {
        Digest digest;
        std::uint64_t size = 0;
        std::string_view whole;  ///< the bytes, if they are few: valid until the next read()
        bool inMemory = false;
    };

    /// The file from its beginning; nothing when its holes or extents go beyond the bound. `name` is for messages.
    /// Throws Error when all that was read goes beyond its bound, and when the disk says no.
    std::optional<Content> read(int fd, const struct stat& info, std::string_view name);

    /// Puts what read() has just told of into `objects`; the digest is that of the bytes that were put.
    Digest keep(int fd, const struct stat& info, const Content& content, std::string_view name, Objects& objects);

  private:
    class Source;

    Content readWhole(int fd, std::uint64_t size, std::string_view name);
    void charge(std::uint64_t bytes);

    std::uint64_t bytesLeft_;
    std::uint64_t holesLeft_;
    std::uint64_t extentsLeft_;
    std::uint64_t most_;
    std::function<void()> between_;
    std::vector<char> buffer_;
    Hasher hasher_;
};

}  // namespace gradus
