#include "plugins/isolation/process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "plugins/isolation/examination.h"
#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail_program.h"
#include "plugins/isolation/jail_session.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr Milliseconds kSetupPatience{30'000};
constexpr Identity kNobody{65534, 65534};
constexpr const char* kCure = "use the backend namespaces";

bool hasOwnView(const Workspace& workspace) {
    return !workspace.overlays.empty() || !workspace.binds.empty() || !workspace.directories.empty() ||
           !workspace.files.empty() || !workspace.hidden.empty();
}

JailSetup bareSetup(const Workspace& workspace, const Limits& limits, const Network& network,
                    const Identity& identity) {
    JailSetup setup;
    setup.bare = true;
    setup.uid = identity.uid;
    setup.gid = identity.gid;
    setup.hostNetwork = network.host;
    setup.hostname = workspace.hostname;
    setup.cgroupRoot = "/sys/fs/cgroup";
    setup.deniedCalls = workspace.deniedCalls;
    if (network == Network::kNone) setup.deniedCalls.push_back(SYS_socket);
    setup.limits = limits;
    return setup;
}

// Found out once and for all: these do not depend on the machine.
Proof never(Guarantee guarantee, const char* why) { return {guarantee, false, why, kCure}; }

}  // namespace

ProcessBackend::ProcessBackend(fs::path jail, const Clock& clock)
    : jail_(std::move(jail)), clock_(clock), umask_(ownUmask()) {}

ProbeResult ProcessBackend::probe() {
    const Identity self = isMachineRoot() ? kNobody : Identity{::geteuid(), ::getegid()};
    Examination exam(*this, {}, jail_, self);
    ProbeResult result{"process", jailVersion(jail_), {}};
    result.proofs = answers({{Guarantee::kNoNetwork,
                              [&] { return Examination::judged(Guarantee::kNoNetwork, exam.ask({}, "no-sockets")); }},
                             {Guarantee::kKernelFilter, [&] { return exam.kernelFilter(); }},
                             {Guarantee::kMemoryLimit, [&] { return exam.memoryLimit(); }},
                             {Guarantee::kTaskLimit, [&] { return exam.taskLimit(); }},
                             {Guarantee::kCpuLimit, [&] { return exam.cpuLimit(); }}});
    for (Proof& proof : result.proofs)
        if (!proof.holds && proof.cure.empty()) proof.cure = kCure;
    result.proofs.push_back(never(Guarantee::kReadOnlyHost,
                                  "Landlock refuses to write elsewhere, but not to change modes, owners and times"));
    result.proofs.push_back(never(Guarantee::kPrivateProcesses, "processes of the host are in view"));
    result.proofs.push_back(never(Guarantee::kDiskLimit, "what is written lies on the host's file systems"));
    result.proofs.push_back({Guarantee::kSeparateKernel, false, "the command speaks to the host's kernel",
                             "run gradus inside a virtual machine"});
    return result;
}

ProbeKey ProcessBackend::probeKey() const { return jailProbeKey(jail_); }

std::unique_ptr<Sandbox> ProcessBackend::open(const Workspace& workspace, const Limits& limits, Network network,
                                              const Identity& identity) {
    if (hasOwnView(workspace))
        throw SetupError({"plan", EINVAL, "the backend process shows the host as it is, and nothing else"});
    if (network.isByName())
        throw SetupError(
            {"network", EOPNOTSUPP,
             "the backend process shares the host's network: it cannot let listed names through and nothing else"});
    const JailSetup setup = bareSetup(workspace, limits, network, identity);
    if (const auto reason = objection(setup)) throw SetupError({"plan", EINVAL, *reason});
    auto session = std::make_unique<JailSession>(startJail(jail_, workspace.held), nullptr, limits, umask_, clock_);
    if (const auto failed = session->setUp(setup, kSetupPatience))
        throw SetupError({failed->step, failed->error, failed->detail});
    return session;
}

}  // namespace gradus
