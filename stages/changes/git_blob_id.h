#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace gradus {

/// How a repository names its objects.
enum class BlobNaming { kNone, kSha1, kSha256 };

/// The naming that gives ids as long as `id`.
BlobNaming namingOf(std::string_view id);

/// git's name for a content whose size is known beforehand, in lower-case hexadecimal. One thread at a time.
class BlobHasher {
  public:
    BlobHasher(BlobNaming naming, std::uint64_t size);
    ~BlobHasher();
    BlobHasher(const BlobHasher&) = delete;
    BlobHasher& operator=(const BlobHasher&) = delete;

    void update(std::string_view bytes);
    std::string finish();

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

}  // namespace gradus
