#include "store/writer_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "store/model/error.h"

namespace gradus {

WriterLock::WriterLock(const std::filesystem::path& path, Milliseconds patience)
    : file_(openFile(path, O_RDWR | O_CREAT, 0600)) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    // flock has no timed form. Holders keep it for about a millisecond, so short naps lose little.
    for (auto nap = std::chrono::microseconds(200);; nap = std::min(nap * 2, std::chrono::microseconds(10'000))) {
        if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return;
        if (errno != EWOULDBLOCK && errno != EINTR)
            throw Error(ErrorCode::kInfrastructure, "cannot lock {}: {}", path.native(), errnoText(errno));
        if (std::chrono::steady_clock::now() >= deadline)
            throw Error(ErrorCode::kBusy, "another gradus process has been writing to {} for {} s",
                        path.parent_path().native(), patience.count() / 1000)
                .hint("try again; `fuser " + path.native() + "` names the process");
        std::this_thread::sleep_for(nap);
    }
}

}  // namespace gradus
