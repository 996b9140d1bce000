#include "store/ballast.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/file.h"

namespace gradus {

namespace {

// Taking the last bytes of a nearly full disk would cause the very trouble the ballast is for.
constexpr std::uintmax_t kRoomLeftOver = 4 * Ballast::kSize;

}  // namespace

bool Ballast::isPresent() const noexcept {
    std::error_code ignored;
    return std::filesystem::file_size(path_, ignored) == kSize;
}

void Ballast::restore() const noexcept {
    if (isPresent()) return;
    std::error_code error;
    const auto space = std::filesystem::space(path_.parent_path(), error);
    if (error || space.available < kRoomLeftOver) return;
    const FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    // fallocate takes real blocks; a sparse file would promise room that is not there.
    if (!file || ::posix_fallocate(file.get(), 0, static_cast<off_t>(kSize)) != 0) ::unlink(path_.c_str());
}

void Ballast::releaseIfShort() const noexcept {
    std::error_code error;
    const auto space = std::filesystem::space(path_.parent_path(), error);
    if (!error && space.available < kSize) release();
}

bool Ballast::release() const noexcept { return ::unlink(path_.c_str()) == 0; }

}  // namespace gradus
