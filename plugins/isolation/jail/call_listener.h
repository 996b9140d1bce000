#pragma once

#include <linux/seccomp.h>
#include <poll.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

/// Hears of every system call that the filter of a running command does not decide by itself, answers it and counts it.
/// Nothing rests on it but the report: calls are refused here as the filter would have refused them, and a connection
/// leads nowhere that the sandbox's own network does not lead, whatever is answered. So an address may be swapped while
/// it is looked at.
///
/// A connection along a route waits until the engine's broker has reached the other end, so that the command sees what
/// became of it. Never blocks: a task that is gone, a broker that is slow and a loop of refused calls cost a bounded
/// time each.
class CallListener {
  public:
    CallListener() = default;
    /// `broker` is borrowed; -1: there are no routes. So is `proc`: a /proc in which callers are known by the numbers
    /// that they have here.
    CallListener(Descriptor listener, const std::vector<JailRoute>& routes, int broker, bool connections, int proc);

    /// What to wait for, and what to do once that is ready.
    std::array<pollfd, 3> wanted() const;
    void pass(const std::array<pollfd, 3>& events);

    /// Adds what was seen.
    void report(JailEffects& effects) const;

  private:
    struct Caller;
    struct Waiting {
        std::uint64_t notice = 0;
        std::uint64_t dial = 0;
        std::uint64_t untilNanos = 0;  ///< 0: as long as it takes
    };
    struct Count {
        std::uint64_t times = 0;
        bool exact = true;
    };

    void hear();
    void hearBroker();
    void tick();
    void judge(const seccomp_notif& notice);
    void judgeAddress(const seccomp_notif& notice, const Caller& caller);
    void dial(const seccomp_notif& notice, std::uint32_t route, bool patient);
    void refuse(const seccomp_notif& notice, int error);
    void letGo(std::uint64_t notice);
    void answer(std::uint64_t notice, int error, std::uint32_t flags);
    void countRefusal(bool datagram, const std::string& address, std::uint16_t port);
    void spend();
    void armTimer();

    Descriptor listener_;
    Descriptor timer_;
    const std::vector<JailRoute>* routes_ = nullptr;
    int broker_ = -1;
    bool connections_ = false;
    int proc_ = -1;
    std::uint64_t nextDial_ = 1;
    std::vector<Waiting> waiting_;
    std::map<std::uint32_t, Count> calls_;
    std::map<std::tuple<std::string, std::uint16_t, bool>, Count> refusals_;
    std::uint64_t otherRefusals_ = 0;
    /// What is left of refusals that are answered at once; then they are answered at a pace.
    std::int64_t budget_ = 0;
    std::uint64_t refilledNanos_ = 0;
    bool pausing_ = false;
};

}  // namespace gradus
