#include "plugins/isolation/jail/prove.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "plugins/isolation/jail/system.h"

namespace gradus {

namespace {

constexpr std::size_t kMebibyte = 1U << 20;

/// Prints a finding; true if it is as it should be.
bool finding(bool good, const char* what, const std::string& seen) {
    std::printf("%s%s: %s\n", good ? "" : "BROKEN ", what, seen.c_str());
    return good;
}

std::string outcome(long result) { return result >= 0 ? "succeeded" : std::strerror(errno); }

bool refused(const char* what, long result, std::initializer_list<int> errors) {
    const std::string seen = outcome(result);
    bool expected = false;
    for (const int error : errors) expected = expected || errno == error;
    return finding(result < 0 && expected, what, seen);
}

int countBeyond(const char* path, const char* harmless, int headerLines) {
    const std::string text = readText(path).value_or("");
    int lines = -headerLines;
    for (const std::string& line : splitWords(text, "\n"))
        if (line.find(harmless) == std::string::npos || headerLines == 0) ++lines;
    return lines;
}

int proveNoNetwork(const char* port) {
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool good =
        refused("connecting to a listener on the host's loopback",
                ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), {ECONNREFUSED});
    const int others = countBeyond("/proc/net/dev", "lo:", 2);
    good = finding(others == 0, "interfaces other than a private loopback", std::to_string(others)) && good;
    const int routes = countBeyond("/proc/net/route", "Iface", 1) + 1;
    return finding(routes == 0, "routes", std::to_string(routes)) && good ? 0 : 1;
}

// Nothing that could reach anybody can even be made, of whatever family; a pair of sockets reaches only itself.
int proveNoSockets() {
    int made = 0;
    for (int family = 0; family <= AF_MAX; ++family)
        for (const int kind : {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET})
            if (::socket(family, kind, 0) >= 0 || errno != EPERM) ++made;
    return finding(made == 0, "kinds of sockets that are not refused, of every family", std::to_string(made)) ? 0 : 1;
}

bool isReadOnly(const char* path) {
    struct statvfs info {};
    const bool good = ::statvfs(path, &info) != 0 || (info.f_flag & ST_RDONLY) != 0;
    return finding(good, path, good ? "read-only" : "writable");
}

int proveReadOnlyHost(const char* canary) {
    bool good = true;
    for (const char* path : {"/", "/usr", "/etc", "/var", "/opt", "/home", "/root", "/proc/sys"})
        good = isReadOnly(path) && good;
    good = refused("writing a file of the host's that everybody may write", ::open(canary, O_WRONLY | O_APPEND),
                   {EROFS}) &&
           good;
    good = refused("removing it", ::unlink(canary), {EROFS}) && good;
    return refused("mounting the root writable", ::mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND, nullptr),
                   {EPERM}) &&
                   good
               ? 0
               : 1;
}

// In a copy of the system everything can be written, and nothing of it is the host's: who asks looks at the canary.
int proveCopiedHost(const char* canary) {
    bool good = true;
    for (const char* path : {"/proc/sys", "/sys"}) good = isReadOnly(path) && good;
    const Descriptor file = openPath(AT_FDCWD, canary, O_WRONLY | O_TRUNC);
    good = finding(file && ::write(file.get(), "written", 7) == 7, "writing the copy of a file of the host's",
                   file ? "succeeded" : std::strerror(errno)) &&
           good;
    good = finding(::unlink(canary) == 0, "removing the copy", "succeeded") && good;
    good = finding(::mkdir("/gradus-probe", 0700) == 0, "making a directory in the copy's root", "succeeded") && good;
    return refused("mounting something", ::mount("none", "/mnt", "tmpfs", 0, nullptr), {EPERM}) && good ? 0 : 1;
}

int provePrivateProcesses(const char* hostPid) {
    int seen = 0;
    const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
    while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') ++seen;
    bool good = finding(seen == 2, "processes in view", std::to_string(seen));
    good = finding(::getppid() == 1, "parent", std::to_string(::getppid())) && good;
    // A number above 2 names nobody here; below, it would name one of ours.
    const pid_t pid = std::max(std::atoi(hostPid), 3);
    return refused("signalling a process of the host's", ::kill(pid, 0), {ESRCH}) && good ? 0 : 1;
}

int proveKernelFilter(const std::string& capabilities) {
    const std::string status = readText("/proc/self/status").value_or("");
    const auto line = [&](const std::string& key, const std::string& value) {
        const std::string start = "\n" + key + ":\t";
        const std::size_t at = status.find(start);
        const std::size_t from = at == std::string::npos ? at : at + start.size();
        const std::string seen =
            at == std::string::npos ? "missing" : status.substr(from, status.find('\n', from) - from);
        return finding(seen == value, key.c_str(), seen);
    };
    bool good = line("Seccomp", "2");
    good = line("NoNewPrivs", "1") && good;
    for (const char* set : {"CapInh", "CapAmb"}) good = line(set, "0000000000000000") && good;
    for (const char* set : {"CapPrm", "CapEff", "CapBnd"}) good = line(set, capabilities) && good;
    good = refused("bpf", ::syscall(SYS_bpf, 0, nullptr, 0), {EPERM}) && good;
    good = refused("a new user namespace", ::unshare(CLONE_NEWUSER), {EPERM}) && good;
    good = refused("clone3", ::syscall(SYS_clone3, nullptr, 0), {ENOSYS}) && good;
    good = refused("io_uring", ::syscall(SYS_io_uring_setup, 1, nullptr), {ENOSYS}) && good;
    good = refused("mount", ::mount("none", "/tmp", "tmpfs", 0, nullptr), {EPERM}) && good;
    return refused("a number that no call has", ::syscall(1000), {ENOSYS}) && good ? 0 : 1;
}

// The parent survives and goes on, as a program would whose helper was killed: only counters tell.
int useMemory() {
    const pid_t child = ::fork();
    if (child == 0) {
        for (std::size_t used = 0; used < 256 * kMebibyte; used += kMebibyte) {
            void* piece = ::mmap(nullptr, kMebibyte, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (piece == MAP_FAILED) ::_exit(3);
            std::memset(piece, 1, kMebibyte);
        }
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return finding(!(WIFEXITED(status) && WEXITSTATUS(status) == 0), "256 MiB of memory", "refused") ? 0 : 1;
}

int useTasks(const char* most) {
    int started = 1;
    for (; started < 200; ++started) {
        const pid_t child = ::fork();
        if (child < 0) break;
        if (child == 0)
            while (true) ::pause();
    }
    const bool good = started <= std::atoi(most) && errno == EAGAIN;
    return finding(good, "tasks before a refusal", std::to_string(started)) ? 0 : 1;
}

// Two processes, so that a limit on each would let twice as much through. Stops by itself after two seconds.
int useCpu() {
    const pid_t child = ::fork();
    const timespec begin = [] {
        timespec now{};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        return now;
    }();
    timespec now = begin;
    while (now.tv_sec - begin.tv_sec < 2) ::clock_gettime(CLOCK_MONOTONIC, &now);
    if (child > 0) ::waitpid(child, nullptr, 0);
    return 1;
}

int useDisk(const char* megabytes) {
    const std::size_t most = static_cast<std::size_t>(std::atoi(megabytes)) * kMebibyte;
    const char* place = std::getenv("FILL");
    const Descriptor file = openPath(AT_FDCWD, place == nullptr ? "/tmp/fill" : place, O_WRONLY | O_CREAT);
    const std::string piece(65536, 'x');
    std::size_t written = 0;
    while (written < 4 * most) {
        const ssize_t put = ::write(file.get(), piece.data(), piece.size());
        if (put <= 0) break;
        written += static_cast<std::size_t>(put);
    }
    return finding(written <= most && errno == ENOSPC, "bytes before a refusal", std::to_string(written)) ? 0 : 1;
}

int leaveSomethingBehind() {
    if (::fork() != 0) return 0;
    ::setsid();
    while (true) ::pause();
}

}  // namespace

int prove(const char* what, const char* argument) {
    const std::string question = what;
    if (question == "no-network") return proveNoNetwork(argument);
    if (question == "no-sockets") return proveNoSockets();
    if (question == "read-only-host") return proveReadOnlyHost(argument);
    if (question == "copied-host") return proveCopiedHost(argument);
    if (question == "private-processes") return provePrivateProcesses(argument);
    if (question == "kernel-filter") return proveKernelFilter(argument);
    if (question == "memory") return useMemory();
    if (question == "tasks") return useTasks(argument);
    if (question == "cpu") return useCpu();
    if (question == "disk") return useDisk(argument);
    if (question == "leave") return leaveSomethingBehind();
    return 2;
}

}  // namespace gradus
