#include "plugins/isolation/jail/identity.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "plugins/isolation/jail/network.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

namespace {

constexpr int kHighestCapability = 63;

// One id, mapped to itself. A process may write that much for itself, so no second process is needed.
Attempt writeMaps(std::uint32_t uid, std::uint32_t gid) {
    const std::string user = std::to_string(uid);
    const std::string group = std::to_string(gid);
    if (const int error = writeText("/proc/self/setgroups", "deny")) return failure("setgroups", "deny", error);
    if (const int error = writeText("/proc/self/uid_map", user + " " + user + " 1"))
        return failure("uid map", user, error);
    if (const int error = writeText("/proc/self/gid_map", group + " " + group + " 1"))
        return failure("gid map", group, error);
    return std::nullopt;
}

Attempt setCapabilities(bool all) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
    if (all) {
        if (::syscall(SYS_capget, &header, data) != 0) return failure("capabilities", "read");
        for (__user_cap_data_struct& part : data) part.effective = part.permitted;
    }
    if (::syscall(SYS_capset, &header, data) != 0) return failure("capabilities", all ? "raise" : "clear");
    return std::nullopt;
}

// An ordinary user's namespace may have to keep its groups as they are.
bool areGroupsFixed() {
    const int error = errno;
    const bool fixed = readText("/proc/self/setgroups").value_or("").starts_with("deny");
    errno = error;
    return fixed;
}

constexpr std::uint64_t one(int capability) { return std::uint64_t{1} << capability; }
constexpr std::uint64_t kPackageCapabilities = one(CAP_CHOWN) | one(CAP_DAC_OVERRIDE) | one(CAP_FOWNER) |
                                               one(CAP_FSETID) | one(CAP_SETGID) | one(CAP_SETUID) | one(CAP_SETFCAP) |
                                               one(CAP_KILL) | one(CAP_SYS_CHROOT);

Attempt boundCapabilities(std::uint64_t kept) {
    for (int capability = 0; capability <= kHighestCapability; ++capability) {
        if ((kept & one(capability)) != 0) continue;
        if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
            if (errno == EINVAL && capability > 0) break;  // beyond the last one that this kernel has
            return failure("capabilities", "bounding set");
        }
    }
    return std::nullopt;
}

/// A map of more than one id is written by a process of the namespace above. This is that process: it waits until its
/// parent has made the namespace, and does its work.
class Mapper {
  public:
    Mapper() = default;
    Mapper(const Mapper&) = delete;
    Mapper& operator=(const Mapper&) = delete;
    virtual ~Mapper() { static_cast<void>(wait()); }

    Attempt begin() {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) return failure("id map", "pipe");
        const Descriptor heard(ends[0]);
        go_ = Descriptor(ends[1]);
        const pid_t parent = ::getpid();
        child_ = ::fork();
        if (child_ < 0) return failure("id map", "fork");
        if (child_ > 0) return std::nullopt;
        go_.reset();
        char word = 0;
        if (::read(heard.get(), &word, 1) != 1) ::_exit(0);  // the parent failed before it had anything to map
        ::_exit(write(parent));
    }

    Attempt finish() {
        if (::write(go_.get(), "m", 1) != 1) return failure("id map", "ask");
        const int status = wait();
        if (status != 0) return failure("id map", said(), status);
        return std::nullopt;
    }

  protected:
    /// In the child: 0, or an errno.
    virtual int write(pid_t parent) = 0;
    virtual std::string said() const { return "cannot be written"; }

  private:
    int wait() {
        go_.reset();
        if (child_ <= 0) return 0;
        int status = 0;
        while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) continue;
        child_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    }

    pid_t child_ = -1;
    Descriptor go_;
};

/// Every id that the outer namespace knows, mapped to itself.
class InnerMapper final : public Mapper {
    int write(pid_t parent) override {
        const std::string process = "/proc/" + std::to_string(parent);
        for (const char* kind : {"uid_map", "gid_map"}) {
            const auto outer = readText(std::string("/proc/self/") + kind);
            if (!outer) return errno;
            std::string map;
            for (const std::string& line : splitWords(*outer, "\n")) {
                const std::vector<std::string> fields = splitWords(line, " ");
                if (fields.size() == 3) map += fields[0] + " " + fields[0] + " " + fields[2] + "\n";
            }
            if (const int error = writeText(process + "/" + kind, map)) return error;
        }
        return 0;
    }
};

/// An ordinary user is root of a copy of the system. With ids of its own to give away (and the programs that may write
/// such a map), the others of the copy are these; without, there is nobody else.
class OuterMapper final : public Mapper {
  public:
    explicit OuterMapper(const JailSetup& setup) : setup_(setup), uid_(::geteuid()), gid_(::getegid()) {}

  private:
    int write(pid_t parent) override {
        const std::string process = "/proc/" + std::to_string(parent);
        if (!setup_.subordinateUsers.empty() && !setup_.subordinateGroups.empty()) {
            if (const int error = run("/usr/bin/newuidmap", parent, uid_, setup_.subordinateUsers)) return error;
            return run("/usr/bin/newgidmap", parent, gid_, setup_.subordinateGroups);
        }
        if (const int error = writeText(process + "/setgroups", "deny")) return error;
        if (const int error = writeText(process + "/uid_map", "0 " + std::to_string(uid_) + " 1")) return error;
        return writeText(process + "/gid_map", "0 " + std::to_string(gid_) + " 1");
    }

    static int run(const char* program, pid_t parent, std::uint32_t own, const std::vector<JailRange>& ranges) {
        std::vector<std::string> words = {program, std::to_string(parent), "0", std::to_string(own), "1"};
        std::uint32_t next = 1;
        for (const JailRange& range : ranges) {
            for (const std::uint32_t number : {next, range.first, range.count}) words.push_back(std::to_string(number));
            next += range.count;
        }
        std::vector<char*> arguments;
        arguments.reserve(words.size() + 1);
        for (std::string& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        const pid_t child = ::fork();
        if (child < 0) return errno;
        if (child == 0) {
            ::execv(program, arguments.data());
            ::_exit(ENOENT);
        }
        int status = 0;
        while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
        if (!WIFEXITED(status)) return EIO;
        return WEXITSTATUS(status);
    }

    std::string said() const override {
        return setup_.subordinateUsers.empty() ? "cannot be written" : "newuidmap or newgidmap refused it";
    }

    const JailSetup& setup_;
    std::uint32_t uid_;
    std::uint32_t gid_;
};

}  // namespace

// The capabilities survive the change of ids: creating the last user namespace as a privileged process is not subject
// to a machine's restrictions on unprivileged ones.
Attempt changeIds(std::uint32_t uid, std::uint32_t gid) {
    if (::setgroups(0, nullptr) != 0 && !areGroupsFixed()) return failure("identity", "groups");
    if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return failure("identity", "keep capabilities");
    if (::setresgid(gid, gid, gid) != 0) return failure("identity", "gid " + std::to_string(gid));
    if (::setresuid(uid, uid, uid) != 0) return failure("identity", "uid " + std::to_string(uid));
    return setCapabilities(true);
}

Attempt enterOuterNamespaces(bool rootless, const JailSetup& setup) {
    const int flags =
        CLONE_NEWNS | CLONE_NEWUTS | (setup.hostNetwork ? 0 : CLONE_NEWNET) | (rootless ? CLONE_NEWUSER : 0);
    OuterMapper mapper(setup);
    if (rootless && setup.system)
        if (auto failed = mapper.begin()) return failed;
    if (::unshare(flags) != 0) return failure("namespaces", rootless ? "with a user namespace" : "as root");
    if (rootless)
        if (auto failed = setup.system ? mapper.finish() : writeMaps(setup.uid, setup.gid)) return failed;
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
        return failure("namespaces", "private mounts");
    return setup.hostNetwork ? Attempt() : raiseLoopback();
}

Attempt becomeIdentity(bool rootless, std::uint32_t uid, std::uint32_t gid) {
    if (!rootless)
        if (auto failed = changeIds(uid, gid)) return failed;
    // A change of ids makes /proc/self root's; the maps are written through it.
    if (::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return failure("identity", "dumpable");
    if (::unshare(CLONE_NEWUSER) != 0) return failure("namespaces", "user namespace");
    if (auto failed = writeMaps(uid, gid)) return failed;
    if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return failure("identity", "not dumpable");
    return std::nullopt;
}

Attempt becomeInnerRoot() {
    if (auto failed = changeIds(0, 0)) return failed;
    if (::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return failure("identity", "dumpable");
    InnerMapper mapper;
    if (auto failed = mapper.begin()) return failed;
    if (::unshare(CLONE_NEWUSER) != 0) return failure("namespaces", "user namespace");
    if (auto failed = mapper.finish()) return failed;
    if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return failure("identity", "not dumpable");
    return std::nullopt;
}

Attempt keepPackageCapabilities() {
    constexpr unsigned long kNoAmbient = SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (::prctl(PR_SET_SECUREBITS, kNoAmbient, 0, 0, 0) != 0) return failure("capabilities", "secure bits");
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return failure("capabilities", "ambient");
    if (auto failed = boundCapabilities(kPackageCapabilities)) return failed;
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
    data[0].effective = data[0].permitted = static_cast<std::uint32_t>(kPackageCapabilities);
    if (::syscall(SYS_capset, &header, data) != 0) return failure("capabilities", "keep");
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failure("capabilities", "no new privileges");
    return std::nullopt;
}

Attempt dropPrivileges() {
    constexpr unsigned long kNoRoot =
        SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (::prctl(PR_SET_SECUREBITS, kNoRoot, 0, 0, 0) != 0) return failure("capabilities", "secure bits");
    if (auto failed = boundCapabilities(0)) return failed;
    return giveUpPrivileges();
}

Attempt giveUpPrivileges() {
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return failure("capabilities", "ambient");
    if (auto failed = setCapabilities(false)) return failed;
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failure("capabilities", "no new privileges");
    return std::nullopt;
}

}  // namespace gradus
