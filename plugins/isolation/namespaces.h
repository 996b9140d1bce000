#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "plugins/api/isolation.h"
#include "store/model/clock.h"

namespace gradus {

class JailPool;
class SystemBackend;
struct Jail;
struct JailSetup;

struct NamespacesConfig {
    std::filesystem::path jail;  ///< the program gradus-jail
    std::filesystem::path cgroupRoot = "/sys/fs/cgroup";
    Milliseconds setupPatience{30'000};
    /// How many jails are kept between sandboxes, for an engine that opens many. None: each ends with its sandbox, as
    /// suits a program that soon ends itself.
    std::size_t pooled = 0;
    /// Socket of the user's systemd, which may hand out control groups to an ordinary user. Empty: nobody is asked.
    std::filesystem::path userManager;
};

/// gradus-jail beside the running program, or where an installation puts it. Throws Error if it is in neither place.
std::filesystem::path findJail();

/// Where the caller's systemd listens: the session's bus or its private socket. Empty for root, who needs nobody, and
/// where there is none.
std::filesystem::path findUserManager();

/// The default backend: a boundary made of namespaces, an overlay, a system call filter and control groups. It shares
/// the host's kernel. Works as root and as an ordinary user; may be used from several threads at once.
class NamespacesBackend final : public IsolationBackend {
  public:
    NamespacesBackend(NamespacesConfig config, const Clock& clock);
    ~NamespacesBackend() override;

    std::string_view name() const override { return "namespaces"; }
    ProbeResult probe() override;
    ProbeKey probeKey() const override;
    void expect() override;
    IsolationBackend* forSystem() override;
    const NamespacesConfig& config() const { return config_; }
    std::unique_ptr<Sandbox> open(const Workspace& workspace, const Limits& limits, Network network,
                                  const Identity& identity) override;

  private:
    Jail freshJail(int held) const;
    Jail takeJail(const JailSetup& setup, int held);
    std::unique_ptr<Jail> takeExpected();

    NamespacesConfig config_;
    const Clock& clock_;
    mode_t umask_;
    std::shared_ptr<JailPool> pool_;  ///< shared with the sandboxes that are open
    std::mutex mutex_;
    std::unique_ptr<Jail> expected_;  ///< started ahead of its plan
    std::unique_ptr<SystemBackend> system_;
};

/// Credential stores and sockets of the host that no sandbox shows, whatever its workspace says.
const std::vector<std::filesystem::path>& alwaysHidden();

}  // namespace gradus
