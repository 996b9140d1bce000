#include "stages/drivers/ref_note.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "store/model/digest.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kLongestMove{60};
constexpr std::chrono::milliseconds kLockNap{10};
/// git holds a lock of a ref for a few milliseconds: one that stays as it is for this long has no git behind it.
constexpr std::chrono::milliseconds kSettled{300};
constexpr std::uint64_t kLargestNote = 256;
constexpr std::string_view kNothing = "-";

bool isBefore(const timespec& one, const timespec& other) {
    return std::pair(one.tv_sec, one.tv_nsec) < std::pair(other.tv_sec, other.tv_nsec);
}

bool isSameFile(const struct stat& one, const struct stat& other) {
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino && one.st_size == other.st_size &&
           !isBefore(one.st_ctim, other.st_ctim) && !isBefore(other.st_ctim, one.st_ctim);
}

/// A move that was killed.
struct KilledMove {
    std::string to;
    timespec since;
};

bool canBeOf(const KilledMove& move, const fs::path& lock, struct stat& info) {
    if (::lstat(lock.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return false;
    if (isBefore(info.st_ctim, move.since)) return false;
    const auto text = readPlainFile(AT_FDCWD, lock, kLargestNote);
    return text && (move.to + "\n").starts_with(*text);
}

void clear(const std::vector<fs::path>& locks, const KilledMove& move) {
    std::vector<std::pair<fs::path, struct stat>> left;
    for (const fs::path& lock : locks) {
        struct stat info {};
        if (canBeOf(move, lock, info)) left.emplace_back(lock, info);
    }
    if (left.empty()) return;
    std::this_thread::sleep_for(kSettled);
    for (const auto& [lock, before] : left) {
        struct stat now {};
        if (!canBeOf(move, lock, now) || !isSameFile(before, now)) continue;
        // git writes the packed refs beside, and only while it has their lock.
        if (lock.filename() == "packed-refs.lock") ::unlink((lock.parent_path() / "packed-refs.new").c_str());
        ::unlink(lock.c_str());
    }
}

}  // namespace

std::vector<fs::path> locksOf(const GitWorkTree& git, const std::string& ref) {
    std::vector<fs::path> found;
    for (const fs::path& lock : {git.common / (ref + ".lock"), git.directory / "HEAD.lock", git.common / "HEAD.lock",
                                 git.common / "packed-refs.lock"}) {
        struct stat info {};
        const bool isNamed = !found.empty() && found.back() == lock;
        if (!isNamed && ::lstat(lock.c_str(), &info) == 0) found.push_back(lock);
    }
    return found;
}

RefNote::RefNote(const GitWorkTree& git, std::string ref, std::string to)
    : git_(git),
      ref_(std::move(ref)),
      to_(std::move(to)),
      path_(git.common / ("gradus-moving-" + sha256(ref_).brief())) {
    const auto deadline = std::chrono::steady_clock::now() + kLongestMove;
    while (!open()) {
        if (std::chrono::steady_clock::now() > deadline)
            throw Error(ErrorCode::kBusy, "another gradus, or its git, has been moving {} in {} for a minute", ref_,
                        git_.common.native())
                .hint("wait until that git has ended, then try again");
        std::this_thread::sleep_for(kLockNap);
    }
}

/// False: another process has it now.
bool RefNote::open() {
    FileDescriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (!file) return true;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
    struct stat locked {};
    struct stat named {};
    if (::fstat(file.get(), &locked) != 0 || ::lstat(path_.c_str(), &named) != 0 || locked.st_ino != named.st_ino)
        return false;
    const auto text = readPlainFile(AT_FDCWD, path_, kLargestNote).value_or("");
    if (!text.empty()) {
        // The note stays as it is until what it tells of is cleared: this process may be killed, too.
        clear(locksOf(git_, ref_), {text == kNothing ? "" : text, locked.st_mtim});
    }
    const std::string_view now = to_.empty() ? kNothing : std::string_view(to_);
    const bool isWritten = ::pwrite(file.get(), now.data(), now.size(), 0) == static_cast<ssize_t>(now.size()) &&
                           ::ftruncate(file.get(), static_cast<off_t>(now.size())) == 0 && ::fsync(file.get()) == 0;
    if (!isWritten) {
        ::unlink(path_.c_str());
        return true;
    }
    // After a power cut the note must be there if a lock is.
    syncDirectory(path_.parent_path());
    ::fstat(file.get(), &locked);
    since_ = locked.st_mtim;
    file_ = std::move(file);
    return true;
}

void RefNote::clearAfterKill() const {
    if (file_) clear(locksOf(git_, ref_), {to_, since_});
}

void RefNote::finish() {
    if (!file_) return;
    ::unlink(path_.c_str());
    file_ = FileDescriptor();
}

}  // namespace gradus
