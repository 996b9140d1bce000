#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "plugins/isolation/jail/cgroup.h"
#include "plugins/isolation/jail/init.h"
#include "plugins/isolation/jail/protocol.h"

namespace gradus {

/// What a run is supervised by.
struct RunContext {
    int control = -1;
    Cgroups& cgroups;
    const std::array<Enforcer, kLimitNames.size()>& enforcers;
    int scratch = -1;
};

/// One command from clone to the end of its last process. The engine is told when it started and how it ended.
class SupervisedRun {
  public:
    SupervisedRun(const RunContext& context, InitPlan plan);

    /// False if the engine went away meanwhile.
    bool run();

  private:
    Attempt start();
    pid_t cloneInit(int cgroupDirectory);
    void armTimers();
    void watchMemoryEvents();
    void rearmMemoryEvents();
    void supervise();
    void readInit();
    void onStarted(std::string_view body);
    std::uint64_t look();
    void readEngine();
    void onTick();
    void checkCpuTime(std::uint64_t usedNanos);
    void end(JailEnd reason);
    void kill();
    void report(const rusage& usage);
    void reportLimits(JailEnded& ended, const CgroupCounters& counters) const;
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
    Descriptor memoryEvents_;
    Descriptor memoryControl_;
    Descriptor proc_;
    pid_t init_ = -1;
    bool started_ = false;
    bool failed_ = false;
    bool engineGone_ = false;
    bool oomPending_ = false;
    std::uint64_t startNanos_ = 0;
    std::uint64_t watchedMemory_ = 0;
    std::uint64_t watchedTasks_ = 0;
    std::uint64_t watchedCpu_ = 0;
    JailEnd reason_ = JailEnd::kByItself;
    std::optional<InitEnded> ended_;
};

}  // namespace gradus
