#include "stages/sandbox/sandbox_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <thread>

#include "store/model/error.h"

namespace gradus {

namespace {

// The file may have been removed, with its sandbox, between opening and locking it.
bool isStill(int fd, const std::filesystem::path& path) {
    struct stat held {};
    struct stat named {};
    return ::fstat(fd, &held) == 0 && ::lstat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

std::optional<FileDescriptor> take(const std::filesystem::path& path) {
    while (true) {
        FileDescriptor file = openFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
            if (errno == EINTR) continue;
            if (errno == EWOULDBLOCK) return std::nullopt;
            throw Error(ErrorCode::kInfrastructure, "cannot lock {}: {}", path.native(), errnoText(errno));
        }
        if (!isStill(file.get(), path)) continue;
        // Only for messages: the lock itself is what counts. Always as long, so that no block is freed and found anew.
        const std::string pid = fmt::format("{:<11}\n{:<11}\n", ::getpid(), 0);
        [[maybe_unused]] const ssize_t written = ::pwrite(file.get(), pid.data(), pid.size(), 0);
        return file;
    }
}

std::string busyText(const std::filesystem::path& path) {
    const auto pid = SandboxLock::holder(path);
    return pid ? "process " + std::to_string(*pid) + " is using it" : "somebody was using it";
}

}  // namespace

SandboxLock::SandboxLock(const std::filesystem::path& path, const std::string& sandbox, Milliseconds most,
                         const std::stop_token& cancel, std::string_view option)
    : path_(path) {
    const auto deadline = std::chrono::steady_clock::now() + most;
    // flock has no timed form that a token could interrupt.
    for (auto nap = std::chrono::microseconds(200);; nap = std::min(nap * 2, std::chrono::microseconds(20'000))) {
        if (auto file = take(path)) {
            file_ = std::move(*file);
            return;
        }
        if (cancel.stop_requested() || std::chrono::steady_clock::now() >= deadline) break;
        std::this_thread::sleep_for(nap);
    }
    throw Error(ErrorCode::kBusy, "sandbox {} is busy: {}", sandbox, busyText(path))
        .hint(option.empty() ? "call again when it has ended" : fmt::format("wait for it to end: {}", option));
}

// Said, not left to closing: a child that another thread is just starting has a copy of the descriptor until its exec.
SandboxLock::~SandboxLock() {
    if (file_) ::flock(file_.get(), LOCK_UN);
}

std::optional<SandboxLock> SandboxLock::attempt(const std::filesystem::path& path) {
    auto file = take(path);
    if (!file) return std::nullopt;
    return SandboxLock(path, std::move(*file));
}

namespace {

constexpr off_t kLine = 12;

/// A line of a lock that somebody holds.
std::optional<pid_t> lineOf(const std::filesystem::path& path, off_t line) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) return std::nullopt;
    // A shared lock that is had shows that nobody holds the exclusive one; it is dropped at once.
    if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) return std::nullopt;
    char text[kLine];
    const ssize_t size = ::pread(file.get(), text, sizeof text, line * kLine);
    pid_t pid = 0;
    if (size <= 0 || std::from_chars(text, text + size, pid).ec != std::errc()) return std::nullopt;
    return pid;
}

}  // namespace

std::optional<pid_t> SandboxLock::holder(const std::filesystem::path& path) { return lineOf(path, 0); }

void SandboxLock::note(pid_t command) const {
    const std::string line = fmt::format("{:<11}\n", command);
    [[maybe_unused]] const ssize_t written = ::pwrite(file_.get(), line.data(), line.size(), kLine);
}

std::optional<pid_t> SandboxLock::command(const std::filesystem::path& path) {
    const auto pid = lineOf(path, 1);
    return pid && *pid > 0 ? pid : std::nullopt;
}

void SandboxLock::removeFile() const { ::unlink(path_.c_str()); }

}  // namespace gradus
