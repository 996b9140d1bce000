#include "plugins/isolation/jail/supervisor.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "plugins/isolation/jail/delegation.h"
#include "plugins/isolation/jail/filter.h"
#include "plugins/isolation/jail/identity.h"
#include "plugins/isolation/jail/init.h"
#include "plugins/isolation/jail/landlock.h"
#include "plugins/isolation/jail/network.h"
#include "plugins/isolation/jail/run.h"

namespace gradus {

namespace {

// A low score is inherited by the sandbox, and a process that may keep it is never killed for memory.
void forgetMemoryPrivilege() {
    const std::optional<std::string> score = readText("/proc/self/oom_score_adj");
    if (score && !score->empty() && score->front() == '-') writeText("/proc/self/oom_score_adj", "0");
}

// Root of a user namespace that somebody else made can do no more than an ordinary user: its map is not the whole one.
bool isMachineRoot() {
    const std::vector<std::string> map = splitWords(readText("/proc/self/uid_map").value_or(""), " \n");
    return ::geteuid() == 0 && (map.size() != 3 || map[2] == "4294967295");
}

// A command may open /proc/self/fd/1 anew (/dev/stdout), which asks the pipe's owner and mode.
void givePipes(const std::vector<Descriptor>& stdio, std::uint32_t uid, std::uint32_t gid) {
    for (const Descriptor& stream : stdio) {
        struct stat info {};
        if (::fstat(stream.get(), &info) != 0 || !S_ISFIFO(info.st_mode)) continue;
        // Only as root, and only a convenience: an ordinary user's pipes are the user's already.
        if (::fchown(stream.get(), uid, gid) != 0) continue;
    }
}

void removeSoon(Cgroups& cgroups) {
    // The last process is reaped, but the kernel may still be letting go of it.
    const timespec pause{0, 1'000'000};
    for (int attempt = 0; attempt < 200; ++attempt) {
        if (cgroups.remove()) return;
        ::nanosleep(&pause, nullptr);
    }
}

// A network that was used is not given to the next sandbox: even its counters would tell something.
bool isUntouched(const Descriptor& interfaces) {
    char text[4096];
    const ssize_t length = interfaces ? ::pread(interfaces.get(), text, sizeof text, 0) : -1;
    if (length <= 0) return false;
    const std::string table(text, static_cast<std::size_t>(length));
    const std::size_t at = table.find("lo:");
    return at != std::string::npos && splitWords(std::string_view(table).substr(at + 3), " \n").front() == "0";
}

bool scratchHoldsDisk(const JailSetup& setup) {
    return !setup.bare && std::all_of(setup.overlays.begin(), setup.overlays.end(),
                                      [](const JailOverlay& overlay) { return overlay.upper.empty(); });
}

// Connections are looked at in a network of the sandbox's own; refused calls everywhere.
Watched watchedBy(const JailSetup& setup) { return {true, !setup.bare && !setup.hostNetwork}; }

}  // namespace

Supervisor::Supervisor(int control, int held) : control_(control), held_(held), rootless_(!isMachineRoot()) {}

int Supervisor::serve() {
    while (true) {
        std::optional<JailFrame> frame = receiveFrame(control_);
        if (!frame) break;
        if (!answer(*frame)) {
            cleanUp();
            return built_ ? 0 : 1;
        }
    }
    const int status = built_ || host_ ? 0 : 1;
    cleanUp();
    return status;
}

/// False: there is no more to be done.
bool Supervisor::answer(JailFrame& frame) {
    if (frame.kind == JailMessage::kSetup && !built_) return answerSetup(frame);
    if (frame.kind == JailMessage::kExpect && !built_ && !host_) return answerExpect(frame);
    if (!built_) {
        sendFailure(failure("protocol", "there is no sandbox yet", EPROTO));
        return false;
    }
    if (frame.kind == JailMessage::kRun) return answerRun(frame);
    if (frame.kind == JailMessage::kPrepare) answerPrepare();
    if (frame.kind == JailMessage::kReset) return answerReset();
    return true;
}

bool Supervisor::answerSetup(JailFrame& frame) {
    const std::optional<JailSetup> setup = decodeSetup(frame.body);
    if (!setup) {
        sendFailure(failure("protocol", "the plan cannot be read", EPROTO));
        return false;
    }
    if (!frame.descriptors.empty()) broker_ = std::move(frame.descriptors.front());
    if (auto failed = setUp(*setup)) {
        sendFailure(*failed);
        return false;
    }
    built_ = true;
    JailReady ready;
    ready.enforcers = enforcers_;
    ready.landlockAbi = landlockAbi();
    ready.shortfall = shortfall_;
    std::vector<int> uppers;
    for (const Descriptor& upper : skeleton_.uppers) uppers.push_back(upper.get());
    if (!sendFrame(control_, JailMessage::kReady, encode(ready), uppers)) return false;
    answerPrepare();  // while the engine gets its first command ready
    return true;
}

// Nothing is said if all is well: the answer to the plan that follows says it.
bool Supervisor::answerExpect(const JailFrame& frame) {
    const std::optional<JailSetup> setup = decodeSetup(frame.body);
    if (auto failed = setup ? expect(*setup) : failure("protocol", "the plan cannot be read", EPROTO)) {
        sendFailure(*failed);
        return false;
    }
    return true;
}

Attempt Supervisor::expect(const JailSetup& setup) {
    if (const std::optional<std::string> reason = objection(setup)) return failure("plan", *reason, EINVAL);
    if (auto failed = checkIdentity(setup)) return failed;
    setup_ = setup;
    if (auto failed = enterHost()) return failed;
    makeRules(setup);
    return std::nullopt;
}

// What the command is refused, where it is not the same as for the plan before.
void Supervisor::makeRules(const JailSetup& setup) {
    if (filter_.empty() || setup.deniedCalls != setup_.deniedCalls || setup.hostNetwork != setup_.hostNetwork ||
        setup.system != setup_.system)
        filter_ = buildFilter(setup.deniedCalls, watchedBy(setup), setup.system);
    if (!masks_ || setup.uid != setup_.uid) masks_ = findProcMasks(setup.uid);
}

Attempt Supervisor::checkIdentity(const JailSetup& setup) {
    if (setup.system) return std::nullopt;  // root of its own user namespace, whoever that is outside
    if (rootless_ && (setup.uid != ::geteuid() || setup.gid != ::getegid()))
        return failure("identity", "an ordinary user can run commands only as itself", EPERM);
    return std::nullopt;
}

Attempt Supervisor::setUp(const JailSetup& setup) {
    if (const std::optional<std::string> reason = objection(setup)) return failure("plan", *reason, EINVAL);
    if (host_ && setup.hostNetwork != setup_.hostNetwork) return failure("plan", "another network than before", EINVAL);
    if (host_ && setup.system) return failure("plan", "a copy of the system needs a jail of its own", EINVAL);
    if (next_ && !fitsNext(setup)) dropNext();
    makeRules(setup);
    setup_ = setup;
    if (auto failed = checkIdentity(setup)) return failed;
    if (auto failed = holdLimits()) return failed;
    if (setup.bare) return enterBare();
    if (!host_)
        if (auto failed = enterHost()) return failed;
    if (::sethostname(setup.hostname.c_str(), setup.hostname.size()) != 0) return failure("hostname", setup.hostname);
    if (auto failed = openNetwork()) return failed;
    const bool watched = enforcers_[static_cast<std::size_t>(LimitName::kMemory)] == Enforcer::kWatch;
    return buildSkeleton(setup_, rootless_, watched, *host_, std::move(room_), skeleton_);
}

// What pid 1 was made with, or has done already, is what this plan says as well.
bool Supervisor::fitsNext(const JailSetup& setup) const {
    const bool isSame = setup.uid == setup_.uid && setup.gid == setup_.gid && setup.limits == setup_.limits &&
                        setup.deniedCalls == setup_.deniedCalls && !setup.bare && setup.routes.empty() &&
                        scratchHoldsDisk(setup) == scratchHoldsDisk(setup_);
    return isSame && next_->isAlive();
}

// While nobody waits: a good part of what a command costs is the same for every sandbox.
void Supervisor::makeNext() {
    if (enterRoom(*host_, rootless_, room_)) return dropNext();
    next_ = makeRun();
    if (next_->startAhead()) dropNext();
}

void Supervisor::dropNext() {
    next_.reset();
    room_.reset();
}

// The listening sockets are the broker's from then on: what is accepted there is passed on outside, where we are not.
Attempt Supervisor::openNetwork() {
    constexpr std::size_t kAtOnce = 64;
    if (setup_.routes.empty()) return std::nullopt;
    if (!broker_) return failure("network", "nobody connects by name", EPROTO);
    std::vector<Descriptor> listeners;
    if (auto failed = openRoutes(setup_.routes, listeners)) return failed;
    for (std::size_t first = 0; first < listeners.size(); first += kAtOnce) {
        std::vector<int> some;
        for (std::size_t i = first; i < std::min(first + kAtOnce, listeners.size()); ++i)
            some.push_back(listeners[i].get());
        if (!sendFrame(broker_.get(), JailMessage::kListeners, {}, some)) return failure("network", "broker");
    }
    return std::nullopt;
}

// Without a pid namespace, what detaches from its command comes to us and is ended here.
Attempt Supervisor::enterBare() const {
    if (!rootless_) forgetMemoryPrivilege();
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return failure("start", "adopt orphans");
    return std::nullopt;
}

// Once for all sandboxes of this jail.
Attempt Supervisor::enterHost() {
    if (!rootless_) forgetMemoryPrivilege();
    if (auto failed = enterOuterNamespaces(rootless_, setup_)) return failed;
    interfaces_ = openPath(AT_FDCWD, "/proc/self/net/dev", O_RDONLY);
    if (auto failed = buildHostView(setup_.alwaysHidden, rootless_, host_.emplace())) return failed;
    // From here on nobody of the same user looks into this process or attaches to it.
    if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return failure("identity", "not dumpable");
    return std::nullopt;
}

// Who holds a limit that no control group holds.
Enforcer Supervisor::standIn(LimitName name) const {
    switch (name) {
        case LimitName::kMemory:
        case LimitName::kCpuTime:
            return Enforcer::kWatch;
        // Counted per user namespace, and not at all for root. Without one, all that the user runs anywhere counts.
        case LimitName::kTasks:
            return (setup_.uid != 0 || rootless_) && !setup_.bare ? Enforcer::kRlimit : Enforcer::kNone;
        case LimitName::kDisk:
            if (scratchHoldsDisk(setup_)) return Enforcer::kTmpfs;
            if (setup_.diskBacked) return Enforcer::kBacking;
            return setup_.bare ? Enforcer::kNone : Enforcer::kWatch;
        case LimitName::kWallTime:
            return Enforcer::kTimer;
        case LimitName::kCpuShare:
            return Enforcer::kNone;
        case LimitName::kOutput:
            return Enforcer::kCapture;
        case LimitName::kOpenFiles:
        case LimitName::kFileSize:
            return Enforcer::kRlimit;
    }
    return Enforcer::kNone;
}

void Supervisor::makeGroups(const std::string& own) {
    if (cgroups_) removeSoon(*cgroups_);
    const std::uint64_t start = startTime(::getpid()).value_or(0);
    cgroups_ = std::make_unique<Cgroups>(files_, setup_.cgroupRoot, own, cgroupName(::getpid(), start, 0));
    cgroups_->create(cgroupLimits_, cgroupScratch_);
    shortfall_ = isShortOfGroups(false) ? cgroups_->reason() : std::string();
}

// The number of tasks is bounded without a group just as well, as long as the command is an ordinary user.
bool Supervisor::isShortOfGroups(bool onlyRequired) const {
    for (const LimitName name : {LimitName::kMemory, LimitName::kCpuTime, LimitName::kCpuShare}) {
        const std::optional<Limit>& limit = cgroupLimits_[name];
        if (limit && (limit->required || !onlyRequired) && cgroups_->enforcer(name) == Enforcer::kNone) return true;
    }
    return false;
}

// Takes milliseconds, so only for a limit that somebody insists on; others are watched.
void Supervisor::askForScope() {
    SystemdUserManager manager(setup_.userManager);
    const Delegation delegation{files_, manager, setup_.cgroupRoot};
    std::string own;
    const pid_t pid = ::getpid();
    if (const auto failed = enterDelegatedScope(delegation, pid, startTime(pid).value_or(0), own)) {
        shortfall_ += "; " + failed->step + ": " + failed->detail;
        return;
    }
    makeGroups(own);
}

// Groups are made before the host's tree is out of view, and again only when another sandbox needs others.
Attempt Supervisor::holdLimits() {
    const std::optional<Limit>& disk = setup_.limits[LimitName::kDisk];
    const std::optional<Limit>& memory = setup_.limits[LimitName::kMemory];
    // Pages of the scratch space are charged as memory: room for both, or the disk limit would be an early death. Where
    // the memory limit is insisted on, the death is what was asked for.
    const bool exact = memory && memory->required;
    const std::uint64_t scratch = disk && scratchHoldsDisk(setup_) && !exact ? disk->value : 0;
    if (!tools_ || setup_.limits != cgroupLimits_ || scratch != cgroupScratch_) {
        cgroupLimits_ = setup_.limits;
        cgroupScratch_ = scratch;
        makeGroups(readText("/proc/self/cgroup").value_or(""));
        if (isShortOfGroups(true) && rootless_ && !setup_.userManager.empty()) askForScope();
        cgroups_->holdOpen();
        cgroups_->resetPeaks();  // opens, while its path is in view, what is reset before every run
        tools_ = std::make_unique<RunTools>();
        if (auto failed = openRunTools(*cgroups_, cgroups_->enforcer(LimitName::kMemory), *tools_)) return failed;
    }
    enforcers_ = {};
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
        const LimitName name = static_cast<LimitName>(i);
        if (!setup_.limits[name]) continue;
        enforcers_[i] = cgroups_->enforcer(name);
        // The group holds memory and scratch space together; what is memory of these is watched.
        const bool shared = name == LimitName::kMemory && scratch > 0;
        if (enforcers_[i] == Enforcer::kNone || shared) enforcers_[i] = standIn(name);
    }
    return checkLimits();
}

Attempt Supervisor::checkLimits() const {
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
        const LimitName name = static_cast<LimitName>(i);
        if (!setup_.limits[name] || !setup_.limits[name]->required || enforcers_[i] != Enforcer::kNone) continue;
        std::string reason = shortfall_;
        if (name == LimitName::kDisk) reason = "what is written lies on a file system without a quota";
        return failure("limits", std::string(kLimitNames[i]) + " cannot be enforced here: " + reason, EOPNOTSUPP);
    }
    return std::nullopt;
}

ProcessLimits Supervisor::processLimits() const {
    const auto value = [&](LimitName name) -> std::optional<std::uint64_t> {
        const std::optional<Limit>& limit = setup_.limits[name];
        return limit ? std::optional(limit->value) : std::nullopt;
    };
    const auto heldBy = [&](LimitName name) { return enforcers_[static_cast<std::size_t>(name)]; };
    ProcessLimits limits;
    limits.openFiles = value(LimitName::kOpenFiles);
    limits.fileBytes = value(LimitName::kFileSize);
    if (heldBy(LimitName::kMemory) == Enforcer::kWatch) limits.memoryBytes = value(LimitName::kMemory);
    if (heldBy(LimitName::kCpuTime) == Enforcer::kWatch) limits.cpuMillis = value(LimitName::kCpuTime);
    if (heldBy(LimitName::kTasks) == Enforcer::kRlimit) limits.tasks = *value(LimitName::kTasks) + 1;
    return limits;
}

std::unique_ptr<SupervisedRun> Supervisor::makeRun() {
    const InitPlan plan{setup_, skeleton_.writable, filter_, *masks_, processLimits(), rootless_, {},
                        -1,     watchedBy(setup_),  held_};
    const RunContext context{control_,      *cgroups_,       *tools_, enforcers_, skeleton_.scratch.get(),
                             broker_.get(), skeleton_.uppers};
    return std::make_unique<SupervisedRun>(context, plan);
}

void Supervisor::answerPrepare() {
    if (prepared_) return;
    if (next_) {
        prepared_ = std::move(next_);
        prepared_->giveSandbox(skeleton_.writable, skeleton_.scratch.get());
        procIsOurs_ = false;
        return;
    }
    // A fault shows when the command is to be run.
    static_cast<void>(prepare());
}

Attempt Supervisor::prepare() {
    // The one made ahead has covered /proc for all in this namespace.
    if (!procIsOurs_ && ::umount2("/proc", MNT_DETACH) != 0) return failure("detach", "/proc");
    procIsOurs_ = true;
    prepared_ = makeRun();
    Attempt failed = prepared_->start();
    if (failed) prepared_.reset();
    return failed;
}

// A terminal of the sandbox's own: the command has one end as its three descriptors, the engine gets the other.
std::vector<int> Supervisor::makeTerminal(const JailRun& run, std::vector<Descriptor>& ends) {
    ends.push_back(openPath(AT_FDCWD, "/dev/pts/ptmx", O_RDWR | O_NOCTTY));
    const int unlocked = 0;
    if (!ends[0] || ::ioctl(ends[0].get(), TIOCSPTLCK, &unlocked) != 0) return {};
    ends.emplace_back(::ioctl(ends[0].get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!ends[1]) return {};
    if (!rootless_ && ::fchown(ends[1].get(), setup_.uid, setup_.gid) != 0) return {};
    winsize size{};
    size.ws_row = static_cast<unsigned short>(run.rows);
    size.ws_col = static_cast<unsigned short>(run.columns);
    ::ioctl(ends[0].get(), TIOCSWINSZ, &size);
    sendFrame(control_, JailMessage::kTerminal, {}, {ends[0].get()});
    return {ends[1].get(), ends[1].get(), ends[1].get()};
}

bool Supervisor::answerRun(JailFrame& frame) {
    const std::optional<JailRun> run = decodeRun(frame.body);
    if (!run || frame.descriptors.size() != (run->terminal ? 0 : 3)) {
        sendFailure(failure("protocol", "the command cannot be read", EPROTO));
        return true;
    }
    if (const std::optional<std::string> reason = objection(*run)) {
        sendFailure(failure("plan", *reason, EINVAL));
        return true;
    }
    if (!prepared_)
        if (const auto failed = prepare()) {
            sendFailure(*failed);
            return true;
        }
    const std::unique_ptr<SupervisedRun> current = std::move(prepared_);
    std::vector<Descriptor> ends;
    std::vector<int> stdio;
    if (run->terminal) {
        stdio = makeTerminal(*run, ends);
        if (stdio.empty()) {
            sendFailure(failure("terminal", "cannot be made"));
            return true;
        }
    } else {
        if (!rootless_) givePipes(frame.descriptors, setup_.uid, setup_.gid);
        for (const Descriptor& stream : frame.descriptors) stdio.push_back(stream.get());
    }
    current->give(frame, *run, stdio);
    // Output ends when the command's own copies are closed.
    frame.descriptors.clear();
    ends.clear();
    return current->finish();
}

void Supervisor::sendFailure(const Failure& failed) const { sendFrame(control_, JailMessage::kFailed, encode(failed)); }

bool Supervisor::answerReset() {
    prepared_.reset();
    built_ = false;
    if (!host_) return false;
    if (auto failed = dropSkeleton(*host_, skeleton_)) return false;
    if (setup_.hostNetwork || setup_.system || !setup_.routes.empty() || !isUntouched(interfaces_)) return false;
    procIsOurs_ = true;
    if (!sendFrame(control_, JailMessage::kIdle, {})) return false;
    makeNext();
    return !leaveRoom(*host_);
}

void Supervisor::cleanUp() {
    prepared_.reset();
    dropNext();
    tools_.reset();
    skeleton_.fuse.end();
    // Groups are removed by their path, which only the host's tree has.
    if (host_ && host_->staging) static_cast<void>(::setns(host_->staging.get(), CLONE_NEWNS));
    if (cgroups_) removeSoon(*cgroups_);
}

}  // namespace gradus
