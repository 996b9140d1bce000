#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/isolation/jail/cgroup.h"
#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail/rlimits.h"
#include "plugins/isolation/jail/skeleton.h"

namespace gradus {

/// One sandbox: built once, then commands run in it one after another until the engine lets go of the socket. It lives
/// outside of what it confines, in a mount namespace (as an ordinary user also a user namespace) of its own.
class Supervisor {
  public:
    explicit Supervisor(int control) : control_(control) {}

    /// Serves the engine to the end of the stream; the program's exit status.
    int serve();

  private:
    Attempt setUp(const JailSetup& setup);
    Attempt holdLimits();
    Enforcer standIn(LimitName name) const;
    bool scratchHoldsDisk() const;
    ProcessLimits processLimits() const;
    void answerRun(const JailFrame& frame);
    void sendFailure(const Failure& failed) const;
    void cleanUp();

    int control_;
    JailSetup setup_;
    bool rootless_ = false;
    KernelCgroupFiles files_;
    std::unique_ptr<Cgroups> cgroups_;
    std::array<Enforcer, kLimitNames.size()> enforcers_{};
    Skeleton skeleton_;
    std::vector<sock_filter> filter_;
    bool engineGone_ = false;
};

}  // namespace gradus
