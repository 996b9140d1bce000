#pragma once

#include <memory>
#include <string_view>

#include "plugins/api/isolation.h"

namespace gradus {

class NamespacesBackend;

/// The namespaces backend for copies of the whole system. It opens the same sandboxes; what it proves, it proves inside
/// of a copy, where the command is root and has capabilities.
class SystemBackend final : public IsolationBackend {
  public:
    explicit SystemBackend(NamespacesBackend& backend) : backend_(backend) {}

    std::string_view name() const override { return "namespaces-system"; }
    ProbeResult probe() override;
    ProbeKey probeKey() const override;
    std::unique_ptr<Sandbox> open(const Workspace& workspace, const Limits& limits, Network network,
                                  const Identity& identity) override;

  private:
    NamespacesBackend& backend_;
};

/// CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SYS_CHROOT SETFCAP, as /proc/self/status writes them.
inline constexpr std::string_view kPackageCapabilityMask = "00000000800400fb";

}  // namespace gradus
