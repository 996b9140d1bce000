#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <vector>

#include "plugins/api/isolation.h"
#include "plugins/host/capture.h"
#include "plugins/host/input_relay.h"
#include "plugins/host/terminal.h"
#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/jail_verdict.h"
#include "store/file.h"

namespace gradus {

/// One command as seen from the engine: passes input, output and reports on until all have ended.
class RunExchange {
  public:
    /// How long a jail that was told to end a command may take.
    static constexpr Milliseconds kEndPatience{10'000};

    /// `control` is our end of the jail's socket. All are borrowed.
    RunExchange(int control, const Command& command, const Limits& limits, mode_t umask,
                Milliseconds patience = kEndPatience);

    void start();
    /// To the end of the command and its output.
    void follow();
    /// The jail is gone, speaks nonsense, or did not end the command when its time was up.
    bool isLost() const { return lost_; }
    bool isOverdue() const { return lost_ && overdue_; }
    /// The sandbox's first process, readable once it has ended; none if it was never started.
    FileDescriptor takeInit() { return std::move(init_); }
    RunReport takeReport();

  private:
    /// One stream of the command on its way to the capture and the live sink.
    struct Flow {
        Stream stream;
        FileDescriptor source;
        Capture capture;
    };

    bool settled() const { return report_.failed || report_.ended; }
    bool streaming() const;
    FileDescriptor makeInput();
    void sendRun(const std::vector<int>& stdio);
    std::optional<std::chrono::steady_clock::time_point> deadline() const;
    int patience(const std::optional<std::chrono::steady_clock::time_point>& deadline) const;
    void beImpatient();
    void step();
    void read(Flow& flow);
    void hear();
    void stop();

    int control_;
    const Command& command_;
    const Limits& limits_;
    mode_t umask_;
    Milliseconds patience_;
    FileDescriptor wake_;
    FileDescriptor init_;
    std::vector<Flow> flows_;
    std::optional<TerminalRelay> relay_;
    std::optional<InputRelay> feed_;
    RunReport report_;
    bool stopping_ = false;
    bool lost_ = false;
    bool overdue_ = false;
    std::optional<std::chrono::steady_clock::time_point> endOfTime_;  ///< the jail should have ended it long ago
    std::optional<std::chrono::steady_clock::time_point> endOfPatience_;
    std::optional<std::chrono::steady_clock::time_point> endOfOutput_;
};

}  // namespace gradus
