#include "plugins/isolation/jail_session.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "plugins/isolation/jail_verdict.h"

namespace gradus {

namespace {

using Steady = std::chrono::steady_clock;

// How long a jail that was told to end may take before it is killed itself.
constexpr Milliseconds kEndPatience{10'000};

struct Pipe {
    FileDescriptor read;
    FileDescriptor write;
};

Pipe makePipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot make a pipe: {}", errnoText(errno));
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// Input is a sealed file in memory: the command can read it at its own pace, and nobody waits for anybody.
FileDescriptor makeInput(const std::string& input) {
    if (input.empty()) return openFile("/dev/null", O_RDONLY);
    FileDescriptor file(::memfd_create("stdin", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file) throw Error(ErrorCode::kInfrastructure, "cannot hold the input: {}", errnoText(errno));
    writeAll(file.get(), input, "stdin");
    ::lseek(file.get(), 0, SEEK_SET);
    ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    return file;
}

int millisUntil(Steady::time_point deadline) {
    const auto left = std::chrono::ceil<Milliseconds>(deadline - Steady::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

/// One stream of the command on its way to the capture and the live sink.
struct Flow {
    Stream stream;
    FileDescriptor pipe;
    Capture capture;
};

/// One command as seen from the engine: reads output and reports until both have ended.
class RunExchange {
  public:
    RunExchange(int control, const Command& command, const Limits& limits)
        : control_(control), command_(command), limits_(limits), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

    void start() {
        const FileDescriptor input = makeInput(command_.input);
        Pipe out = makePipe();
        Pipe err = makePipe();
        JailRun run;
        run.program = command_.program.value_or(command_.arguments.empty() ? "" : command_.arguments.front());
        run.arguments = command_.arguments;
        run.environment = command_.environment;
        run.directory = command_.directory.native();
        run.graceMillis = static_cast<std::uint64_t>(std::max<std::int64_t>(command_.grace.count(), 0));
        if (!sendFrame(control_, JailMessage::kRun, encode(run), {input.get(), out.write.get(), err.write.get()}))
            lost_ = true;
        flows_.push_back({Stream::kOut, std::move(out.read), Capture(command_.keepOut)});
        flows_.push_back({Stream::kErr, std::move(err.read), Capture(command_.keepErr)});
    }

    /// To the end of the command and its output.
    void follow() {
        const std::stop_callback onCancel(command_.cancel, [this] { ::eventfd_write(wake_.get(), 1); });
        while (!lost_ && !settled()) step();
        endOfOutput_ = Steady::now() + command_.drain;
        while (!lost_ && streaming() && Steady::now() < *endOfOutput_) step();
    }

    bool isLost() const { return lost_; }
    RunReport takeReport() {
        report_.out = flows_[0].capture.take();
        report_.err = flows_[1].capture.take();
        return std::move(report_);
    }

  private:
    bool settled() const { return report_.failed || report_.ended; }
    bool streaming() const {
        return std::any_of(flows_.begin(), flows_.end(), [](const Flow& flow) { return bool(flow.pipe); });
    }

    void step() {
        // Beyond the limit nothing more is taken until everything inside has ended: the pipes are full by then.
        const bool deaf = report_.outputTripped && !settled();
        pollfd events[4] = {{settled() ? -1 : control_, POLLIN, 0},
                            {deaf ? -1 : flows_[0].pipe.get(), POLLIN, 0},
                            {deaf ? -1 : flows_[1].pipe.get(), POLLIN, 0},
                            {stopping_ ? -1 : wake_.get(), POLLIN, 0}};
        const std::optional<Steady::time_point> deadline = endOfOutput_ ? endOfOutput_ : endOfPatience_;
        const int ready = ::poll(events, 4, deadline ? millisUntil(*deadline) : -1);
        if (ready == 0 && !endOfOutput_) lost_ = true;  // told to end, and did not
        for (std::size_t i = 0; i < 2; ++i)
            if (events[i + 1].revents != 0) read(flows_[i]);
        if (events[0].revents != 0) hear();
        if (events[3].revents != 0) stop();
    }

    void read(Flow& flow) {
        char buffer[65536];
        const ssize_t got = ::read(flow.pipe.get(), buffer, sizeof buffer);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (got <= 0) {
            flow.pipe = FileDescriptor();
            return;
        }
        const std::string_view bytes(buffer, static_cast<std::size_t>(got));
        flow.capture.append(bytes);
        if (command_.live) command_.live(flow.stream, bytes);
        const std::optional<Limit>& most = limits_[LimitName::kOutput];
        if (most && flows_[0].capture.bytes() + flows_[1].capture.bytes() > most->value && !report_.outputTripped) {
            report_.outputTripped = true;
            stop();
        }
    }

    void hear() {
        const std::optional<JailFrame> frame = receiveFrame(control_);
        if (!frame) {
            lost_ = true;
        } else if (frame->kind == JailMessage::kStarted) {
            report_.started = decodeStarted(frame->body);
        } else if (frame->kind == JailMessage::kFailed) {
            report_.failed = decodeFailed(frame->body);
        } else if (frame->kind == JailMessage::kEnded) {
            report_.ended = decodeEnded(frame->body);
        }
        if (frame && !settled() && !report_.started) lost_ = true;  // a report that cannot be read
    }

    void stop() {
        if (stopping_) return;
        stopping_ = true;
        if (!report_.outputTripped) report_.cancelled = true;
        endOfPatience_ = Steady::now() + command_.grace + kEndPatience;
        if (!sendFrame(control_, JailMessage::kStop, {})) lost_ = true;
    }

    int control_;
    const Command& command_;
    const Limits& limits_;
    FileDescriptor wake_;
    std::vector<Flow> flows_;
    RunReport report_;
    bool stopping_ = false;
    bool lost_ = false;
    std::optional<Steady::time_point> endOfPatience_;
    std::optional<Steady::time_point> endOfOutput_;
};

}  // namespace

JailSession::JailSession(ChildProcess jail, FileDescriptor control, const Limits& limits, const Clock& clock)
    : jail_(std::move(jail)), control_(std::move(control)), limits_(limits), clock_(clock) {}

JailSession::~JailSession() { JailSession::close(); }

std::optional<Failure> JailSession::setUp(const JailSetup& setup, Milliseconds patience) {
    if (!sendFrame(control_.get(), JailMessage::kSetup, encode(setup))) return failure("start", "the plan");
    pollfd event{control_.get(), POLLIN, 0};
    if (::poll(&event, 1, static_cast<int>(patience.count())) <= 0) {
        jail_.kill();
        return failure("start", "the jail does not answer", ETIMEDOUT);
    }
    std::optional<JailFrame> frame = receiveFrame(control_.get());
    if (frame && frame->kind == JailMessage::kFailed)
        if (auto failed = decodeFailed(frame->body)) return failed;
    const auto ready = frame && frame->kind == JailMessage::kReady ? decodeReady(frame->body) : std::nullopt;
    if (!ready || frame->descriptors.size() != setup.overlays.size())
        return failure("start", "the jail ended without a word", EPROTO);
    ready_ = *ready;
    uppers_ = std::move(frame->descriptors);
    return std::nullopt;
}

Outcome JailSession::run(const Command& command) {
    if (!open_) throw Error(ErrorCode::kUsage, "the sandbox is closed");
    const Time startedAt = clock_.now();
    RunExchange exchange(control_.get(), command, limits_);
    exchange.start();
    exchange.follow();
    if (exchange.isLost()) {
        jail_.kill();
        close();
        throw Error(ErrorCode::kInfrastructure, "the sandbox was lost: gradus-jail ended without a report");
    }
    Outcome outcome = judge(exchange.takeReport(), limits_, ready_);
    outcome.startedAt = startedAt;
    return outcome;
}

int JailSession::upper(std::size_t index) const {
    if (!open_ || index >= uppers_.size()) throw Error(ErrorCode::kUsage, "no such layer: {}", index);
    return uppers_[index].get();
}

void JailSession::close() {
    if (!open_) return;
    open_ = false;
    uppers_.clear();
    control_ = FileDescriptor();
    if (!jail_.wait(kEndPatience)) jail_.kill();
}

}  // namespace gradus
