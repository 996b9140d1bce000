#include "plugins/isolation/jail/supervisor.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "plugins/isolation/jail/filter.h"
#include "plugins/isolation/jail/identity.h"
#include "plugins/isolation/jail/init.h"
#include "plugins/isolation/jail/landlock.h"
#include "plugins/isolation/jail/run.h"

namespace gradus {

namespace {

// A low score is inherited by the sandbox, and a process that may keep it is never killed for memory.
void forgetMemoryPrivilege() {
    const std::optional<std::string> score = readText("/proc/self/oom_score_adj");
    if (score && !score->empty() && score->front() == '-') writeText("/proc/self/oom_score_adj", "0");
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

}  // namespace

int Supervisor::serve() {
    const std::optional<JailFrame> first = receiveFrame(control_);
    if (!first) return 1;
    const std::optional<JailSetup> setup = first->kind == JailMessage::kSetup ? decodeSetup(first->body) : std::nullopt;
    if (!setup) {
        sendFailure(failure("protocol", "the plan cannot be read", EPROTO));
        return 1;
    }
    if (auto failed = setUp(*setup)) {
        sendFailure(*failed);
        cleanUp();
        return 1;
    }
    JailReady ready;
    ready.enforcers = enforcers_;
    ready.landlockAbi = landlockAbi();
    std::vector<int> uppers;
    for (const Descriptor& upper : skeleton_.uppers) uppers.push_back(upper.get());
    sendFrame(control_, JailMessage::kReady, encode(ready), uppers);
    while (!engineGone_) {
        const std::optional<JailFrame> frame = receiveFrame(control_);
        if (!frame) break;
        if (frame->kind == JailMessage::kRun) answerRun(*frame);
    }
    cleanUp();
    return 0;
}

Attempt Supervisor::setUp(const JailSetup& setup) {
    if (const std::optional<std::string> reason = objection(setup)) return failure("plan", *reason, EINVAL);
    setup_ = setup;
    rootless_ = ::geteuid() != 0;
    if (rootless_ && (setup.uid != ::geteuid() || setup.gid != ::getegid()))
        return failure("identity", "an ordinary user can run commands only as itself", EPERM);
    if (!rootless_) forgetMemoryPrivilege();
    if (auto failed = holdLimits()) return failed;
    filter_ = buildFilter();
    if (auto failed = enterOuterNamespaces(rootless_, setup_)) return failed;
    if (auto failed = buildSkeleton(setup_, rootless_, skeleton_)) return failed;
    // From here on nobody of the same user looks into this process or attaches to it.
    if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return failure("identity", "not dumpable");
    return std::nullopt;
}

bool Supervisor::scratchHoldsDisk() const {
    return std::all_of(setup_.overlays.begin(), setup_.overlays.end(),
                       [](const JailOverlay& overlay) { return overlay.upper.empty(); });
}

// Who holds a limit that no control group holds.
Enforcer Supervisor::standIn(LimitName name) const {
    switch (name) {
        case LimitName::kMemory:
        case LimitName::kCpuTime:
            return Enforcer::kWatch;
        // Counted per user namespace, and not at all for root.
        case LimitName::kTasks:
            return setup_.uid != 0 ? Enforcer::kRlimit : Enforcer::kNone;
        case LimitName::kDisk:
            if (scratchHoldsDisk()) return Enforcer::kTmpfs;
            return setup_.diskBacked ? Enforcer::kBacking : Enforcer::kNone;
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

Attempt Supervisor::holdLimits() {
    const std::optional<std::string> own = readText("/proc/self/cgroup");
    const std::uint64_t start = startTime(::getpid()).value_or(0);
    cgroups_ = std::make_unique<Cgroups>(files_, setup_.cgroupRoot, own.value_or(""), cgroupName(::getpid(), start, 0));
    const std::optional<Limit>& disk = setup_.limits[LimitName::kDisk];
    // Pages of the scratch space are charged as memory: room for both, or the disk limit would be an early death.
    cgroups_->create(setup_.limits, disk && scratchHoldsDisk() ? disk->value : 0);
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
        const LimitName name = static_cast<LimitName>(i);
        if (!setup_.limits[name]) continue;
        enforcers_[i] = cgroups_->enforcer(name);
        if (enforcers_[i] == Enforcer::kNone) enforcers_[i] = standIn(name);
        if (enforcers_[i] == Enforcer::kNone && setup_.limits[name]->required)
            return failure(
                "limits",
                std::string(kLimitNames[i]) + " cannot be enforced here: " +
                    (name == LimitName::kDisk ? "its layers lie on a file system without a quota" : cgroups_->reason()),
                EOPNOTSUPP);
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

void Supervisor::answerRun(const JailFrame& frame) {
    const std::optional<JailRun> run = decodeRun(frame.body);
    if (!run || frame.descriptors.size() != 3)
        return sendFailure(failure("protocol", "the command cannot be read", EPROTO));
    if (const std::optional<std::string> reason = objection(*run)) return sendFailure(failure("plan", *reason, EINVAL));
    if (!rootless_) givePipes(frame.descriptors, setup_.uid, setup_.gid);
    InitPlan plan{setup_, *run, skeleton_.writable, filter_, processLimits(), rootless_, {}, -1, {}};
    for (std::size_t i = 0; i < 3; ++i) plan.stdio[i] = frame.descriptors[i].get();
    const RunContext context{control_, *cgroups_, enforcers_, skeleton_.scratch.get()};
    if (!SupervisedRun(context, plan).run()) engineGone_ = true;
}

void Supervisor::sendFailure(const Failure& failed) const { sendFrame(control_, JailMessage::kFailed, encode(failed)); }

void Supervisor::cleanUp() {
    if (cgroups_) removeSoon(*cgroups_);
}

}  // namespace gradus
