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
    /// `control` is our end of the jail's socket. All are borrowed.
    RunExchange(int control, const Command& command, const Limits& limits, mode_t umask);

    void start();
    /// To the end of the command and its output.
    void follow();
    /// The jail is gone, or speaks nonsense.
    bool isLost() const { return lost_; }
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
    int patience(const std::optional<std::chrono::steady_clock::time_point>& deadline) const;
    void step();
    void read(Flow& flow);
    void hear();
    void stop();

    int control_;
    const Command& command_;
    const Limits& limits_;
    mode_t umask_;
    FileDescriptor wake_;
    std::vector<Flow> flows_;
    std::optional<TerminalRelay> relay_;
    std::optional<InputRelay> feed_;
    RunReport report_;
    bool stopping_ = false;
    bool lost_ = false;
    std::optional<std::chrono::steady_clock::time_point> endOfPatience_;
    std::optional<std::chrono::steady_clock::time_point> endOfOutput_;
};

}  // namespace gradus
