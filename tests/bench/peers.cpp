#include "tests/bench/peers.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "plugins/host/host_command.h"
#include "store/file.h"
#include "store/model/error.h"
#include "tests/bench/report.h"

namespace gradus::bench {

namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "/bin/true";
constexpr Milliseconds kPatience{20'000};
constexpr Milliseconds kStartPatience{30'000};
constexpr Milliseconds kEndPatience{15'000};
constexpr const char* kImage = "gradus-bench";

const std::vector<std::string>& environment() {
    static const std::vector<std::string> kEnvironment{
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent"};
    return kEnvironment;
}

std::string find(const std::string& name) { return findProgram(name, environment()).value_or(fs::path()).native(); }

std::string lastLine(std::string text) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
}

/// Why it fails; empty if it does not.
std::string whyFails(const std::vector<std::string>& words) {
    HostCommand command;
    command.arguments = words;
    command.environment = environment();
    command.directory = "/";
    command.timeout = kPatience;
    const HostOutcome outcome = runOnHost(command);
    if (outcome.succeeded()) return {};
    const std::string said = lastLine(outcome.err.text());
    return outcome.text() + (said.empty() ? "" : ": " + said);
}

// The smallest bundle that runs the host's own program: its directories, bound read-only.
void writeBundle(const fs::path& bundle) {
    fs::create_directories(bundle / "rootfs");
    std::string mounts = R"({"destination":"/proc","type":"proc","source":"proc"})";
    for (const char* name : {"usr", "bin", "lib", "lib64", "etc"}) {
        const fs::path path = fs::path("/") / name;
        if (fs::is_symlink(path)) fs::create_symlink(fs::read_symlink(path), bundle / "rootfs" / name);
        if (!fs::is_symlink(path) && fs::is_directory(path))
            mounts += fmt::format(R"(,{{"destination":"/{0}","type":"bind","source":"/{0}","options":["rbind","ro"]}})",
                                  name);
    }
    std::ofstream(bundle / "config.json") << fmt::format(
        R"({{"ociVersion":"1.0.2","process":{{"user":{{"uid":0,"gid":0}},"args":["{}"],"env":["PATH=/usr/bin:/bin"],"cwd":"/",
"noNewPrivileges":true}},"root":{{"path":"rootfs","readonly":true}},"hostname":"x","mounts":[{}],"linux":{{"namespaces":[
{{"type":"pid"}},{{"type":"network"}},{{"type":"ipc"}},{{"type":"uts"}},{{"type":"mount"}}]}}}})",
        kProgram, mounts);
}

}  // namespace

bool runs(const std::vector<std::string>& words) {
    try {
        ChildProcess child(ChildPlan{words[0], words, environment(), {}});
        return child.wait(kPatience) == 0;
    } catch (const Error&) {
        return false;
    }
}

std::vector<std::string> bwrapCommand() {
    return {find("bwrap"), "--unshare-all", "--ro-bind", "/",       "/",    "--dev",
            "/dev",        "--proc",        "/proc",     "--tmpfs", "/tmp", kProgram};
}

Peers::Peers() {
    add("bwrap", bwrapCommand(), 2.5);
    addRunc();
    add("runsc", {find("runsc"), "--platform=ptrace", "--network=none", "do", kProgram}, 50);
    addDocker();
    addPodman();
}

Peers::~Peers() {
    if (daemon_) {
        ::kill(daemon_->pid(), SIGTERM);  // it ends its own containerd on the way
        daemon_->wait(kEndPatience);
    }
    if (!usedPodman_) return;
    std::vector<std::string> words = podman();
    words.insert(words.end(), {"rmi", "--force", kImage});
    runs(words);
    ::umount2((scratch_ / "podman/overlay").c_str(), MNT_DETACH);  // it binds its storage onto itself
}

void Peers::refuse(const std::string& name, std::string whyNot) { all_.push_back({name, {}, 0, std::move(whyNot)}); }

void Peers::add(const std::string& name, std::vector<std::string> words, double goal) {
    if (words[0].empty()) return refuse(name, "not installed");
    std::string whyNot = whyFails(words);
    all_.push_back({name, std::move(words), goal, std::move(whyNot)});
}

void Peers::addRunc() {
    writeBundle(scratch_ / "bundle");
    add("runc",
        {find("runc"), "--root", (scratch_ / "runc").native(), "run", "--bundle", (scratch_ / "bundle").native(),
         fmt::format("gradus-bench-{}", ::getpid())},
        12);
}

std::string Peers::makeImage() {
    if (image_) return {};
    const std::string busybox = find("busybox");
    if (busybox.empty()) return "no busybox to make an image of";
    const fs::path root = scratch_ / "root";
    for (const char* name : {"bin", "tmp", "etc", "proc", "dev", "sys"}) fs::create_directories(root / name);
    fs::copy_file(busybox, root / "bin/busybox");
    fs::create_symlink("busybox", root / "bin/true");
    const fs::path image = scratch_ / "image.tar";
    std::string whyNot = whyFails({"tar", "-C", root.native(), "-cf", image.native(), "."});
    if (whyNot.empty()) image_ = image;
    return whyNot;
}

std::string Peers::startDocker() {
    const std::string program = find("dockerd");
    if (program.empty()) return "dockerd is not installed";
    if (::geteuid() != 0) return "its daemon needs root";
    const fs::path log = scratch_ / "dockerd.log";
    const FileDescriptor output = openFile(log, O_WRONLY | O_CREAT, 0600);
    const fs::path socket = scratch_ / "docker.sock";
    ChildPlan plan{
        program,
        {program, "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--bridge=none",
         "--data-root", (scratch_ / "docker").native(), "--exec-root", (scratch_ / "docker-run").native(), "--pidfile",
         (scratch_ / "docker.pid").native(), "--host", "unix://" + socket.native()},
        environment(),
        {{output.get(), 1}, {output.get(), 2}}};
    const FileDescriptor nothing = openFile("/dev/null", O_RDONLY);
    plan.descriptors.insert(plan.descriptors.begin(), {nothing.get(), 0});
    daemon_ = std::make_unique<ChildProcess>(plan);
    const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
    while (std::chrono::steady_clock::now() < deadline) {
        if (daemon_->wait(Milliseconds(200)))
            return "its daemon ended: " + lastLine(readSmallFile(log, 1 << 20, "the daemon's log"));
        if (fs::exists(socket) && runs({find("docker"), "-H", "unix://" + socket.native(), "version"})) return {};
    }
    return "its daemon does not answer";
}

void Peers::addDocker() {
    const std::string program = find("docker");
    if (program.empty()) return refuse("docker", "not installed");
    std::string whyNot = makeImage();
    if (whyNot.empty()) whyNot = startDocker();
    const std::vector<std::string> docker{program, "-H", "unix://" + (scratch_ / "docker.sock").native()};
    std::vector<std::string> words = docker;
    if (image_) words.insert(words.end(), {"import", image_->native(), kImage});
    if (whyNot.empty()) whyNot = whyFails(words);
    if (!whyNot.empty()) return refuse("docker", std::move(whyNot));
    words = docker;
    words.insert(words.end(), {"run", "--rm", "--network=none", kImage, "true"});
    add("docker", std::move(words), 100);
}

std::vector<std::string> Peers::podman() const {
    return {find("podman"),
            "--root",
            (scratch_ / "podman").native(),
            "--runroot",
            (scratch_ / "podman-run").native(),
            "--runtime",
            "runc",
            "--cgroup-manager",
            "cgroupfs"};
}

void Peers::addPodman() {
    if (find("podman").empty()) return refuse("podman", "not installed");
    std::string whyNot = makeImage();
    std::vector<std::string> words = podman();
    if (image_) words.insert(words.end(), {"import", image_->native(), kImage});
    usedPodman_ = true;
    if (whyNot.empty()) whyNot = whyFails(words);
    if (!whyNot.empty()) return refuse("podman", std::move(whyNot));
    words = podman();
    // Its own defaults ask for more open files than a container's root may have everywhere.
    words.insert(words.end(), {"run", "--rm", "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096",
                               kImage, "true"});
    add("podman", std::move(words), 0);
}

}  // namespace gradus::bench
