#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "store/model/digest.h"
#include "store/objects.h"

namespace gradus {

/// Reads regular files for their digests, within bounds. Holes are known and not read. One thread at a time.
class Contents {
  public:
    Contents(std::uint64_t maxBytes, std::uint64_t maxHoles)
        : bytesLeft_(maxBytes), holesLeft_(maxHoles), most_(maxBytes) {}

    struct Content {
        Digest digest;
        std::uint64_t size = 0;
        std::string_view whole;  ///< the bytes, if they are few: valid until the next read()
        bool inMemory = false;
    };

    /// The file from its beginning; nothing when its holes go beyond the bound. `name` is for messages. Throws Error
    /// when all that was read goes beyond its bound, and when the disk says no.
    std::optional<Content> read(int fd, const struct stat& info, std::string_view name);

    /// Puts what read() has just told of into `objects`; the digest is that of the bytes that were put.
    Digest keep(int fd, const struct stat& info, const Content& content, std::string_view name, Objects& objects);

  private:
    class Source;

    Content readWhole(int fd, std::uint64_t size, std::string_view name);
    void charge(std::uint64_t bytes);

    std::uint64_t bytesLeft_;
    std::uint64_t holesLeft_;
    std::uint64_t most_;
    std::vector<char> buffer_;
    Hasher hasher_;
};

}  // namespace gradus
