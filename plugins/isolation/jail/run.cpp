#include "plugins/isolation/jail/run.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/jail/descendants.h"
#include "plugins/isolation/jail/disk_use.h"
#include "plugins/isolation/jail/outside_writes.h"
#include "plugins/isolation/jail/watch.h"

namespace gradus {

namespace {

constexpr std::uint64_t kMilli = 1'000'000;
constexpr std::uint64_t kLookAgain = 50 * kMilli;  // between looks where no control group counts
constexpr std::uint64_t kSoon = 2 * kMilli;

Descriptor makeTimer() { return Descriptor(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)); }

void arm(const Descriptor& timer, std::uint64_t nanos) {
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(nanos / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(nanos % 1'000'000'000);
    ::timerfd_settime(timer.get(), 0, &when, nullptr);
}

void drain(const Descriptor& counter) {
    std::uint64_t ignored = 0;
    while (::read(counter.get(), &ignored, sizeof ignored) > 0) continue;
}

std::uint64_t nanosOf(const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_usec) * 1000;
}

std::uint64_t processors() { return static_cast<std::uint64_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

}  // namespace

Attempt openRunTools(const Cgroups& cgroups, Enforcer memoryBy, RunTools& tools) {
    for (const std::string& path : cgroups.taskFiles()) {
        tools.taskFiles.push_back(openPath(AT_FDCWD, path, O_WRONLY));
        if (!tools.taskFiles.back()) return failure("cgroup", path);
    }
    const std::string& directory = cgroups.unifiedDirectory();
    if (!directory.empty()) tools.unified = openPath(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (!directory.empty() && !tools.unified) return failure("cgroup", directory);
    tools.counted = cgroups.counters();
    tools.proc = openPath(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY);
    if (memoryBy == Enforcer::kCgroupV2) {
        tools.memoryEvents = openPath(AT_FDCWD, directory + "/memory.events", O_RDONLY);
        char ignored[512];
        if (tools.memoryEvents && ::read(tools.memoryEvents.get(), ignored, sizeof ignored) < 0)
            tools.memoryEvents.reset();
    }
    const std::string memory = cgroups.oldMemoryDirectory();
    if (memory.empty()) return std::nullopt;
    tools.memoryEvents = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    tools.memoryControl = openPath(AT_FDCWD, memory + "/memory.oom_control", O_RDONLY);
    const std::string request =
        std::to_string(tools.memoryEvents.get()) + " " + std::to_string(tools.memoryControl.get());
    // Without the event the counter is still read at the end; only the rest of the tree would live on meanwhile.
    if (writeText(memory + "/cgroup.event_control", request) != 0) tools.memoryEvents.reset();
    return std::nullopt;
}

SupervisedRun::SupervisedRun(const RunContext& context, InitPlan plan) : context_(context), plan_(std::move(plan)) {}

SupervisedRun::~SupervisedRun() {
    if (init_ < 0 || reaped_) return;
    kill();
    while (::waitpid(init_, nullptr, 0) < 0 && errno == EINTR) continue;
}

Attempt SupervisedRun::startAhead() {
    plan_.ahead = true;
    return start();
}

bool SupervisedRun::isAlive() const {
    pollfd event{pidfd_.get(), POLLIN, 0};
    return ::poll(&event, 1, 0) == 0;
}

// If it is gone already, that is seen when the command is to be run.
void SupervisedRun::giveSandbox(const std::vector<std::string>& writable, int scratch) {
    context_.scratch = scratch;
    std::string places;
    for (const std::string& path : writable) places.append(path).push_back('\0');
    sendFrame(channel_.get(), JailMessage::kPlaces, places);
}

Attempt SupervisedRun::start() {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return failure("start", "channel");
    channel_ = Descriptor(pair[0]);
    const Descriptor other(pair[1]);
    plan_.channel = other.get();
    for (const Descriptor& file : context_.tools.taskFiles) plan_.taskFiles.push_back(file.get());
    init_ = cloneInit();
    if (init_ < 0) return failure("namespaces", "clone");
    return std::nullopt;
}

void SupervisedRun::give(const JailFrame& frame, const JailRun& command, const std::vector<int>& stdio) {
    startNanos_ = bootNanos();
    before_ = context_.tools.counted;
    graceMillis_ = command.graceMillis;
    context_.cgroups.resetPeaks();
    if (context_.tools.memoryEvents) rearmMemoryEvents();
    // If it is gone already, that is seen below.
    sendFrame(channel_.get(), JailMessage::kRun, frame.body, stdio);
}

bool SupervisedRun::finish() {
    supervise();
    const bool alone = ended_ && ended_->leftBehind == 0;
    if (alone) report(ended_->usage);
    rusage usage{};
    int status = 0;
    while (::wait4(init_, &status, 0, &usage) < 0 && errno == EINTR) continue;
    reaped_ = true;
    if (plan_.setup.bare) endDescendants();
    if (alone) return !engineGone_;
    readInit();  // what it said last
    report(usage);
    return !engineGone_;
}

// The old call where it is enough: container runtimes refuse clone3, because they cannot look into it.
pid_t SupervisedRun::cloneInit() {
    std::uint64_t flags = CLONE_PIDFD;
    if (!plan_.setup.bare) flags |= CLONE_NEWPID | CLONE_NEWIPC;
    if (!plan_.setup.bare && !plan_.ahead) flags |= CLONE_NEWNS;
    int pidfd = -1;
    long pid = 0;
    if (!context_.tools.unified) {
        pid = ::syscall(SYS_clone, flags | SIGCHLD, nullptr, &pidfd, nullptr, 0);
    } else {
        clone_args arguments{};
        arguments.flags = flags | CLONE_INTO_CGROUP;
        arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
        arguments.exit_signal = SIGCHLD;
        arguments.cgroup = static_cast<std::uint64_t>(context_.tools.unified.get());
        pid = ::syscall(SYS_clone3, &arguments, sizeof arguments);
    }
    if (pid == 0) runInit(plan_);
    pidfd_ = Descriptor(pidfd);
    return static_cast<pid_t>(pid);
}

// The unified hierarchy's file stays ready until it is read again; the old one's counter until it is drained.
void SupervisedRun::rearmMemoryEvents() {
    char ignored[512];
    if (heldBy(LimitName::kMemory) != Enforcer::kCgroupV2)
        drain(context_.tools.memoryEvents);
    else if (::pread(context_.tools.memoryEvents.get(), ignored, sizeof ignored, 0) < 0)
        context_.tools.memoryEvents.reset();
}

std::optional<std::uint64_t> SupervisedRun::limitOf(LimitName name) const {
    const std::optional<Limit>& limit = plan_.setup.limits[name];
    return limit ? std::optional(limit->value) : std::nullopt;
}

void SupervisedRun::armTimers() {
    if (const auto millis = limitOf(LimitName::kWallTime)) {
        wall_ = makeTimer();
        arm(wall_, *millis * kMilli);
    }
    if (limitOf(LimitName::kCpuTime) || heldBy(LimitName::kMemory) == Enforcer::kWatch ||
        heldBy(LimitName::kDisk) == Enforcer::kWatch)
        tickAfter(kSoon);
}

void SupervisedRun::tickAfter(std::uint64_t nanos) {
    if (!tick_) tick_ = makeTimer();
    arm(tick_, nanos);
}

void SupervisedRun::supervise() {
    const short memoryMask = heldBy(LimitName::kMemory) == Enforcer::kCgroupV2 ? POLLPRI : POLLIN;
    while (true) {
        pollfd events[] = {{pidfd_.get(), POLLIN, 0},
                           {channel_.get(), POLLIN, 0},
                           {engineGone_ || failed_ ? -1 : context_.control, POLLIN, 0},
                           {wall_.get(), POLLIN, 0},
                           {grace_.get(), POLLIN, 0},
                           {tick_.get(), POLLIN, 0},
                           {context_.tools.memoryEvents.get(), memoryMask, 0},
                           {},
                           {},
                           {}};
        std::array<pollfd, 3> calls = calls_.wanted();
        std::copy(calls.begin(), calls.end(), std::end(events) - calls.size());
        if (::poll(events, std::size(events), -1) < 0) continue;
        std::copy(std::end(events) - calls.size(), std::end(events), calls.begin());
        calls_.pass(calls);
        if (events[0].revents != 0) return;
        if (events[1].revents != 0) readInit();
        // Nobody but pid 1 is left, and it is on its way out.
        if (ended_ && ended_->leftBehind == 0) return;
        if (events[2].revents != 0) readEngine();
        if (events[3].revents != 0) {
            drain(wall_);
            end(JailEnd::kWallTime);
        }
        if (events[4].revents != 0) kill();
        if (events[5].revents != 0) onTick();
        if (events[6].revents != 0) {
            rearmMemoryEvents();
            oomPending_ = true;
            onTick();
        }
    }
}

// Everything that pid 1 has said so far.
void SupervisedRun::readInit() {
    while (channel_) {
        pollfd event{channel_.get(), POLLIN, 0};
        if (::poll(&event, 1, 0) <= 0) return;
        std::optional<JailFrame> frame = receiveFrame(channel_.get());
        if (frame)
            hear(std::move(*frame));
        else
            channel_.reset();
    }
}

void SupervisedRun::hear(JailFrame frame) {
    if (frame.kind == JailMessage::kFailed) {
        failed_ = true;
        sendFrame(context_.control, JailMessage::kFailed, frame.body);
    } else if (frame.kind == JailMessage::kStarted) {
        onStarted(frame);
    } else if (frame.kind == JailMessage::kEnded && frame.body.size() == sizeof(InitEnded)) {
        std::memcpy(&ended_.emplace(), frame.body.data(), sizeof(InitEnded));
    }
}

void SupervisedRun::onStarted(JailFrame& frame) {
    InitStarted started;
    if (frame.body.size() != sizeof started || frame.descriptors.size() < 2) return;
    std::memcpy(&started, frame.body.data(), sizeof started);
    proc_ = std::move(frame.descriptors[0]);
    mounts_ = std::move(frame.descriptors[1]);
    const std::size_t first = started.hasSharedMemory != 0 ? 3 : 2;
    if (frame.descriptors.size() < first) return;
    if (first == 3) systemV_ = std::move(frame.descriptors[2]);
    listening_ = frame.descriptors.size() > first;
    if (listening_)
        calls_ = CallListener(std::move(frame.descriptors[first]), plan_.setup.routes, context_.broker,
                              plan_.watched.connections, context_.tools.proc.get());
    started_ = true;
    startNanos_ = started.nanos;
    armTimers();
    const JailStarted report{static_cast<std::uint32_t>(init_), started.namespaces};
    sendFrame(context_.control, JailMessage::kStarted, encode(report));
}

void SupervisedRun::readEngine() {
    const std::optional<JailFrame> frame = receiveFrame(context_.control);
    if (frame && frame->kind == JailMessage::kStop) {
        end(JailEnd::kStopped);
        return;
    }
    // The engine is gone, or speaks nonsense: either way nothing runs on.
    engineGone_ = true;
    reason_ = JailEnd::kStopped;
    kill();
}

// Looks at what only counters know. The old hierarchy announces an out-of-memory kill before it has counted it.
void SupervisedRun::onTick() {
    if (tick_) drain(tick_);
    if (oomPending_) {
        if (context_.cgroups.counters().oomKills > before_.oomKills) {
            oomPending_ = false;
            reason_ = JailEnd::kMemory;
            kill();
            return;
        }
        tickAfter(kSoon);
    }
    const bool watching = heldBy(LimitName::kMemory) == Enforcer::kWatch;
    const bool timing = heldBy(LimitName::kCpuTime) == Enforcer::kWatch;
    if ((watching || timing) && proc_) {
        const std::uint64_t memory = look();
        if (watching && memory > limitOf(LimitName::kMemory).value_or(0)) end(JailEnd::kMemory);
        tickAfter(kLookAgain);
        if (timing) checkCpuTime(watchedCpu_);
    }
    if (heldBy(LimitName::kDisk) == Enforcer::kWatch) lookAtDisk();
    if (limitOf(LimitName::kCpuTime) && !timing)
        checkCpuTime(context_.cgroups.counters().cpuNanos.value_or(0) - before_.cpuNanos.value_or(0));
}

bool SupervisedRun::isDiskLimitPassed() {
    const std::uint64_t most = limitOf(LimitName::kDisk).value_or(0);
    std::uint64_t used = 0;
    for (std::size_t i = 0; i < context_.uppers.size(); ++i)
        if (!plan_.setup.overlays[i].upper.empty()) used += diskUse(context_.uppers[i].get(), most);
    // Deleted and still open: nothing of it is in a directory.
    lookForNameless();
    used += nameless_.diskBytes;
    watchedDisk_ = std::max(watchedDisk_, used);
    return used > most;
}

// What the layers on disk hold. A look takes as long as there is much to look at: it is never more than a tenth of the
// time.
void SupervisedRun::lookAtDisk() {
    const std::uint64_t begin = bootNanos();
    if (begin >= nextDiskLook_) {
        if (isDiskLimitPassed()) end(JailEnd::kDisk);
        nextDiskLook_ = bootNanos() + std::max(4 * kLookAgain, 10 * (bootNanos() - begin));
    }
    const bool soonerTick = limitOf(LimitName::kCpuTime) || heldBy(LimitName::kMemory) == Enforcer::kWatch;
    if (!soonerTick) tickAfter(std::max(nextDiskLook_ - std::min(bootNanos(), nextDiskLook_), kSoon));
}

// An upper directory on the file system that the caller vouches for.
int SupervisedRun::boundedUpper() const {
    for (std::size_t i = 0; i < context_.uppers.size(); ++i)
        if (!plan_.setup.overlays[i].upper.empty()) return context_.uppers[i].get();
    return -1;
}

// A walk over all descriptors, and never more than a tenth of the time.
void SupervisedRun::lookForNameless() {
    const std::uint64_t begin = bootNanos();
    if (begin < nextFileLook_ || !proc_) return;
    struct stat scratch {};
    if (context_.scratch < 0 || ::fstat(context_.scratch, &scratch) != 0) scratch.st_dev = 0;
    nameless_ = measureNameless(proc_.get(), scratch.st_dev, plan_.setup.bare ? init_ : 0);
    nextFileLook_ = bootNanos() + 10 * (bootNanos() - begin);
}

// Scratch space with a limit of its own is the disk's.
std::uint64_t SupervisedRun::sharedMemory() {
    if (heldBy(LimitName::kMemory) != Enforcer::kWatch) return 0;
    lookForNameless();
    std::uint64_t bytes = nameless_.memoryBytes;
    if (systemV_) bytes += measureSystemV(systemV_.get());
    struct statvfs scratch {};
    if (!limitOf(LimitName::kDisk) && context_.scratch >= 0 && ::fstatvfs(context_.scratch, &scratch) == 0)
        bytes += (scratch.f_blocks - scratch.f_bfree) * scratch.f_frsize;
    return bytes;
}

// The memory in use now; peaks are kept.
std::uint64_t SupervisedRun::look() {
    const Usage usage = measure(proc_.get(), limitOf(LimitName::kMemory).value_or(~std::uint64_t{0}), sharedMemory(),
                                plan_.setup.bare ? init_ : 0);
    watchedMemory_ = std::max(watchedMemory_, usage.memoryBytes);
    watchedTasks_ = std::max(watchedTasks_, usage.tasks);
    watchedCpu_ = std::max(watchedCpu_, usage.cpuNanos);
    return usage.memoryBytes;
}

// The next look is when the limit could be reached at the earliest, with every processor busy.
void SupervisedRun::checkCpuTime(std::uint64_t usedNanos) {
    const std::uint64_t most = limitOf(LimitName::kCpuTime).value_or(0) * kMilli;
    if (usedNanos >= most) {
        end(JailEnd::kCpuTime);
        return;
    }
    const std::uint64_t earliest = std::max((most - usedNanos) / processors(), kSoon);
    tickAfter(heldBy(LimitName::kCpuTime) == Enforcer::kWatch ? std::min(earliest, kLookAgain) : earliest);
}

void SupervisedRun::end(JailEnd reason) {
    if (reason_ != JailEnd::kByItself) return;
    reason_ = reason;
    const bool polite = graceMillis_ > 0 && (reason == JailEnd::kWallTime || reason == JailEnd::kStopped);
    if (!polite || !started_ || !channel_ || !sendFrame(channel_.get(), JailMessage::kStop, {})) {
        kill();
        return;
    }
    grace_ = makeTimer();
    arm(grace_, graceMillis_ * kMilli);
}

// Pid 1 takes its whole namespace with it, whatever the others ignore, block or have detached from.
void SupervisedRun::kill() {
    if (grace_) drain(grace_);
    if (proc_ && !before_.cpuNanos) look();
    ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}

void SupervisedRun::report(const rusage& usage) {
    const CgroupCounters counters = context_.tools.counted = context_.cgroups.counters();
    if (failed_ || engineGone_) return;
    // What was written since the last look shows now.
    if (heldBy(LimitName::kDisk) == Enforcer::kWatch && isDiskLimitPassed() && reason_ == JailEnd::kByItself)
        reason_ = JailEnd::kDisk;
    JailEnded ended;
    ended.oom = counters.oomKills > before_.oomKills;
    // Ended by us before it could say that it had started: it may have run, so it is not called a failure to start.
    if (!started_ && reason_ == JailEnd::kByItself) {
        const char* why = ended.oom ? "the memory limit is too small to start a process" : "it died while being set up";
        sendFrame(context_.control, JailMessage::kFailed, encode(failure("start", why, ended.oom ? ENOMEM : ESRCH)));
        return;
    }
    ended.end = reason_;
    if (ended_) {
        ended.exited = WIFEXITED(ended_->status);
        ended.signalled = WIFSIGNALED(ended_->status);
        ended.status =
            static_cast<std::uint32_t>(ended.exited ? WEXITSTATUS(ended_->status) : WTERMSIG(ended_->status));
        ended.leftBehind = ended_->leftBehind;
    } else if (reason_ == JailEnd::kByItself) {
        ended.end = ended.oom ? JailEnd::kMemory : JailEnd::kLost;
    }
    ended.wallNanos = (ended_ ? ended_->nanos : bootNanos()) - startNanos_;
    // The kernel does not add up what it kills with pid 1, hence the look at the end.
    ended.cpuNanos = std::max(nanosOf(usage.ru_utime) + nanosOf(usage.ru_stime), watchedCpu_);
    if (counters.cpuNanos && before_.cpuNanos) ended.cpuNanos = *counters.cpuNanos - *before_.cpuNanos;
    const std::uint64_t largest = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
    ended.memoryPeak = counters.memoryPeak.value_or(std::max(largest, counters.memoryNow.value_or(0)));
    reportLimits(ended, counters, usage);
    reportEffects(ended.effects);
    sendFrame(context_.control, JailMessage::kEnded, encode(ended));
}

void SupervisedRun::reportEffects(JailEffects& effects) const {
    effects.callsSeen = listening_;
    effects.connectionsSeen = listening_ && plan_.watched.connections;
    calls_.report(effects);
    if (ended_)
        for (const char* name = ended_->leftovers.data(); *name != '\0'; name += std::strlen(name) + 1)
            effects.leftovers.emplace_back(name);
    if (!plan_.setup.bare) findOutsideWrites(plan_.setup, context_.uppers, effects);
}

void SupervisedRun::reportLimits(JailEnded& ended, const CgroupCounters& counters, const rusage& usage) const {
    const auto peak = [&](LimitName name) -> std::optional<std::uint64_t>& {
        return ended.peaks[static_cast<std::size_t>(name)];
    };
    const auto tripped = [&](LimitName name) -> bool& { return ended.tripped[static_cast<std::size_t>(name)]; };
    peak(LimitName::kWallTime) = ended.wallNanos / kMilli;
    peak(LimitName::kCpuTime) = ended.cpuNanos / kMilli;
    peak(LimitName::kMemory) = counters.memoryPeak ? counters.memoryPeak : std::optional(ended.memoryPeak);
    if (heldBy(LimitName::kMemory) == Enforcer::kWatch)
        peak(LimitName::kMemory) = std::max(watchedMemory_, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
    tripped(LimitName::kWallTime) = reason_ == JailEnd::kWallTime;
    tripped(LimitName::kCpuTime) = reason_ == JailEnd::kCpuTime || (ended.signalled && ended.status == SIGXCPU);
    tripped(LimitName::kMemory) = ended.oom || reason_ == JailEnd::kMemory;
    tripped(LimitName::kFileSize) = ended.signalled && ended.status == SIGXFSZ;
    // Pid 1 is ours: the command's tasks are one fewer.
    if (counters.taskPeak)
        peak(LimitName::kTasks) = *counters.taskPeak - std::min<std::uint64_t>(*counters.taskPeak, 1);
    if (heldBy(LimitName::kTasks) == Enforcer::kRlimit && watchedTasks_ > 0)
        peak(LimitName::kTasks) = watchedTasks_ - 1;
    tripped(LimitName::kTasks) = counters.taskRefusals > before_.taskRefusals;
    struct statvfs scratch {};
    if (heldBy(LimitName::kDisk) == Enforcer::kTmpfs && ::fstatvfs(context_.scratch, &scratch) == 0) {
        peak(LimitName::kDisk) = (scratch.f_blocks - scratch.f_bfree) * scratch.f_frsize;
        tripped(LimitName::kDisk) = scratch.f_bfree == 0 || scratch.f_ffree == 0;
    }
    if (heldBy(LimitName::kDisk) == Enforcer::kBacking && ::fstatvfs(boundedUpper(), &scratch) == 0) {
        peak(LimitName::kDisk) = (scratch.f_blocks - scratch.f_bfree) * scratch.f_frsize;
        tripped(LimitName::kDisk) = scratch.f_bavail == 0 || scratch.f_ffree == 0;
    }
    if (heldBy(LimitName::kDisk) == Enforcer::kWatch) {
        peak(LimitName::kDisk) = watchedDisk_;
        tripped(LimitName::kDisk) = reason_ == JailEnd::kDisk;
    }
}

}  // namespace gradus
