#include "plugins/isolation/namespaces.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "plugins/isolation/built_ahead.h"
#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail_program.h"
#include "plugins/isolation/jail_session.h"
#include "plugins/isolation/system_backend.h"
#include "plugins/isolation/system_copy.h"
#include "store/file.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

JailOverlay toJail(const Overlay& overlay) {
    JailOverlay jail;
    jail.target = overlay.target.native();
    for (const fs::path& lower : overlay.lowers) jail.lowers.push_back(lower.native());
    jail.upper = overlay.upper.value_or(fs::path()).native();
    jail.work = overlay.work.value_or(fs::path()).native();
    jail.disposable = overlay.disposable;
    return jail;
}

std::set<std::string> namedTargets(const JailSetup& setup) {
    std::set<std::string> targets(setup.hidden.begin(), setup.hidden.end());
    for (const JailOverlay& overlay : setup.overlays) targets.insert(overlay.target);
    for (const JailBind& bind : setup.binds) targets.insert(bind.target);
    for (const JailPrivate& directory : setup.privates) targets.insert(directory.target);
    for (const JailFile& file : setup.files) targets.insert(file.target);
    return targets;
}

// On many machines the resolver's file is a link into /run, which is private inside.
void showResolver(JailSetup& setup) {
    std::error_code error;
    const fs::path file = fs::canonical("/etc/resolv.conf", error);
    if (!error && file.native().starts_with("/run/")) setup.binds.push_back({file.native(), file.native(), true});
}

// What every sandbox has, unless the workspace says something else about the same place.
void addDefaults(JailSetup& setup) {
    std::set<std::string> targets = namedTargets(setup);
    if (setup.hostNetwork) showResolver(setup);
    if (targets.insert("/tmp").second) setup.privates.push_back({"/tmp", 01777});
    if (targets.insert("/run").second) setup.privates.push_back({"/run", 0755});
    const auto isSeeded = [&](const fs::path& path) {
        return std::any_of(setup.seeds.begin(), setup.seeds.end(),
                           [&](const JailFile& seed) { return seed.target == path.native(); });
    };
    for (const fs::path& path : alwaysHidden()) {
        setup.alwaysHidden.push_back(path.native());
        if (!isSeeded(path) && targets.insert(path.native()).second) setup.hidden.push_back(path.native());
    }
}

std::vector<JailRange> rangesIn(const fs::path& file) {
    constexpr std::uint64_t kCap = 1U << 20;
    std::vector<JailRange> ranges;
    std::error_code error;
    if (!fs::is_regular_file(file, error) || ::access(file.c_str(), R_OK) != 0) return ranges;
    // newuidmap gives nothing to one whom it cannot name.
    const passwd* user = ::getpwuid(::geteuid());
    if (user == nullptr) return ranges;
    for (const IdRange& range :
         subordinateIds(readSmallFile(file, kCap, "subordinate ids"), user->pw_name, ::geteuid()))
        ranges.push_back({range.first, range.count});
    return ranges;
}

// An ordinary user's copy of the system: who shows it, and who else there is in it.
void addFuse(JailSetup& setup) {
    setup.fuseProgram = findFuseOverlay().native();
    if (setup.fuseProgram.empty() || ::access("/usr/bin/newuidmap", X_OK) != 0 ||
        ::access("/usr/bin/newgidmap", X_OK) != 0)
        return;
    setup.subordinateUsers = rangesIn("/etc/subuid");
    setup.subordinateGroups = rangesIn("/etc/subgid");
}

// The names, and nobody to ask about others.
void showNames(JailSetup& setup, const std::vector<Destination>& destinations) {
    const std::vector<NetworkRoute> routes = routesFor(destinations);
    for (const NetworkRoute& route : routes) setup.routes.push_back(route.inside);
    // Programs look up their own host's name, too.
    const std::string hosts = hostsFor(routes) + "127.0.1.1 " + setup.hostname + "\n";
    if (!namedTargets(setup).contains("/etc/hosts")) setup.files.push_back({"/etc/hosts", hosts, 0644});
}

JailSetup toJail(const Workspace& workspace, const Limits& limits, const Network& network, const Identity& identity,
                 const NamespacesConfig& config) {
    JailSetup setup;
    setup.uid = identity.uid;
    setup.gid = identity.gid;
    setup.hostNetwork = network.host;
    setup.diskBacked = workspace.boundedUppers;
    setup.hostname = workspace.hostname;
    setup.cgroupRoot = config.cgroupRoot.native();
    setup.userManager = config.userManager.native();
    for (const Overlay& overlay : workspace.overlays) setup.overlays.push_back(toJail(overlay));
    for (const ReadOnlyBind& bind : workspace.binds)
        setup.binds.push_back({bind.source.native(), bind.target.native(), bind.optional});
    for (const PrivateDirectory& directory : workspace.directories)
        setup.privates.push_back({directory.target.native(), directory.mode});
    for (const PrivateFile& file : workspace.files)
        setup.files.push_back({file.target.native(), file.content, file.mode});
    for (const PrivateFile& seed : workspace.seeds)
        setup.seeds.push_back({seed.target.native(), seed.content, seed.mode});
    for (const ImageMount& image : workspace.images)
        setup.images.push_back({image.file.native(), image.at.native(), image.readOnly});
    setup.system = workspace.system;
    if (setup.system) addFuse(setup);
    for (const fs::path& path : workspace.hidden) setup.hidden.push_back(path.native());
    setup.deniedCalls = workspace.deniedCalls;
    for (const fs::path& path : workspace.projectPlaces) setup.projectPlaces.push_back(path.native());
    setup.limits = limits;
    if (network.isByName()) showNames(setup, network.destinations);
    addDefaults(setup);
    return setup;
}

SetupFailure toFailure(const Failure& failed) { return {failed.step, failed.error, failed.detail}; }

}  // namespace

const std::vector<fs::path>& alwaysHidden() {
    static const std::vector<fs::path> kPaths = {"/root",
                                                 "/home",
                                                 "/etc/shadow",
                                                 "/etc/shadow-",
                                                 "/etc/gshadow",
                                                 "/etc/gshadow-",
                                                 "/etc/sudoers",
                                                 "/etc/sudoers.d",
                                                 "/etc/security/opasswd",
                                                 "/etc/ssl/private",
                                                 "/etc/krb5.keytab",
                                                 "/etc/docker",
                                                 "/etc/ppp",
                                                 "/etc/openvpn",
                                                 "/etc/ipsec.secrets",
                                                 "/etc/ipsec.d/private",
                                                 "/etc/letsencrypt",
                                                 "/etc/apt/auth.conf",
                                                 "/etc/apt/auth.conf.d",
                                                 "/etc/mysql/debian.cnf",
                                                 "/etc/postfix/sasl_passwd",
                                                 "/etc/postfix/sasl_passwd.db",
                                                 "/etc/gitlab-runner",
                                                 "/etc/rancher",
                                                 "/etc/credstore",
                                                 "/etc/credstore.encrypted",
                                                 "/etc/ssh/ssh_host_dsa_key",
                                                 "/etc/kubernetes",
                                                 "/etc/wireguard",
                                                 "/etc/NetworkManager/system-connections",
                                                 "/etc/ssh/ssh_host_rsa_key",
                                                 "/etc/ssh/ssh_host_ecdsa_key",
                                                 "/etc/ssh/ssh_host_ed25519_key",
                                                 "/var/lib/docker",
                                                 "/var/lib/containerd",
                                                 "/var/lib/kubelet",
                                                 "/var/lib/containers",
                                                 "/var/lib/rancher",
                                                 "/var/lib/cloud",
                                                 "/var/lib/jenkins",
                                                 "/var/lib/samba/private",
                                                 "/var/lib/sss",
                                                 "/var/lib/tailscale",
                                                 "/var/lib/systemd/credential.secret",
                                                 "/var/backups",
                                                 "/var/spool/cron",
                                                 "/var/mail",
                                                 "/boot"};
    return kPaths;
}

fs::path findJail() {
    const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
    for (const fs::path& candidate : {here / "gradus-jail", here / "../libexec/gradus/gradus-jail"})
        if (::access(candidate.c_str(), X_OK) == 0) return fs::canonical(candidate);
    throw Error(ErrorCode::kInfrastructure, "gradus-jail is neither beside {} nor in ../libexec/gradus", here.native())
        .hint("install it with the program: cmake --install");
}

fs::path findUserManager() {
    if (isMachineRoot()) return {};
    constexpr std::string_view kPrefix = "unix:path=";
    std::vector<fs::path> candidates;
    const char* address = std::getenv("DBUS_SESSION_BUS_ADDRESS");
    if (address != nullptr && std::string_view(address).starts_with(kPrefix)) {
        const std::string_view path = std::string_view(address).substr(kPrefix.size());
        candidates.emplace_back(path.substr(0, path.find_first_of(",;")));
    }
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    const fs::path directory =
        runtime != nullptr ? fs::path(runtime) : fs::path(fmt::format("/run/user/{}", ::geteuid()));
    candidates.push_back(directory / "bus");
    candidates.push_back(directory / "systemd/private");
    for (const fs::path& candidate : candidates) {
        struct stat info {};
        if (::stat(candidate.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) return candidate;
    }
    return {};
}

NamespacesBackend::NamespacesBackend(NamespacesConfig config, const Clock& clock)
    : config_(std::move(config)), clock_(clock), umask_(ownUmask()) {
    if (config_.pooled == 0) return;
    JailPool::Settings settings{.most = config_.pooled, .watched = alwaysHidden()};
    settings.make = [this] { return expectedJail(); };
    settings.quiet = config_.poolQuiet;
    if (config_.builtAhead > 0) {
        ahead_ = std::make_unique<BuiltAhead>(config_.builtAhead);
        settings.whenQuiet = [this] { buildAhead(); };
    }
    pool_ = std::make_shared<JailPool>(std::move(settings));
}

IsolationBackend* NamespacesBackend::forSystem() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!system_) system_ = std::make_unique<SystemBackend>(*this);
    return system_.get();
}

NamespacesBackend::~NamespacesBackend() {
    if (pool_) pool_->stopRefilling();
    if (ahead_) ahead_->clear();
    if (expected_) endJail(*expected_);
}

NamespacesBackend::PoolCounts NamespacesBackend::poolCounts() const {
    return {pool_ ? pool_->waiting() : 0, ahead_ ? ahead_->size() : 0, ahead_ ? ahead_->given() : 0};
}

Jail NamespacesBackend::freshJail(int held) const {
    const std::uint64_t view = pool_ ? pool_->hostView() : 0;
    Jail jail = startJail(config_.jail, held);
    jail.hostView = view;
    return jail;
}

// Starting the program, its namespaces and its view of the host take as long as everything a plan decides; meanwhile
// the caller works that plan out.
void NamespacesBackend::expect() {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Control groups are asked of the user's own systemd before a jail leaves the host's view: not ahead of a plan.
    if (pool_ || expected_ || !config_.userManager.empty()) return;
    try {
        expected_ = std::make_unique<Jail>(expectedJail());
    } catch (const Error&) {
        return;  // open() meets the same fault and says so
    }
}

Jail NamespacesBackend::expectedJail() const {
    Jail jail = freshJail(-1);
    jail.waited = true;
    // One that cannot be told has ended, which whoever takes it finds out.
    const JailSetup common = toJail({}, {}, Network::kNone, {::geteuid(), ::getegid()}, config_);
    if (config_.userManager.empty()) sendFrame(jail.control.get(), JailMessage::kExpect, encode(common));
    return jail;
}

std::unique_ptr<Jail> NamespacesBackend::takeExpected() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::move(expected_);
}

// What is held goes only with the jail itself, so one that holds something was never another sandbox's.
Jail NamespacesBackend::takeJail(const JailSetup& setup, int held) {
    if (setup.system) return freshJail(held);
    if (pool_ && !setup.hostNetwork && held < 0)
        if (auto waiting = pool_->take()) return std::move(*waiting);
    if (!setup.hostNetwork && held < 0)
        if (const auto expected = takeExpected()) return std::move(*expected);
    return freshJail(held);
}

std::unique_ptr<JailSession> NamespacesBackend::sessionOver(Jail jail, const Limits& limits,
                                                            const Network& network) const {
    auto session = std::make_unique<JailSession>(std::move(jail), pool_, limits, umask_, clock_);
    if (network.isByName())
        session->use(std::make_unique<NetworkBroker>(routesFor(network.destinations),
                                                     config_.resolver ? config_.resolver : resolveAsTheHostDoes));
    return session;
}

namespace {

// The caller's own layers and locks are the caller's to give, one sandbox at a time.
bool canBeBuiltAhead(const JailSetup& setup) {
    return !setup.hostNetwork && setup.routes.empty() && !setup.system && setup.images.empty() &&
           std::all_of(setup.overlays.begin(), setup.overlays.end(),
                       [](const JailOverlay& overlay) { return overlay.upper.empty(); });
}

}  // namespace

std::unique_ptr<Sandbox> NamespacesBackend::takeBuilt(const JailSetup& setup) {
    std::string plan = encode(setup);
    std::unique_ptr<Sandbox> built;
    if (ahead_->size() > 0) built = ahead_->take(plan, pool_->hostView());
    ahead_->note(setup, std::move(plan));
    return built;
}

// By the pool's own thread, while nobody asks.
void NamespacesBackend::buildAhead() {
    const std::uint64_t view = pool_->hostView();
    const std::optional<JailSetup> setup = ahead_->wanted(view);
    if (!setup) return;
    try {
        const PlanGround ground(*setup);  // looked at first: what changes meanwhile is found out
        auto session = std::make_unique<JailSession>(takeJail(*setup, -1), pool_, setup->limits, umask_, clock_);
        if (!session->setUp(*setup, config_.setupPatience)) ahead_->put(*setup, std::move(session), ground, view);
    } catch (const Error&) {
        return;  // whoever asks meets the same fault, and says so
    }
}

std::unique_ptr<Sandbox> NamespacesBackend::open(const Workspace& workspace, const Limits& limits, Network network,
                                                 const Identity& identity) {
    const JailSetup setup = toJail(workspace, limits, network, identity, config_);
    // Asked here as well as in the jail: a refusal before anything is started says the same in the same words.
    if (const auto reason = objection(setup)) throw SetupError({"plan", EINVAL, *reason});
    if (ahead_ && workspace.held < 0 && canBeBuiltAhead(setup))
        if (auto built = takeBuilt(setup)) {
            pool_->wasAsked();
            return built;
        }
    auto session = sessionOver(takeJail(setup, workspace.held), limits, network);
    std::optional<Failure> failed = session->setUp(setup, config_.setupPatience);
    if (failed && session->isLost()) {
        // One that waited for its plan may have ended by itself meanwhile; a fresh one has no such excuse.
        session = sessionOver(freshJail(workspace.held), limits, network);
        failed = session->setUp(setup, config_.setupPatience);
    }
    if (failed) throw SetupError(toFailure(*failed));
    return session;
}

}  // namespace gradus
