#include "pipeline/engine/command_mark.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <thread>

#include "stages/sandbox/owner.h"
#include "store/model/digest.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr Milliseconds kBetweenLooks{20};
constexpr std::size_t kMostNote = 256;

std::optional<ProcessIdentity> noted(int file) {
    char text[kMostNote];
    const ssize_t size = ::pread(file, text, sizeof text, 0);
    std::istringstream words(std::string(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))));
    ProcessIdentity process;
    if (!(words >> process.bootId >> process.pidNamespace >> process.pid >> process.startTime)) return std::nullopt;
    return process;
}

bool isLocked(int file) {
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK;
    ::flock(file, LOCK_UN);
    return false;
}

// The lock alone says too much, for something that the command put into the background has it as well; the process
// alone too little, for its driver may have been killed before it was noted.
std::optional<std::int64_t> runningUnder(const fs::path& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!file) return std::nullopt;
    const auto process = noted(file.get());
    if (!process) return isLocked(file.get()) ? std::optional<std::int64_t>(0) : std::nullopt;
    if (isProvenDead(*process)) return std::nullopt;
    const bool isSeenFromHere = process->pidNamespace == thisProcess().pidNamespace;
    return isSeenFromHere || isLocked(file.get()) ? std::optional(process->pid) : std::nullopt;
}

}  // namespace

fs::path commandMark(const StateDirectory& state, const fs::path& project, const std::string& stage) {
    return state.root / "running" / sha256(project.native() + "\n" + stage).hex().substr(0, 32);
}

CommandMark::CommandMark(fs::path file) : file_(std::move(file)) {
    if (const auto process = runningUnder(file_))
        throw Error(ErrorCode::kBusy, "a command that another process started there still runs (process {})", *process)
            .hint("wait for it to end");
    std::error_code ignored;
    fs::create_directories(file_.parent_path(), ignored);
    // Never the file of before: what an earlier command left in the background may hold that locked.
    ::unlink(file_.c_str());
    lock_ = FileDescriptor(::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (lock_) ::flock(lock_.get(), LOCK_EX | LOCK_NB);
}

CommandMark::~CommandMark() {
    if (!lock_) return;
    ::flock(lock_.get(), LOCK_UN);
    ::unlink(file_.c_str());
}

HostCommand CommandMark::marked(HostCommand command) const {
    if (!lock_) return command;
    command.held = lock_.get();
    command.started = [this](pid_t pid) { note(pid); };
    return command;
}

void CommandMark::note(pid_t command) const {
    const auto process = processOf(command);
    if (!process) return;
    const std::string text =
        fmt::format("{} {} {} {}\n", process->bootId, process->pidNamespace, process->pid, process->startTime);
    [[maybe_unused]] const ssize_t written = ::pwrite(lock_.get(), text.data(), text.size(), 0);
}

std::optional<std::int64_t> CommandMark::stillRunning(const fs::path& file, Milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (true) {
        const auto process = runningUnder(file);
        if (!process || std::chrono::steady_clock::now() >= deadline) return process;
        std::this_thread::sleep_for(kBetweenLooks);
    }
}

}  // namespace gradus
