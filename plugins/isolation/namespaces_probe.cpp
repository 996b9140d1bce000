#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "plugins/isolation/namespaces.h"
#include "store/file.h"
#include "store/model/canonical.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr const char* kJailInside = "/run/gradus-jail";
constexpr std::uint64_t kMebibyte = 1U << 20;

/// A listener on the host's loopback that must never hear from inside.
class Listener {
  public:
    Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
            ::listen(socket_.get(), 4) != 0 ||
            ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
            throw Error(ErrorCode::kInfrastructure, "cannot listen on the loopback: {}", errnoText(errno));
        port_ = ntohs(address.sin_port);
    }

    int port() const { return port_; }
    bool heardSomething() const {
        const FileDescriptor caller(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        return bool(caller);
    }

  private:
    FileDescriptor socket_;
    int port_ = 0;
};

/// A file of the host's that anybody may write, where a sandbox can see it; removed with its owner.
class Canary {
  public:
    Canary() {
        std::string name = "/var/tmp/gradus-probe-XXXXXX";
        if (::mkdtemp(name.data()) == nullptr)
            throw Error(ErrorCode::kInfrastructure, "cannot make a directory in /var/tmp: {}", errnoText(errno));
        directory_ = name;
        const FileDescriptor file = openFile(path(), O_WRONLY | O_CREAT | O_EXCL, 0666);
        ::fchmod(file.get(), 0666);
        ::chmod(directory_.c_str(), 0777);
        writeAll(file.get(), "untouched", path());
    }
    Canary(const Canary&) = delete;
    Canary& operator=(const Canary&) = delete;
    ~Canary() {
        std::error_code ignored;
        fs::remove_all(directory_, ignored);
    }

    fs::path path() const { return directory_ / "canary"; }
    bool untouched() const {
        std::error_code error;
        return fs::exists(path(), error) && readSmallFile(path(), 64, "the canary") == "untouched";
    }

  private:
    fs::path directory_;
};

std::string oneLine(const std::string& text) {
    std::string line;
    for (const char letter : text) line += letter == '\n' ? std::string("; ") : std::string(1, letter);
    while (line.ends_with("; ")) line.resize(line.size() - 2);
    return line;
}

/// Asks questions inside sandboxes; from several threads at once.
class Examination {
  public:
    Examination(NamespacesBackend& backend, const fs::path& jail)
        : backend_(backend), jail_(jail), identity_{::geteuid(), ::getegid()} {}

    Outcome ask(const Limits& limits, const std::string& what, const std::string& argument = "0") {
        Limits bounded = limits;
        if (!bounded[LimitName::kWallTime]) bounded[LimitName::kWallTime] = Limit{10'000, true};
        Workspace workspace;
        workspace.binds.push_back({jail_, kJailInside, false});
        const auto sandbox = backend_.open(workspace, bounded, Network::kNone, identity_);
        Command command;
        command.arguments = {kJailInside, "--prove", what, argument};
        return sandbox->run(command);
    }

    Proof noNetwork() {
        const Listener listener;
        const Outcome outcome = ask({}, "no-network", std::to_string(listener.port()));
        return judged(Guarantee::kNoNetwork, outcome, !listener.heardSomething());
    }

    Proof readOnlyHost() {
        const Canary canary;
        const Outcome outcome = ask({}, "read-only-host", canary.path().native());
        return judged(Guarantee::kReadOnlyHost, outcome, canary.untouched());
    }

    Proof privateProcesses() {
        const Outcome outcome = ask({}, "private-processes", std::to_string(::getpid()));
        const Outcome left = ask({}, "leave");
        const bool gone = left.init && ::kill(*left.init, 0) != 0 && errno == ESRCH;
        Proof proof = judged(Guarantee::kPrivateProcesses, outcome, gone && left.leftBehind == 1);
        proof.evidence +=
            gone ? "; a detached process was ended with its run" : "; a detached process outlived its run";
        return proof;
    }

    Proof kernelFilter() { return judged(Guarantee::kKernelFilter, ask({}, "kernel-filter"), true); }

    Proof memoryLimit() {
        Limits limits;
        limits[LimitName::kMemory] = Limit{32 * kMebibyte, true};
        const Outcome outcome = ask(limits, "memory");
        return limited(Guarantee::kMemoryLimit, outcome, outcome.verdict == Verdict::kOom, "256 MiB against 32 MiB");
    }

    Proof taskLimit() {
        Limits limits;
        limits[LimitName::kTasks] = Limit{16, true};
        const Outcome outcome = ask(limits, "tasks", "16");
        Proof proof = limited(Guarantee::kTaskLimit, outcome, outcome.verdict == Verdict::kOk, "200 against 16");
        proof.evidence += "; " + oneLine(outcome.out.head);
        return proof;
    }

    Proof cpuLimit() {
        Limits time;
        time[LimitName::kCpuTime] = Limit{100, true};
        const Outcome stopped = ask(time, "cpu");
        const bool timeHeld = stopped.verdict == Verdict::kLimit && stopped.cpuMillis < 1000;
        Limits share;
        share[LimitName::kCpuShare] = Limit{20, true};
        share[LimitName::kWallTime] = Limit{250, true};
        const Outcome slowed = ask(share, "cpu");
        const bool shareHeld = slowed.verdict == Verdict::kTimeout && slowed.cpuMillis * 2 < slowed.wallMillis;
        return limited(
            Guarantee::kCpuLimit, stopped, timeHeld && shareHeld,
            fmt::format("two busy processes against 100 ms of CPU time: stopped after {} ms; against a fifth "
                        "of a core: used {} ms in {} ms",
                        stopped.cpuMillis, slowed.cpuMillis, slowed.wallMillis));
    }

    Proof diskLimit() {
        Limits limits;
        limits[LimitName::kDisk] = Limit{4 * kMebibyte, true};
        const Outcome outcome = ask(limits, "disk", "4");
        Proof proof = limited(Guarantee::kDiskLimit, outcome, outcome.verdict == Verdict::kOk, "16 MiB against 4 MiB");
        proof.evidence += "; " + oneLine(outcome.out.head) + "; for layers in the scratch space";
        return proof;
    }

  private:
    static Proof judged(Guarantee guarantee, const Outcome& outcome, bool seenFromOutside) {
        Proof proof{guarantee, outcome.verdict == Verdict::kOk && seenFromOutside, oneLine(outcome.out.head), {}};
        if (outcome.failure) proof.evidence = outcome.failure->text();
        return proof;
    }

    // A watcher stops an excess that has happened; that is worth having and no proof.
    static Proof limited(Guarantee guarantee, const Outcome& outcome, bool held, const std::string& tried) {
        const LimitReport& report = outcome.limits.front();
        const bool watched = report.enforcedBy == Enforcer::kWatch;
        Proof proof{guarantee, held && !watched, {}, {}};
        proof.evidence =
            fmt::format("{}: {}, held by {}", tried, verdictName(outcome.verdict), enforcerName(report.enforcedBy));
        if (watched) {
            proof.evidence += ", which looks only from time to time";
            proof.cure =
                "run as root, or inside a delegated group: systemd-run --user --scope -p Delegate=yes gradus …";
        }
        return proof;
    }

    NamespacesBackend& backend_;
    const fs::path& jail_;
    Identity identity_;
};

// Which file it is, down to its last change: hashing megabytes at every start would cost more than a sandbox.
Digest programIdentity(const fs::path& program) {
    struct stat info {};
    if (::stat(program.c_str(), &info) != 0) return Digest();
    Canonical identity("gradus.program.1");
    for (const std::int64_t value :
         {static_cast<std::int64_t>(info.st_dev), static_cast<std::int64_t>(info.st_ino),
          static_cast<std::int64_t>(info.st_size), static_cast<std::int64_t>(info.st_mtim.tv_sec),
          static_cast<std::int64_t>(info.st_mtim.tv_nsec), static_cast<std::int64_t>(info.st_ctim.tv_sec),
          static_cast<std::int64_t>(info.st_ctim.tv_nsec)})
        identity.number(value);
    return identity.text(program.native()).hash();
}

std::string programVersion(const fs::path& program) {
    constexpr std::uint64_t kProgramCap = 64 * kMebibyte;
    return sha256(readSmallFile(program, kProgramCap, "gradus-jail")).brief();
}

template <typename Ask>
Proof attempt(Guarantee guarantee, Ask ask) {
    try {
        return ask();
    } catch (const Error& error) {
        return Proof{guarantee, false, error.what(), error.hint()};
    }
}

}  // namespace

ProbeResult NamespacesBackend::probe() {
    Examination exam(*this, config_.jail);
    ProbeResult result{"namespaces", programVersion(config_.jail), {}};
    // All at once: most of the time is spent waiting for a limit to strike.
    std::vector<std::future<Proof>> answers;
    const auto add = [&](Guarantee guarantee, auto question) {
        answers.push_back(std::async(std::launch::async, [&exam, guarantee, question] {
            return attempt(guarantee, [&] { return (exam.*question)(); });
        }));
    };
    add(Guarantee::kNoNetwork, &Examination::noNetwork);
    add(Guarantee::kReadOnlyHost, &Examination::readOnlyHost);
    add(Guarantee::kPrivateProcesses, &Examination::privateProcesses);
    add(Guarantee::kKernelFilter, &Examination::kernelFilter);
    add(Guarantee::kMemoryLimit, &Examination::memoryLimit);
    add(Guarantee::kTaskLimit, &Examination::taskLimit);
    add(Guarantee::kCpuLimit, &Examination::cpuLimit);
    add(Guarantee::kDiskLimit, &Examination::diskLimit);
    for (std::future<Proof>& answer : answers) result.proofs.push_back(answer.get());
    result.proofs.push_back(
        {Guarantee::kSeparateKernel, false, "the sandbox speaks to the host's kernel", "use the backend gvisor"});
    return result;
}

ProbeKey NamespacesBackend::probeKey() const {
    utsname system{};
    ::uname(&system);
    std::string boot = "unknown";
    if (fs::exists("/proc/sys/kernel/random/boot_id"))
        boot = oneLine(readSmallFile("/proc/sys/kernel/random/boot_id", 128, "the boot id"));
    return {boot, std::string(system.release) + " " + system.version, programIdentity(config_.jail), ::geteuid()};
}

}  // namespace gradus
