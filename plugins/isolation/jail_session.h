#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "plugins/api/isolation.h"
#include "plugins/host/capture.h"
#include "plugins/host/child_process.h"
#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/jail/protocol.h"

namespace gradus {

/// The engine's end of one gradus-jail: a Sandbox.
class JailSession final : public Sandbox {
  public:
    JailSession(ChildProcess jail, FileDescriptor control, const Limits& limits, const Clock& clock);
    ~JailSession() override;

    /// Sends the plan and waits for the jail to have built it.
    std::optional<Failure> setUp(const JailSetup& setup, Milliseconds patience);

    Outcome run(const Command& command) override;
    int upper(std::size_t index) const override;
    void close() override;

  private:
    ChildProcess jail_;
    FileDescriptor control_;
    Limits limits_;
    const Clock& clock_;
    JailReady ready_;
    std::vector<Descriptor> uppers_;
    bool open_ = true;
};

}  // namespace gradus
