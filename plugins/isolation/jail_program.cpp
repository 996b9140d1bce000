#include "plugins/isolation/jail_program.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/namespaces.h"
#include "store/file.h"
#include "store/model/canonical.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

// Hashing megabytes at every start would cost more than a sandbox.
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

std::string bootId() {
    const fs::path file = "/proc/sys/kernel/random/boot_id";
    if (!fs::exists(file)) return "unknown";
    const std::string text = readSmallFile(file, 128, "the boot id");
    return text.substr(0, text.find('\n'));
}

std::string userNamespace() {
    std::error_code error;
    return fs::read_symlink("/proc/self/ns/user", error).native();
}

// An ordinary user has groups where a part was delegated, and elsewhere not.
std::string ownGroup() {
    if (isMachineRoot()) return "root";
    std::ifstream lines("/proc/self/cgroup");
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("0::") && ::access(("/sys/fs/cgroup" + line.substr(3)).c_str(), W_OK) == 0)
            return "delegated";
    return "none";
}

// What a proof depends on besides machine, program and user: this part of the boot.
std::string place() { return userNamespace() + " " + ownGroup() + " " + findUserManager().native(); }

}  // namespace

Jail startJail(const fs::path& program, int held) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        throw SetupError({"start", errno, "control socket"});
    FileDescriptor control(pair[0]);
    // Only the jail keeps that end: its death must be seen as the end of the stream.
    const FileDescriptor theirs(pair[1]);
    ChildPlan plan{program, {"gradus-jail"}, {}, {{theirs.get(), kJailControlDescriptor}}};
    if (held >= 0) plan.descriptors.emplace_back(held, kJailHeldDescriptor);
    return {ChildProcess(plan), std::move(control), 0, held >= 0};
}

ProbeKey jailProbeKey(const fs::path& program) {
    utsname system{};
    ::uname(&system);
    return {bootId() + " " + place(), std::string(system.release) + " " + system.version, programIdentity(program),
            ::geteuid()};
}

std::string jailVersion(const fs::path& program) {
    constexpr std::uint64_t kProgramCap = 64U << 20;
    return sha256(readSmallFile(program, kProgramCap, "gradus-jail")).brief();
}

// Asking the kernel means setting it, for all threads; its own page about us has it to read.
mode_t ownUmask() {
    constexpr mode_t kUsual = 022;
    try {
        const std::string status = readSmallFile("/proc/self/status", 65536, "the process's status");
        const std::size_t at = status.find("\nUmask:");
        return at == std::string::npos ? kUsual : static_cast<mode_t>(std::stoul(status.substr(at + 7), nullptr, 8));
    } catch (const std::exception&) {
        return kUsual;
    }
}

}  // namespace gradus
