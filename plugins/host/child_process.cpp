#include "plugins/host/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "store/model/error.h"

namespace gradus {

namespace {

/// Owns the two attribute objects of posix_spawn.
class SpawnSettings {
  public:
    SpawnSettings() {
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
    }
    SpawnSettings(const SpawnSettings&) = delete;
    SpawnSettings& operator=(const SpawnSettings&) = delete;
    ~SpawnSettings() {
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    }

    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
};

// A child's number may be another pair's source, so every source first moves out of the way.
void arrangeDescriptors(SpawnSettings& settings, const ChildPlan& plan, std::vector<FileDescriptor>& moved) {
    int highest = 2;
    for (const auto& [ours, theirs] : plan.descriptors) highest = std::max(highest, theirs);
    for (int fd = 0; fd < 3; ++fd)
        posix_spawn_file_actions_addopen(&settings.actions, fd, "/dev/null", fd == 0 ? O_RDONLY : O_WRONLY, 0);
    for (const auto& [ours, theirs] : plan.descriptors) {
        moved.emplace_back(::fcntl(ours, F_DUPFD_CLOEXEC, highest + 1));
        if (!moved.back()) throw Error(ErrorCode::kInfrastructure, "cannot pass a descriptor on: {}", errnoText(errno));
        posix_spawn_file_actions_adddup2(&settings.actions, moved.back().get(), theirs);
    }
    posix_spawn_file_actions_addclosefrom_np(&settings.actions, highest + 1);
    if (!plan.directory.empty()) posix_spawn_file_actions_addchdir_np(&settings.actions, plan.directory.c_str());
}

void resetSignals(SpawnSettings& settings) {
    sigset_t all;
    ::sigfillset(&all);
    posix_spawnattr_setsigdefault(&settings.attributes, &all);
    sigset_t none;
    ::sigemptyset(&none);
    posix_spawnattr_setsigmask(&settings.attributes, &none);
    posix_spawnattr_setflags(&settings.attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
    all.push_back(nullptr);
    return all;
}

}  // namespace

ChildProcess::ChildProcess(const ChildPlan& plan) {
    SpawnSettings settings;
    std::vector<FileDescriptor> moved;
    arrangeDescriptors(settings, plan, moved);
    resetSignals(settings);
    const std::vector<char*> arguments = pointers(plan.arguments);
    const std::vector<char*> environment = pointers(plan.environment);
    const int error = ::posix_spawn(&pid_, plan.program.c_str(), &settings.actions, &settings.attributes,
                                    arguments.data(), environment.data());
    if (error != 0) {
        pid_ = -1;
        throw Error(ErrorCode::kInfrastructure, "cannot start {}: {}", plan.program.native(), errnoText(error));
    }
    // The pid is ours until it is waited for, so this cannot name another process.
    pidfd_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)), status_(other.status_) {}

ChildProcess::~ChildProcess() {
    if (pid_ < 0 || status_) return;
    kill();
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
}

void ChildProcess::kill() const {
    if (pid_ > 0 && !status_) ::kill(pid_, SIGKILL);
}

std::optional<int> ChildProcess::wait(Milliseconds patience) {
    if (status_) return status_;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (true) {
        int status = 0;
        const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
        if (ended == pid_) return status_ = status;
        const auto left = std::chrono::ceil<Milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left <= Milliseconds(0)) return std::nullopt;
        pollfd event{pidfd_.get(), POLLIN, 0};
        ::poll(&event, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1000)));
    }
}

}  // namespace gradus
