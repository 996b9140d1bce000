#include "plugins/isolation/jail_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

namespace gradus {

namespace {

// How long a jail that was told to end may take before it is killed itself.
constexpr Milliseconds kEndPatience{10'000};

// A jail that ended in the meantime has closed its socket. One that still has something to say only says that it is
// idle.
bool isAlive(const Jail& jail) {
    pollfd event{jail.control.get(), 0, 0};
    return ::poll(&event, 1, 0) == 0;
}

std::string wholeOf(int fd) {
    std::string text;
    char piece[16384];
    for (ssize_t got = 0; (got = ::pread(fd, piece, sizeof piece, static_cast<off_t>(text.size()))) > 0;)
        text.append(piece, static_cast<std::size_t>(got));
    return text;
}

}  // namespace

void endJail(Jail& jail) {
    jail.control = FileDescriptor();
    if (!jail.process.wait(kEndPatience)) jail.process.kill();
}

JailPool::JailPool(std::size_t most) : most_(most) {
    if (most > 0) mounts_ = openFile("/proc/self/mountinfo", O_RDONLY);
}

JailPool::~JailPool() {
    // All are told before any is waited for.
    for (Jail& jail : idle_) jail.control = FileDescriptor();
    for (Jail& jail : idle_) endJail(jail);
}

std::uint64_t JailPool::hostView() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lookAtHost();
}

std::uint64_t JailPool::lookAtHost() {
    if (!mounts_) return 0;
    pollfd event{mounts_.get(), POLLPRI, 0};
    // Something came or went; if it is gone again, nothing has changed.
    if (::poll(&event, 1, 0) > 0 || table_.empty()) {
        std::string table = wholeOf(mounts_.get());
        if (table != table_) ++changes_;
        table_ = std::move(table);
    }
    // A new directory in / is no mount, but a sandbox would not have it.
    struct stat root {};
    const bool known = ::stat("/", &root) == 0;
    const std::int64_t changed = known ? root.st_ctim.tv_sec * 1'000'000'000 + root.st_ctim.tv_nsec : 0;
    if (changed != rootChanged_) ++changes_;
    rootChanged_ = changed;
    return changes_;
}

std::optional<Jail> JailPool::take() {
    std::vector<Jail> stale;  // ended outside of the lock
    std::optional<Jail> found;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const std::uint64_t now = idle_.empty() ? 0 : lookAtHost();
        while (!idle_.empty() && !found) {
            Jail jail = std::move(idle_.front());
            idle_.pop_front();
            if (jail.hostView == now && isAlive(jail))
                found.emplace(std::move(jail));
            else
                stale.push_back(std::move(jail));
        }
    }
    for (Jail& jail : stale) endJail(jail);
    return found;
}

bool JailPool::put(Jail& jail) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.size() >= most_) return false;
    jail.waited = true;
    idle_.push_back(std::move(jail));
    return true;
}

}  // namespace gradus
