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
#include "plugins/isolation/jail/run.h"
#include "plugins/isolation/jail/skeleton.h"

namespace gradus {

/// One sandbox after another, for one engine: each is built once, then commands run in it one after another until the
/// engine asks for the next sandbox or lets go of the socket. What sandboxes have in common (namespaces, the view of
/// the host, control groups of the same limits) is kept between them. The supervisor lives outside of what it confines.
class Supervisor {
  public:
    /// `held`: what stays open as long as anything of a sandbox is left; -1: nothing.
    Supervisor(int control, int held);

    /// Serves the engine to the end of the stream; the program's exit status.
    int serve();

  private:
    bool answer(JailFrame& frame);
    bool answerSetup(JailFrame& frame);
    bool answerExpect(const JailFrame& frame);
    bool answerRun(JailFrame& frame);
    void answerPrepare();
    Attempt prepare();
    bool answerReset();
    Attempt setUp(const JailSetup& setup);
    Attempt expect(const JailSetup& setup);
    void makeRules(const JailSetup& setup);
    Attempt checkIdentity(const JailSetup& setup);
    Attempt enterBare() const;
    Attempt openNetwork();
    Attempt enterHost();
    Attempt holdLimits();
    void makeGroups(const std::string& own);
    bool isShortOfGroups(bool onlyRequired) const;
    void askForScope();
    Attempt checkLimits() const;
    Enforcer standIn(LimitName name) const;
    ProcessLimits processLimits() const;
    std::unique_ptr<SupervisedRun> makeRun();
    bool fitsNext(const JailSetup& setup) const;
    void makeNext();
    void dropNext();
    std::vector<int> makeTerminal(const JailRun& run, std::vector<Descriptor>& ends);
    void sendFailure(const Failure& failed) const;
    void cleanUp();

    int control_;
    int held_;
    JailSetup setup_;
    bool rootless_;
    bool built_ = false;
    KernelCgroupFiles files_;
    std::unique_ptr<Cgroups> cgroups_;
    std::unique_ptr<RunTools> tools_;
    Limits cgroupLimits_;  ///< what the groups were made for, with the room for the scratch space
    std::uint64_t cgroupScratch_ = 0;
    std::string shortfall_;  ///< why a limit has no group, where one has none
    std::array<Enforcer, kLimitNames.size()> enforcers_{};
    std::optional<HostView> host_;
    Descriptor broker_;      ///< who connects by name, outside
    Descriptor interfaces_;  ///< /proc/net/dev of the sandbox's network
    Skeleton skeleton_;
    std::vector<sock_filter> filter_;
    std::optional<ProcMasks> masks_;
    std::unique_ptr<SupervisedRun> prepared_;
    /// Pid 1 of the sandbox after this one, should that be of the same kind, and the mount namespace it waits in.
    std::unique_ptr<SupervisedRun> next_;
    Descriptor room_;
    bool procIsOurs_ = true;  ///< /proc here is not that of a run which is over
};

}  // namespace gradus
