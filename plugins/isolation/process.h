#pragma once

#include <filesystem>
#include <string_view>

#include "plugins/api/isolation.h"
#include "store/model/clock.h"

namespace gradus {

/// Limits, not a boundary against hostile code: for machines that forbid namespaces. A command runs on the host as it
/// is, as an ordinary user, with rlimits and control groups where there are any, the system call filter, and Landlock
/// where the kernel has it: it may then write only where it starts, in /tmp and in /dev. Without network it can make no
/// socket at all. It shows no copy of anything, so a workspace with overlays, binds, private or hidden places is
/// refused, and root is never what a command runs as.
class ProcessBackend final : public IsolationBackend {
  public:
    /// `jail` is the program gradus-jail.
    ProcessBackend(std::filesystem::path jail, const Clock& clock);

    std::string_view name() const override { return "process"; }
    ProbeResult probe() override;
    ProbeKey probeKey() const override;
    bool clones() const override { return false; }
    std::unique_ptr<Sandbox> open(const Workspace& workspace, const Limits& limits, Network network,
                                  const Identity& identity) override;

  private:
    std::filesystem::path jail_;
    const Clock& clock_;
    mode_t umask_;
};

}  // namespace gradus
