#include "plugins/isolation/jail_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "store/model/error.h"

namespace gradus {

namespace {

// How long a jail that was told to end may take before it is killed itself.
constexpr Milliseconds kEndPatience{10'000};
constexpr std::int64_t kUnsettled = -1;

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

std::int64_t changeOf(const std::filesystem::path& directory) {
    struct stat info {};
    if (::stat(directory.c_str(), &info) != 0) return 0;
    return info.st_ctim.tv_sec * 1'000'000'000 + info.st_ctim.tv_nsec;
}

// One that was changed this very moment may be changed again within the same step of the file system's clock.
bool isSettled(std::int64_t changed) {
    constexpr std::int64_t kStep = 20'000'000;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return changed < now.tv_sec * 1'000'000'000 + now.tv_nsec - kStep;
}

std::vector<std::filesystem::path> directoriesOf(const std::vector<std::filesystem::path>& places) {
    std::set<std::filesystem::path> all{"/"};
    for (const std::filesystem::path& place : places) all.insert(place.parent_path());
    return {all.begin(), all.end()};
}

}  // namespace

void endJail(Jail& jail) {
    jail.control = FileDescriptor();
    if (!jail.process.wait(kEndPatience)) jail.process.kill();
    if (!jail.init) return;
    // A jail that was killed is gone before what it kept is: layers that are still mounted must not be mounted again.
    pollfd event{jail.init.get(), POLLIN, 0};
    ::poll(&event, 1, static_cast<int>(kEndPatience.count()));
}

JailPool::JailPool(Settings settings)
    : settings_(std::move(settings)), around_(directoriesOf(settings_.watched)), lastChanged_(around_.size()) {
    if (settings_.most > 0) mounts_ = openFile("/proc/self/mountinfo", O_RDONLY);
    if (settings_.most > 0 && settings_.make)
        refilling_ = std::jthread([this](const std::stop_token& stop) { refill(stop); });
}

void JailPool::stopRefilling() {
    refilling_.request_stop();
    if (refilling_.joinable()) refilling_.join();
}

JailPool::~JailPool() {
    stopRefilling();
    // All are told before any is waited for.
    for (Jail& jail : idle_) jail.control = FileDescriptor();
    for (Jail& jail : idle_) endJail(jail);
}

std::uint64_t JailPool::hostView() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lookAtHost();
}

std::size_t JailPool::waiting() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return idle_.size();
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
    // A new directory in / is no mount, but a sandbox would not have it. And who replaces a file by another of the same
    // name takes away what covers it, in every mount namespace: /etc/shadow, with every new password.
    for (std::size_t i = 0; i < around_.size(); ++i) {
        const std::int64_t changed = changeOf(around_[i]);
        if (changed != lastChanged_[i]) ++changes_;
        lastChanged_[i] = changed == 0 || isSettled(changed) ? changed : kUnsettled;
    }
    return changes_;
}

std::vector<Jail> JailPool::takeStale() {
    std::vector<Jail> stale;
    const std::uint64_t now = idle_.empty() ? 0 : lookAtHost();
    for (std::size_t left = idle_.size(); left > 0; --left) {
        Jail jail = std::move(idle_.front());
        idle_.pop_front();
        if (jail.hostView == now && isAlive(jail))
            idle_.push_back(std::move(jail));
        else
            stale.push_back(std::move(jail));
    }
    return stale;
}

bool JailPool::haveForgotten() const {
    return std::all_of(idle_.begin(), idle_.end(), [](const Jail& jail) {
        pollfd event{jail.control.get(), POLLIN, 0};
        return !jail.forgets || ::poll(&event, 1, 0) != 0;
    });
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
        wasUsed();
    }
    for (Jail& jail : stale) endJail(jail);
    return found;
}

bool JailPool::put(Jail& jail) {
    const std::lock_guard<std::mutex> lock(mutex_);
    wasUsed();
    if (idle_.size() >= settings_.most) return false;
    jail.waited = true;
    idle_.push_back(std::move(jail));
    --begun_;
    wanted_ = std::max(wanted_, idle_.size());
    return true;
}

void JailPool::begun() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++begun_;
}

void JailPool::left() {
    const std::lock_guard<std::mutex> lock(mutex_);
    --begun_;
    wasUsed();
}

void JailPool::wasAsked() {
    const std::lock_guard<std::mutex> lock(mutex_);
    wasUsed();
}

// Nobody is woken while sandboxes come and go.
void JailPool::wasUsed() {
    lastUse_ = Steady::now();
    if (std::exchange(isParked_, false)) used_.notify_one();
}

/// Waits until nobody has asked for a while; true if one should be made then.
bool JailPool::isLacking(const std::stop_token& stop) {
    std::vector<Jail> stale;
    std::unique_lock lock(mutex_);
    used_.wait(lock, stop, [this] { return !isParked_; });
    while (!stop.stop_requested() && (Steady::now() < lastUse_ + settings_.quiet || !haveForgotten()))
        used_.wait_for(lock, stop, settings_.quiet, [] { return false; });
    stale = takeStale();
    const bool lacks = idle_.size() + begun_ < wanted_ && !stop.stop_requested();
    isParked_ = !lacks;
    lock.unlock();
    for (Jail& jail : stale) endJail(jail);
    return lacks;
}

void JailPool::refill(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
        const bool lacks = isLacking(stop);
        if (stop.stop_requested()) return;
        if (!lacks) {
            if (settings_.whenQuiet) settings_.whenQuiet();
            continue;
        }
        try {
            Jail jail = settings_.make();
            jail.waited = true;
            std::unique_lock lock(mutex_);
            if (idle_.size() < settings_.most) {
                idle_.push_back(std::move(jail));
                continue;
            }
            lock.unlock();
            endJail(jail);
        } catch (const Error&) {
            // Whoever asks for a sandbox meets the same fault, and says so.
            const std::lock_guard lock(mutex_);
            isParked_ = true;
        }
    }
}

}  // namespace gradus
