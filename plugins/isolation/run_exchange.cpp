#include "plugins/isolation/run_exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace gradus {

namespace {

using Steady = std::chrono::steady_clock;

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
FileDescriptor holdInput(const std::string& input) {
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

}  // namespace

RunExchange::RunExchange(int control, const Command& command, const Limits& limits, mode_t umask, Milliseconds patience)
    : control_(control),
      command_(command),
      limits_(limits),
      umask_(umask),
      patience_(patience),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void RunExchange::start() {
    flows_.push_back({Stream::kOut, FileDescriptor(), Capture(command_.keepOut)});
    flows_.push_back({Stream::kErr, FileDescriptor(), Capture(command_.keepErr)});
    if (command_.terminal) return sendRun({});  // the terminal comes back with the jail's first word
    const FileDescriptor input = makeInput();
    Pipe out = makePipe();
    Pipe err = makePipe();
    sendRun({input.get(), out.write.get(), err.write.get()});
    flows_[0].source = std::move(out.read);
    flows_[1].source = std::move(err.read);
}

FileDescriptor RunExchange::makeInput() {
    if (!command_.inputFrom) return holdInput(command_.input);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot make a pipe: {}", errnoText(errno));
    feed_.emplace(*command_.inputFrom, FileDescriptor(ends[1]));
    return FileDescriptor(ends[0]);
}

void RunExchange::sendRun(const std::vector<int>& stdio) {
    JailRun run;
    run.program = command_.program.value_or(command_.arguments.empty() ? "" : command_.arguments.front());
    run.arguments = command_.arguments;
    run.environment = command_.environment;
    run.directory = command_.directory.native();
    run.graceMillis = static_cast<std::uint64_t>(std::max<std::int64_t>(command_.grace.count(), 0));
    run.umask = command_.umask.value_or(umask_) & 0777;
    run.terminal = command_.terminal.has_value();
    winsize size{};
    if (run.terminal && ::ioctl(command_.terminal->out, TIOCGWINSZ, &size) == 0) {
        run.rows = size.ws_row;
        run.columns = size.ws_col;
    }
    if (!sendFrame(control_, JailMessage::kRun, encode(run), stdio)) lost_ = true;
}

void RunExchange::follow() {
    const std::stop_callback onCancel(command_.cancel, [this] { ::eventfd_write(wake_.get(), 1); });
    constexpr std::uint64_t kLongest = std::uint64_t{365} * 24 * 3600 * 1000;
    // The jail keeps the limit; whatever keeps the jail from it must not keep the engine.
    if (const auto& wall = limits_[LimitName::kWallTime])
        endOfTime_ = Steady::now() + Milliseconds(static_cast<std::int64_t>(std::min(wall->value, kLongest))) +
                     command_.grace + patience_;
    while (!lost_ && !settled()) step();
    feed_.reset();  // nobody reads it any more
    endOfOutput_ = Steady::now() + command_.drain;
    while (!lost_ && streaming() && Steady::now() < *endOfOutput_) step();
}

RunReport RunExchange::takeReport() {
    report_.out = flows_[0].capture.take();
    report_.err = flows_[1].capture.take();
    return std::move(report_);
}

bool RunExchange::streaming() const {
    return std::any_of(flows_.begin(), flows_.end(), [](const Flow& flow) { return bool(flow.source); });
}

std::optional<Steady::time_point> RunExchange::deadline() const {
    if (endOfOutput_) return endOfOutput_;
    return stopping_ ? endOfPatience_ : endOfTime_;
}

// First it is told to end: both may have slept, and the jail's word may be on its way.
void RunExchange::beImpatient() {
    if (stopping_) {
        lost_ = true;
        return;
    }
    overdue_ = true;
    stop();
}

// A change of size interrupts the wait; one that came just before it is seen a little later.
int RunExchange::patience(const std::optional<std::chrono::steady_clock::time_point>& deadline) const {
    constexpr int kLookAgain = 200;
    const int most = deadline ? millisUntil(*deadline) : -1;
    if (!relay_) return most;
    return most < 0 ? kLookAgain : std::min(most, kLookAgain);
}

void RunExchange::step() {
    // Beyond the limit nothing more is taken until everything inside has ended: the pipes are full by then.
    const bool deaf = report_.outputTripped && !settled();
    const bool typing = relay_ && !settled();
    const short keys = typing && relay_->hasPending() ? POLLOUT : 0;
    const InputRelay::Wanted feed = feed_ ? feed_->wanted() : InputRelay::Wanted{};
    pollfd events[7] = {{settled() ? -1 : control_, POLLIN, 0},
                        {deaf ? -1 : flows_[0].source.get(), static_cast<short>(POLLIN | keys), 0},
                        {deaf ? -1 : flows_[1].source.get(), POLLIN, 0},
                        {stopping_ ? -1 : wake_.get(), POLLIN, 0},
                        {typing ? relay_->input() : -1, POLLIN, 0},
                        feed.source,
                        feed.sink};
    const std::optional<Steady::time_point> until = deadline();
    const int ready = ::poll(events, 7, patience(until));
    if (relay_) relay_->followSize();
    if (ready < 0) return;
    // A command that writes without end is no sign of life of its jail.
    if (until && !endOfOutput_ && events[0].revents == 0 && Steady::now() >= *until) beImpatient();
    if ((events[1].revents & keys) != 0) relay_->passPending();
    for (std::size_t i = 0; i < 2; ++i)
        if ((events[i + 1].revents & ~POLLOUT) != 0) read(flows_[i]);
    if (events[0].revents != 0) hear();
    if (events[3].revents != 0) stop();
    if (events[4].revents != 0) relay_->passInput();
    if (feed_) feed_->pass(events[5].revents, events[6].revents);
}

void RunExchange::read(Flow& flow) {
    char buffer[65536];
    const ssize_t got = ::read(flow.source.get(), buffer, sizeof buffer);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {  // a terminal whose other end is closed says EIO
        flow.source = FileDescriptor();
        return;
    }
    const std::string_view bytes(buffer, static_cast<std::size_t>(got));
    const std::optional<Limit>& most = limits_[LimitName::kOutput];
    // What comes beyond the limit is counted, and neither kept nor shown, however much of it one read brings.
    const std::uint64_t before = flows_[0].capture.bytes() + flows_[1].capture.bytes();
    const std::uint64_t room = most ? most->value - std::min(most->value, before) : bytes.size();
    const std::string_view within = bytes.substr(0, std::min<std::uint64_t>(room, bytes.size()));
    flow.capture.append(within);
    flow.capture.skip(bytes.size() - within.size());
    if (relay_) relay_->show(bytes);
    if (command_.live && !within.empty()) command_.live(flow.stream, within);
    if (most && flows_[0].capture.bytes() + flows_[1].capture.bytes() > most->value && !report_.outputTripped) {
        report_.outputTripped = true;
        stop();
    }
}

void RunExchange::hear() {
    std::optional<JailFrame> frame = receiveFrame(control_);
    if (!frame) {
        lost_ = true;
        return;
    }
    if (frame->kind == JailMessage::kTerminal && frame->descriptors.size() == 1 && command_.terminal) {
        const int ours = ::fcntl(frame->descriptors[0].get(), F_DUPFD_CLOEXEC, 3);
        ::fcntl(ours, F_SETFL, O_NONBLOCK);
        flows_[0].source = FileDescriptor(ours);
        relay_.emplace(*command_.terminal, ours);
        return;
    }
    if (frame->kind == JailMessage::kStarted) report_.started = decodeStarted(frame->body);
    if (frame->kind == JailMessage::kStarted && report_.started)
        init_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, report_.started->initPid, 0)));
    if (frame->kind == JailMessage::kStarted && report_.started && command_.started)
        command_.started(static_cast<pid_t>(report_.started->initPid));
    if (frame->kind == JailMessage::kFailed) report_.failed = decodeFailed(frame->body);
    if (frame->kind == JailMessage::kEnded) report_.ended = decodeEnded(frame->body);
    if (!settled() && !report_.started) lost_ = true;  // a report that cannot be read
}

void RunExchange::stop() {
    if (stopping_) return;
    stopping_ = true;
    if (!report_.outputTripped && !overdue_) report_.cancelled = true;
    endOfPatience_ = Steady::now() + command_.grace + patience_;
    if (!sendFrame(control_, JailMessage::kStop, {})) lost_ = true;
}

}  // namespace gradus
