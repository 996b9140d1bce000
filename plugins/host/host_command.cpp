#include "plugins/host/host_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "plugins/host/capture.h"
#include "plugins/host/child_process.h"
#include "policies/language/duration.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;
using SteadyTime = std::chrono::steady_clock::time_point;

namespace {

/// How long output is still awaited once the command has ended: only a descriptor that somebody else holds delays it.
constexpr Milliseconds kDrain{200};
/// The kernel tells us of everything we wait for; this is for one without pidfds.
constexpr Milliseconds kLongestNap{1000};
constexpr std::string_view kUsualPath = "/usr/local/bin:/usr/bin:/bin";

struct Pipe {
    FileDescriptor read;
    FileDescriptor write;
};

Pipe makePipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot make a pipe: {}", errnoText(errno));
    Pipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
    ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
    return pipe;
}

std::string_view valueOf(const std::vector<std::string>& environment, std::string_view name) {
    for (const std::string& variable : environment)
        if (variable.starts_with(name) && variable.size() > name.size() && variable[name.size()] == '=')
            return std::string_view(variable).substr(name.size() + 1);
    return {};
}

bool isProgram(const fs::path& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

/// One stream of the command, read as it comes.
class Listening {
  public:
    Listening(FileDescriptor pipe, Stream stream, const CaptureBudget& budget, const HostCommand& command)
        : pipe_(std::move(pipe)), stream_(stream), capture_(budget), command_(command) {}

    int descriptor() const { return pipe_.get(); }
    bool isOpen() const { return static_cast<bool>(pipe_); }

    /// Everything that is there now. At the end, and at a fault, it closes.
    void read() {
        std::array<char, 65536> buffer;
        while (isOpen()) {
            const ssize_t got = ::read(pipe_.get(), buffer.data(), buffer.size());
            if (got < 0 && errno == EINTR) continue;
            if (got < 0 && errno == EAGAIN) return;
            if (got <= 0) {
                pipe_ = FileDescriptor();
                return;
            }
            take({buffer.data(), static_cast<std::size_t>(got)});
            // One that writes without end must not keep us from looking at the clock.
            if (static_cast<std::size_t>(got) < buffer.size()) return;
            if (++reads_ % 16 == 0) return;
        }
    }

    CapturedStream captured() { return capture_.take(); }

  private:
    void take(std::string_view bytes) {
        capture_.append(bytes);
        if (command_.live) command_.live(stream_, bytes);
    }

    FileDescriptor pipe_;
    Stream stream_;
    Capture capture_;
    const HostCommand& command_;
    unsigned reads_ = 0;
};

/// A descriptor that becomes readable when a stop is requested.
class StopBell {
  public:
    explicit StopBell(const std::stop_token& token)
        : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), callback_(token, Ring{bell_.get()}) {}
    int descriptor() const { return bell_.get(); }

  private:
    struct Ring {
        int bell;
        void operator()() const {
            const std::uint64_t one = 1;
            [[maybe_unused]] const ssize_t written = ::write(bell, &one, sizeof one);
        }
    };
    FileDescriptor bell_;
    std::stop_callback<Ring> callback_;
};

/// A command while it runs: waits for what comes first, its end, the deadline or a cancel.
class HostRun {
  public:
    explicit HostRun(const HostCommand& command) : HostRun(command, makePipe(), makePipe()) {}

    HostOutcome wait() {
        while (!hasEnded()) {
            look(patience());
            endWhenDue();
        }
        // The group is named after a process that is not reaped yet, so no other can have its number.
        if (isEnding()) ::kill(-child_.pid(), SIGKILL);
        reap();
        drain();
        outcome_.out = out_.captured();
        outcome_.err = err_.captured();
        return std::move(outcome_);
    }

  private:
    HostRun(const HostCommand& command, Pipe out, Pipe err)
        : command_(command),
          bell_(command.cancel),
          child_(start(command, out, err)),
          out_(std::move(out.read), Stream::kOut, command.keepOut, command),
          err_(std::move(err.read), Stream::kErr, command.keepErr, command) {
        outcome_.timeout = command.timeout;
        if (command.timeout.count() > 0) deadline_ = started_ + command.timeout;
    }

    static ChildProcess start(const HostCommand& command, Pipe& out, Pipe& err) {
        ChildPlan plan;
        plan.program = *findProgram(command.arguments.front(), command.environment);
        plan.arguments = command.arguments;
        plan.environment = command.environment;
        plan.directory = command.directory;
        const FileDescriptor nothing = openFile("/dev/null", O_RDONLY);
        plan.descriptors = {{nothing.get(), 0}, {out.write.get(), 1}, {err.write.get(), 2}};
        if (command.held >= 0) plan.descriptors.emplace_back(command.held, 3);
        ChildProcess child(plan);
        if (command.started) command.started(child.pid());
        out.write = FileDescriptor();
        err.write = FileDescriptor();
        return child;
    }

    bool hasEnded() const {
        siginfo_t info{};
        return ::waitid(P_PID, static_cast<id_t>(child_.pid()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid == child_.pid();
    }

    bool isEnding() const { return outcome_.timedOut || outcome_.cancelled; }

    Milliseconds patience() const {
        Milliseconds most = child_.pidfd() >= 0 ? kLongestNap : Milliseconds(20);
        if (deadline_) most = std::min(most, std::chrono::ceil<Milliseconds>(*deadline_ - now()));
        return std::max(most, Milliseconds(0));
    }

    void look(Milliseconds most) {
        std::array<pollfd, 4> events{pollfd{child_.pidfd(), POLLIN, 0}, pollfd{out_.descriptor(), POLLIN, 0},
                                     pollfd{err_.descriptor(), POLLIN, 0},
                                     pollfd{isEnding() ? -1 : bell_.descriptor(), POLLIN, 0}};
        ::poll(events.data(), events.size(), static_cast<int>(most.count()));
        out_.read();
        err_.read();
    }

    // First kindly, then, when the grace is over, for good.
    void endWhenDue() {
        const bool isUp = deadline_ && now() >= *deadline_;
        if (!isUp && (isEnding() || !command_.cancel.stop_requested())) return;
        if (hasEnded()) return;
        const int signal = isEnding() ? SIGKILL : SIGTERM;
        if (!isEnding()) (isUp ? outcome_.timedOut : outcome_.cancelled) = true;
        deadline_ = now() + (signal == SIGTERM ? command_.grace : Milliseconds(kLongestNap));
        ::kill(-child_.pid(), signal);
    }

    void reap() {
        const int status = child_.wait(kLongestNap).value_or(0);
        outcome_.wallMillis =
            static_cast<std::uint64_t>(std::chrono::duration_cast<Milliseconds>(now() - started_).count());
        if (WIFEXITED(status)) outcome_.exitCode = WEXITSTATUS(status);
        if (WIFSIGNALED(status)) outcome_.signal = WTERMSIG(status);
    }

    void drain() {
        deadline_ = now() + kDrain;
        while ((out_.isOpen() || err_.isOpen()) && now() < *deadline_) {
            std::array<pollfd, 2> events{pollfd{out_.descriptor(), POLLIN, 0}, pollfd{err_.descriptor(), POLLIN, 0}};
            ::poll(events.data(), events.size(), static_cast<int>(patience().count()));
            out_.read();
            err_.read();
        }
    }

    static SteadyTime now() { return std::chrono::steady_clock::now(); }

    const HostCommand& command_;
    const SteadyTime started_ = now();
    std::optional<SteadyTime> deadline_;
    HostOutcome outcome_;
    StopBell bell_;
    ChildProcess child_;
    Listening out_;
    Listening err_;
};

/// Why it cannot be started, as far as that can be told beforehand; the kernel's own words say less.
std::string obstacle(const HostCommand& command) {
    std::error_code error;
    if (command.arguments.empty()) return "there is no command";
    if (!command.directory.empty() && !fs::is_directory(command.directory, error))
        return command.directory.native() + " is no directory";
    if (!findProgram(command.arguments.front(), command.environment))
        return "there is no program '" + command.arguments.front() + "' on PATH";
    return {};
}

}  // namespace

std::optional<fs::path> findProgram(const std::string& program, const std::vector<std::string>& environment) {
    if (program.find('/') != std::string::npos) return program;
    std::string_view path = valueOf(environment, "PATH");
    if (path.empty()) path = kUsualPath;
    while (!path.empty()) {
        const std::size_t end = std::min(path.find(':'), path.size());
        const fs::path directory = path.substr(0, end);
        // An empty or relative part means "wherever we are", which is nobody's wish for a command of the rules.
        if (directory.is_absolute() && isProgram(directory / program)) return directory / program;
        path.remove_prefix(std::min(end + 1, path.size()));
    }
    return std::nullopt;
}

std::string HostOutcome::text() const {
    if (!failure.empty()) return failure;
    if (timedOut) return "timed out after " + formatDuration(timeout);
    if (cancelled) return "cancelled";
    if (signal) return fmt::format("killed by signal {}", *signal);
    return fmt::format("exit code {}", exitCode.value_or(-1));
}

HostOutcome runOnHost(const HostCommand& command) {
    HostOutcome outcome;
    outcome.timeout = command.timeout;
    outcome.failure = obstacle(command);
    outcome.cancelled = outcome.failure.empty() && command.cancel.stop_requested();
    if (!outcome.failure.empty() || outcome.cancelled) return outcome;
    try {
        return HostRun(command).wait();
    } catch (const Error& e) {
        outcome.failure = e.what();
        return outcome;
    }
}

}  // namespace gradus
