#include "plugins/isolation/jail/init.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>

#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/jail/descendants.h"
#include "plugins/isolation/jail/filter.h"
#include "plugins/isolation/jail/identity.h"
#include "plugins/isolation/jail/landlock.h"
#include "plugins/isolation/jail/proc.h"

namespace gradus {

namespace {

// Everything the command's process needs between vfork and exec, worked out beforehand: in there no memory may be
// allocated, because it is pid 1's.
struct Launch {
    std::vector<std::string> candidates;
    std::vector<char*> arguments;
    std::vector<char*> shellArguments;  ///< for a script without an interpreter line, as execvp does
    std::vector<char*> environment;
    const char* directory = nullptr;
    std::array<int, 3> stdio{};
    mode_t umask = 022;
    bool terminal = false;
    bool bare = false;  ///< no pid namespace goes with pid 1
    const char* volatile failedStep = nullptr;
    volatile int error = 0;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
    all.push_back(nullptr);
    return all;
}

std::string searchPath(const std::vector<std::string>& environment) {
    for (const std::string& variable : environment)
        if (variable.starts_with("PATH=")) return variable.substr(5);
    return "/usr/local/bin:/usr/bin:/bin";
}

std::vector<std::string> candidatesFor(const JailRun& run) {
    if (run.program.find('/') != std::string::npos) return {run.program};
    std::vector<std::string> candidates;
    for (const std::string& directory : splitWords(searchPath(run.environment), ":"))
        candidates.push_back(directory + "/" + run.program);
    return candidates;
}

Launch prepareLaunch(const JailRun& run, const std::vector<Descriptor>& stdio) {
    Launch launch;
    launch.candidates = candidatesFor(run);
    launch.arguments = pointers(run.arguments);
    launch.shellArguments = launch.arguments;
    launch.shellArguments.insert(launch.shellArguments.begin(), const_cast<char*>("sh"));
    launch.environment = pointers(run.environment);
    launch.directory = run.directory.c_str();
    launch.umask = run.umask;
    launch.terminal = run.terminal;
    for (std::size_t i = 0; i < 3; ++i) launch.stdio[i] = stdio[i].get();
    return launch;
}

// Signals as a fresh process expects them. Handlers go with exec by themselves; only what is ignored would stay.
void resetSignals() {
    ::signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

int arrangeDescriptors(const std::array<int, 3>& stdio) {
    for (int fd = 0; fd < 3; ++fd)
        if (::dup2(stdio[static_cast<std::size_t>(fd)], fd) < 0) return errno;
    return ::close_range(3, ~0U, 0) == 0 ? 0 : errno;
}

int executeFirst(Launch& launch) {
    int result = ENOENT;
    for (const std::string& candidate : launch.candidates) {
        ::execve(candidate.c_str(), launch.arguments.data(), launch.environment.data());
        if (errno == ENOEXEC) {
            launch.shellArguments[1] = const_cast<char*>(candidate.c_str());
            ::execve("/bin/sh", launch.shellArguments.data(), launch.environment.data());
        }
        if (errno == EACCES) {
            result = EACCES;  // keep looking, as a shell does
        } else if (errno != ENOENT && errno != ENOTDIR) {
            return errno;
        }
    }
    return result;
}

[[noreturn]] void launchFailed(Launch& launch, const char* step, int error) {
    launch.failedStep = step;
    launch.error = error;
    ::_exit(127);
}

[[noreturn]] void becomeCommand(Launch& launch) {
    ::setsid();  // a session of its own: there is nothing to type into
    if (launch.bare) ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (const int error = arrangeDescriptors(launch.stdio)) launchFailed(launch, "descriptors", error);
    if (launch.terminal && ::ioctl(0, TIOCSCTTY, 0) != 0) launchFailed(launch, "terminal", errno);
    ::umask(launch.umask);
    if (::chdir(launch.directory) != 0) launchFailed(launch, "directory", errno);
    resetSignals();
    launchFailed(launch, "exec", executeFirst(launch));
}

// The child borrows our memory until it executes, so its failure is simply there when we go on. It makes only system
// calls, and pid 1 has nothing else to do meanwhile: what makes vfork dangerous elsewhere is wanted here.
// NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork, clang-analyzer-unix.Vfork)
__attribute__((noinline)) pid_t startCommand(Launch& launch) {
    const pid_t command = ::vfork();
    if (command == 0) becomeCommand(launch);
    return command;
}
// NOLINTEND(clang-analyzer-security.insecureAPI.vfork, clang-analyzer-unix.Vfork)

/// All but ourselves.
std::vector<pid_t> processesLeft(bool bare) {
    if (bare) return descendantsOf(::getpid());
    // The common end: nobody else is here to take a signal.
    if (::kill(-1, 0) != 0 && errno == ESRCH) return {};
    const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
    std::vector<pid_t> left;
    while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr)
        if (const auto pid = parseNumber(entry->d_name); pid && *pid != 1) left.push_back(static_cast<pid_t>(*pid));
    return left;
}

std::array<char, 256> namesOf(const std::vector<pid_t>& pids) {
    std::array<char, 256> names{};
    std::size_t used = 0;
    for (const pid_t pid : pids) {
        std::string name = readText("/proc/" + std::to_string(pid) + "/comm").value_or("");
        while (!name.empty() && name.back() == '\n') name.pop_back();
        if (name.empty()) continue;
        if (used + name.size() + 1 >= names.size()) break;
        std::memcpy(names.data() + used, name.c_str(), name.size() + 1);
        used += name.size() + 1;
    }
    return names;
}

class Init {
  public:
    explicit Init(const InitPlan& plan) : plan_(plan) {}

    [[noreturn]] void run() {
        if (auto failed = confine()) fail(*failed);
        const int signals = watchChildren();
        std::optional<JailFrame> frame = receiveFrame(plan_.channel);
        const std::optional<JailRun> command = frame ? decodeRun(frame->body) : std::nullopt;
        if (!command || frame->descriptors.size() != 3) ::_exit(1);  // never asked for, or no longer
        if (plan_.setup.bare)
            if (auto failed = confineTo(command->directory)) fail(*failed);
        start(*command, frame->descriptors);
        frame.reset();
        reapUntilEnd(signals);
    }

  private:
    Attempt confine() {
        for (const int file : plan_.taskFiles)
            if (::write(file, "0", 1) != 1) return failure("cgroup", "join");
        if (plan_.setup.bare) return confineBare();
        // After joining, so that the group we are in is the root of what the command sees.
        if (::unshare(CLONE_NEWCGROUP) != 0) return failure("namespaces", "cgroup namespace");
        if (auto failed = mountProc(plan_.masks)) return failed;
        if (auto failed = plan_.setup.system ? becomeInnerRoot()
                                             : becomeIdentity(plan_.rootless, plan_.setup.uid, plan_.setup.gid))
            return failed;
        readNamespaces();
        closeInherited();
        if (auto failed = dieWithSupervisor()) return failed;
        if (auto failed = applyProcessLimits(plan_.limits)) return failed;
        if (auto failed = plan_.setup.system ? keepPackageCapabilities() : dropPrivileges()) return failed;
        // What waits for its sandbox has nothing left to do then but to be kept to its places.
        if (plan_.ahead) {
            if (auto failed = install()) return failed;
            return restrictByLandlock(awaitPlaces());
        }
        if (auto failed = restrictByLandlock(plan_.writable)) return failed;
        return install();
    }

    std::vector<std::string> awaitPlaces() const {
        const std::optional<JailFrame> frame = receiveFrame(plan_.channel);
        if (!frame || frame->kind != JailMessage::kPlaces) ::_exit(1);  // nobody needs us any more
        return splitWords(frame->body, std::string_view("\0", 1));
    }

    // What can be had without namespaces and before the command is known; the rest is confineTo().
    Attempt confineBare() {
        if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return failure("start", "adopt orphans");
        if (!plan_.rootless)
            if (auto failed = changeIds(plan_.setup.uid, plan_.setup.gid)) return failed;
        readNamespaces();
        closeInherited();
        if (auto failed = dieWithSupervisor()) return failed;
        if (auto failed = applyProcessLimits(plan_.limits)) return failed;
        return plan_.rootless ? giveUpPrivileges() : dropPrivileges();
    }

    // Where the command starts it may write; everywhere else it reads.
    Attempt confineTo(const std::string& directory) {
        std::vector<std::string> writable = {"/dev", "/tmp"};
        // One that cannot be entered is told as that, a step later.
        if (directory != "/" && ::access(directory.c_str(), X_OK) == 0) writable.push_back(directory);
        if (auto failed = restrictByLandlock(writable)) return failed;
        return install();
    }

    // Where nobody can listen (another listens already, the kernel is too old) the filter decides alone, and what it
    // refuses is not reported. A network by name is not opened then: every destination is to be in the record.
    Attempt install() {
        const bool byName = !plan_.setup.routes.empty();
        const Attempt failed = installWatchedFilter(plan_.filter, byName, listener_);
        if (!failed) return std::nullopt;
        if (byName)
            return failure("network",
                           "by name needs a kernel that reports connections (Linux 5.19) and no other that listens",
                           failed->error);
        return installFilter(buildFilter(plan_.setup.deniedCalls, {}, plan_.setup.system));
    }

    void start(const JailRun& command, const std::vector<Descriptor>& stdio) {
        Launch launch = prepareLaunch(command, stdio);
        launch.bare = plan_.setup.bare;
        started_.nanos = bootNanos();
        command_ = startCommand(launch);
        if (command_ < 0) fail(failure("start", command.program));
        if (launch.error != 0) {
            const char* step = launch.failedStep;
            fail(
                failure(step, std::strcmp(step, "directory") == 0 ? command.directory : command.program, launch.error));
        }
        std::vector<int> descriptors = {proc_.get(), mounts_.get()};
        if (sharedMemory_) descriptors.push_back(sharedMemory_.get());
        started_.hasSharedMemory = sharedMemory_ ? 1 : 0;
        if (listener_) descriptors.push_back(listener_.get());
        send(JailMessage::kStarted, started_, descriptors);
        listener_.reset();
        proc_.reset();
        mounts_.reset();
        sharedMemory_.reset();
    }

    void readNamespaces() {
        for (std::size_t i = 0; i < kNamespaceNames.size(); ++i) {
            struct stat info {};
            const std::string path = "/proc/self/ns/" + std::string(kNamespaceNames[i]);
            if (::stat(path.c_str(), &info) == 0) started_.namespaces[i] = info.st_ino;
        }
        proc_ = openPath(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY);
        mounts_ = openPath(AT_FDCWD, "/proc/self/ns/mnt", O_RDONLY);
        // What it shows is the ipc namespace in which it was opened.
        if (!plan_.setup.bare) sharedMemory_ = openPath(AT_FDCWD, "/proc/sysvipc/shm", O_RDONLY);
    }

    // Of all that the supervisor holds (the engine's socket, layers of the workspace, control groups) nothing stays.
    void closeInherited() {
        const std::array<int, 5> kept = {plan_.channel, proc_.get(), mounts_.get(), sharedMemory_.get(), plan_.held};
        for (unsigned first = 3; first != 0;) {
            unsigned next = ~0U;
            for (const int fd : kept)
                if (fd >= 0 && static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) < next)
                    next = static_cast<unsigned>(fd);
            if (next > first) ::close_range(first, next == ~0U ? ~0U : next - 1, 0);
            first = next == ~0U ? 0 : next + 1;
        }
    }

    // Set after the change of ids, which clears it. A supervisor that died before shows as a closed channel. Without a
    // namespace to end with us, the command's processes would outlive a signal: there the closed channel is the signal.
    Attempt dieWithSupervisor() {
        if (!plan_.setup.bare && ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
            return failure("die with parent", "");
        pollfd channel{plan_.channel, POLLIN, 0};
        if (::poll(&channel, 1, 0) > 0 && (channel.revents & (POLLHUP | POLLERR)) != 0) ::_exit(1);
        return std::nullopt;
    }

    static int watchChildren() {
        sigset_t all;
        ::sigfillset(&all);
        ::sigprocmask(SIG_SETMASK, &all, nullptr);
        sigset_t children;
        ::sigemptyset(&children);
        ::sigaddset(&children, SIGCHLD);
        return ::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    }

    [[noreturn]] void reapUntilEnd(int signals) {
        while (true) {
            reap();
            pollfd events[2] = {{plan_.channel, POLLIN, 0}, {signals, POLLIN, 0}};
            if (::poll(events, 2, -1) < 0) continue;
            signalfd_siginfo seen{};
            while (::read(signals, &seen, sizeof seen) > 0) continue;
            if (events[0].revents != 0) obey();
        }
    }

    void reap() {
        while (true) {
            int status = 0;
            const pid_t child = ::waitpid(-1, &status, WNOHANG);
            if (child <= 0) return;
            if (child != command_) continue;
            InitEnded ended{bootNanos(), status, 0, {}, {}};
            const std::vector<pid_t> left = processesLeft(plan_.setup.bare);
            ended.leftBehind = static_cast<std::uint32_t>(left.size());
            if (!left.empty()) ended.leftovers = namesOf(left);
            ::getrusage(RUSAGE_CHILDREN, &ended.usage);
            send(JailMessage::kEnded, ended);
            ::_exit(0);
        }
    }

    void obey() {
        const std::optional<JailFrame> frame = receiveFrame(plan_.channel);
        if (!frame) {
            if (plan_.setup.bare) endDescendants();
            ::_exit(1);
        }
        if (frame->kind == JailMessage::kStop) ::kill(command_, SIGTERM);
    }

    [[noreturn]] void fail(const Failure& failed) {
        sendFrame(plan_.channel, JailMessage::kFailed, encode(failed));
        ::_exit(1);
    }

    template <typename Body>
    void send(JailMessage kind, const Body& body, const std::vector<int>& descriptors = {}) {
        sendFrame(plan_.channel, kind, {reinterpret_cast<const char*>(&body), sizeof body}, descriptors);
    }

    const InitPlan& plan_;
    InitStarted started_;
    Descriptor proc_;
    Descriptor mounts_;
    Descriptor sharedMemory_;  ///< the table of System V segments
    Descriptor listener_;
    pid_t command_ = -1;
};

}  // namespace

void runInit(const InitPlan& plan) { Init(plan).run(); }

}  // namespace gradus
