#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "plugins/isolation/examination.h"
#include "plugins/isolation/jail_program.h"
#include "plugins/isolation/loop_image.h"
#include "plugins/isolation/namespaces.h"
#include "plugins/isolation/system_backend.h"
#include "plugins/isolation/system_copy.h"
#include "store/file.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr const char* kJailInside = "/run/gradus-jail";

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
        std::string name = fmt::format("/var/tmp/gradus-probe-{}-XXXXXX", ::getpid());
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

Proof noNetwork(Examination& exam) {
    const Listener listener;
    const Outcome outcome = exam.ask({}, "no-network", std::to_string(listener.port()));
    return Examination::judged(Guarantee::kNoNetwork, outcome, !listener.heardSomething());
}

Proof readOnlyHost(Examination& exam, const std::string& question) {
    const Canary canary;
    const Outcome outcome = exam.ask({}, question, canary.path().native());
    return Examination::judged(Guarantee::kReadOnlyHost, outcome, canary.untouched());
}

Proof privateProcesses(Examination& exam) {
    const Outcome outcome = exam.ask({}, "private-processes", std::to_string(::getpid()));
    const Outcome left = exam.ask({}, "leave");
    const bool gone = left.init && ::kill(*left.init, 0) != 0 && errno == ESRCH;
    Proof proof = Examination::judged(Guarantee::kPrivateProcesses, outcome, gone && left.leftBehind == 1);
    proof.evidence += gone ? "; a detached process was ended with its run" : "; a detached process outlived its run";
    return proof;
}

constexpr std::uint64_t kImageMegabytes = 4;

/// A place with an image in it, as a kept sandbox's layer has one; removed with its owner.
class BoundedPlace {
  public:
    BoundedPlace() {
        for (const char* name : {"disk", "project", "templates"}) fs::create_directory(directory_.path() / name);
        makeLoopImage(directory_.path() / "image", kImageMegabytes << 20, directory_.path() / "templates");
        const FileDescriptor top = openLoopImage(directory_.path() / "image", false);
        for (const char* name : {"upper", "work"}) ::mkdirat(top.get(), name, 0755);
    }

    fs::path project() const { return directory_.path() / "project"; }
    Workspace workspace() const {
        Workspace workspace;
        const fs::path disk = directory_.path() / "disk";
        workspace.overlays.push_back({project(), {project()}, disk / "upper", disk / "work", true});
        workspace.images.push_back({directory_.path() / "image", disk, false});
        workspace.boundedUppers = true;
        return workspace;
    }

  private:
    class Directory {
      public:
        Directory() : path_("/var/tmp/gradus-probe-image-XXXXXX") {
            if (::mkdtemp(path_.data()) == nullptr)
                throw Error(ErrorCode::kInfrastructure, "cannot make a directory in /var/tmp: {}", errnoText(errno));
        }
        Directory(const Directory&) = delete;
        Directory& operator=(const Directory&) = delete;
        ~Directory() {
            std::error_code ignored;
            fs::remove_all(path_, ignored);
        }
        fs::path path() const { return path_; }

      private:
        std::string path_;
    };
    Directory directory_;
};

// Layers of kept sandboxes lie on disk, where something else must bound them than the size of a tmpfs.
Proof diskLimit(Examination& exam) {
    Proof proof = exam.diskLimit();
    if (!isMachineRoot()) {
        proof.evidence += "; layers on disk (kept sandboxes) are only watched";
        return proof;
    }
    try {
        const BoundedPlace place;
        const Outcome outcome = exam.fill(place.workspace(), place.project(), kImageMegabytes);
        const bool held = outcome.verdict == Verdict::kOk;
        proof.holds = proof.holds && held;
        proof.evidence += fmt::format("; in an image, as layers on disk have: {}",
                                      outcome.failure ? outcome.failure->text() : outcome.out.head);
        while (proof.evidence.ends_with('\n')) proof.evidence.pop_back();
    } catch (const Error& error) {
        proof.evidence += fmt::format("; layers on disk (kept sandboxes) are only watched: {}", error.what());
        proof.cure = error.hint();
    }
    return proof;
}

/// What is asked differently inside of a copy of the system.
struct Manner {
    std::string host;
    std::string capabilities;
};

ProbeResult examine(IsolationBackend& backend, Examination& exam, const fs::path& jail, const Manner& manner) {
    ProbeResult result{std::string(backend.name()), jailVersion(jail), {}};
    result.proofs = answers({{Guarantee::kNoNetwork, [&] { return noNetwork(exam); }},
                             {Guarantee::kReadOnlyHost, [&] { return readOnlyHost(exam, manner.host); }},
                             {Guarantee::kPrivateProcesses, [&] { return privateProcesses(exam); }},
                             {Guarantee::kKernelFilter, [&] { return exam.kernelFilter(manner.capabilities); }},
                             {Guarantee::kMemoryLimit, [&] { return exam.memoryLimit(); }},
                             {Guarantee::kTaskLimit, [&] { return exam.taskLimit(); }},
                             {Guarantee::kCpuLimit, [&] { return exam.cpuLimit(); }},
                             {Guarantee::kDiskLimit, [&] { return diskLimit(exam); }}});
    result.proofs.push_back({Guarantee::kSeparateKernel, false, "the sandbox speaks to the host's kernel",
                             "run gradus inside a virtual machine"});
    return result;
}

}  // namespace

ProbeResult NamespacesBackend::probe() {
    Workspace workspace;
    workspace.binds.push_back({config_.jail, kJailInside, false});
    Examination exam(*this, workspace, kJailInside, Identity{::geteuid(), ::getegid()});
    return examine(*this, exam, config_.jail, {"read-only-host", "0000000000000000"});
}

ProbeResult SystemBackend::probe() {
    Workspace workspace;
    workspace.binds.push_back({backend_.config().jail, kJailInside, false});
    addTo(workspace, planSystemCopy("/proc"));  // there is no project to leave out
    Examination exam(*this, workspace, kJailInside, Identity{0, 0});
    return examine(*this, exam, backend_.config().jail, {"copied-host", std::string(kPackageCapabilityMask)});
}

ProbeKey NamespacesBackend::probeKey() const { return jailProbeKey(config_.jail); }

}  // namespace gradus
