#include "plugins/isolation/jail/identity.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

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

}  // namespace

// The capabilities survive the change of ids: creating the last user namespace as a privileged process is not subject
// to a machine's restrictions on unprivileged ones.
Attempt changeIds(std::uint32_t uid, std::uint32_t gid) {
    if (::setgroups(0, nullptr) != 0) return failure("identity", "groups");
    if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return failure("identity", "keep capabilities");
    if (::setresgid(gid, gid, gid) != 0) return failure("identity", "gid " + std::to_string(gid));
    if (::setresuid(uid, uid, uid) != 0) return failure("identity", "uid " + std::to_string(uid));
    return setCapabilities(true);
}

Attempt enterOuterNamespaces(bool rootless, const JailSetup& setup) {
    const int flags =
        CLONE_NEWNS | CLONE_NEWUTS | (setup.hostNetwork ? 0 : CLONE_NEWNET) | (rootless ? CLONE_NEWUSER : 0);
    if (::unshare(flags) != 0) return failure("namespaces", rootless ? "with a user namespace" : "as root");
    if (rootless)
        if (auto failed = writeMaps(setup.uid, setup.gid)) return failed;
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

Attempt dropPrivileges() {
    constexpr unsigned long kNoRoot =
        SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (::prctl(PR_SET_SECUREBITS, kNoRoot, 0, 0, 0) != 0) return failure("capabilities", "secure bits");
    for (int capability = 0; capability <= kHighestCapability; ++capability)
        if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
            if (errno == EINVAL && capability > 0) break;  // beyond the last one that this kernel has
            return failure("capabilities", "bounding set");
        }
    return giveUpPrivileges();
}

Attempt giveUpPrivileges() {
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return failure("capabilities", "ambient");
    if (auto failed = setCapabilities(false)) return failed;
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failure("capabilities", "no new privileges");
    return std::nullopt;
}

}  // namespace gradus
