#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "plugins/isolation/jail/call_listener.h"
#include "plugins/isolation/jail/cgroup.h"
#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/jail/init.h"
#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail/watch.h"

namespace gradus {

/// What the runs of one sandbox share, opened once.
struct RunTools {
    std::vector<Descriptor> taskFiles;  ///< of old hierarchies
    Descriptor unified;                 ///< directory of the unified one
    Descriptor memoryEvents;            ///< ready when memory ran out
    Descriptor memoryControl;
    Descriptor proc;         ///< the supervisor's own /proc, in whatever mount namespace it is
    CgroupCounters counted;  ///< when the last run had ended
};
Attempt openRunTools(const Cgroups& cgroups, Enforcer memoryBy, RunTools& tools);

/// What a run is supervised by.
struct RunContext {
    int control = -1;
    Cgroups& cgroups;
    RunTools& tools;
    const std::array<Enforcer, kLimitNames.size()>& enforcers;
    int scratch = -1;
    int broker = -1;                        ///< of a network by name
    const std::vector<Descriptor>& uppers;  ///< of all overlays, in the plan's order
};

/// One command from clone to the end of its last process. The engine is told when it started and how it ended.
class SupervisedRun {
  public:
    SupervisedRun(const RunContext& context, InitPlan plan);
    /// Ends a pid 1 that never got a command.
    ~SupervisedRun();
    SupervisedRun(const SupervisedRun&) = delete;
    SupervisedRun& operator=(const SupervisedRun&) = delete;

    /// Makes pid 1, which confines itself and waits for the command.
    Attempt start();
    /// Makes pid 1 ahead of its sandbox, in the mount namespace that is to become the sandbox's: this one.
    Attempt startAhead();
    bool isAlive() const;
    /// The sandbox of one that was made ahead is there.
    void giveSandbox(const std::vector<std::string>& writable, int scratch);
    /// Gives it the command, as the engine sent it.
    void give(const JailFrame& frame, const JailRun& command, const std::vector<int>& stdio);
    /// Sees the command to its end. False if the engine went away meanwhile.
    bool finish();

  private:
    pid_t cloneInit();
    void armTimers();
    void tickAfter(std::uint64_t nanos);
    void rearmMemoryEvents();
    void supervise();
    void readInit();
    void hear(JailFrame frame);
    void onStarted(JailFrame& frame);
    std::uint64_t look();
    /// Bytes of shared memory that no process need have mapped.
    std::uint64_t sharedMemory();
    void lookForNameless();
    void lookAtDisk();
    bool isDiskLimitPassed();
    int boundedUpper() const;
    void readEngine();
    void onTick();
    void checkCpuTime(std::uint64_t usedNanos);
    void end(JailEnd reason);
    void kill();
    void report(const rusage& usage);
    void reportEffects(JailEffects& effects) const;
    void reportLimits(JailEnded& ended, const CgroupCounters& counters, const rusage& usage) const;
    std::optional<std::uint64_t> limitOf(LimitName name) const;
    Enforcer heldBy(LimitName name) const { return context_.enforcers[static_cast<std::size_t>(name)]; }

    RunContext context_;
    InitPlan plan_;
    CgroupCounters before_;
    Descriptor channel_;
    Descriptor pidfd_;
    Descriptor wall_;
    Descriptor grace_;
    Descriptor tick_;
    Descriptor proc_;
    Descriptor mounts_;  ///< of pid 1: held so that taking it down is not in the way of the report
    Descriptor systemV_;
    NamelessUse nameless_;            ///< as last seen
    std::uint64_t nextFileLook_ = 0;  ///< bootNanos()
    std::uint64_t graceMillis_ = 0;
    pid_t init_ = -1;
    bool reaped_ = false;
    bool started_ = false;
    bool failed_ = false;
    bool engineGone_ = false;
    bool oomPending_ = false;
    std::uint64_t startNanos_ = 0;
    std::uint64_t watchedMemory_ = 0;
    std::uint64_t watchedTasks_ = 0;
    std::uint64_t watchedCpu_ = 0;
    std::uint64_t watchedDisk_ = 0;
    std::uint64_t nextDiskLook_ = 0;  ///< bootNanos()
    JailEnd reason_ = JailEnd::kByItself;
    std::optional<InitEnded> ended_;
    CallListener calls_;
    bool listening_ = false;
};

}  // namespace gradus
