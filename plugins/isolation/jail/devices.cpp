#include "plugins/isolation/jail/devices.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "plugins/isolation/jail/mount_calls.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

namespace {

struct Node {
    const char* name;
    unsigned major;
    unsigned minor;
};
constexpr Node kNodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                           {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

struct Link {
    const char* name;
    const char* text;
};
constexpr Link kLinks[] = {{"fd", "/proc/self/fd"},
                           {"stdin", "/proc/self/fd/0"},
                           {"stdout", "/proc/self/fd/1"},
                           {"stderr", "/proc/self/fd/2"},
                           {"ptmx", "pts/ptmx"}};

Attempt makeNode(int devices, const Node& node) {
    // The umask must not decide who may use /dev/null.
    if (::mknodat(devices, node.name, S_IFCHR | 0666, makedev(node.major, node.minor)) != 0 ||
        ::fchmodat(devices, node.name, 0666, 0) != 0)
        return failure("make device", node.name);
    return std::nullopt;
}

// A user namespace may not make device nodes; it may show the host's.
Attempt bindNode(int devices, const Node& node) {
    if (::mknodat(devices, node.name, S_IFREG | 0666, 0) != 0) return failure("make device", node.name);
    Descriptor mounted;
    if (auto failed = cloneTree(AT_FDCWD, std::string("/dev/") + node.name, false, MOUNT_ATTR_NOSUID, mounted))
        return failed;
    const Descriptor place = openPath(devices, node.name, O_PATH | O_NOFOLLOW);
    return attachMount(mounted.get(), place.get(), node.name);
}

Attempt placeTerminals(int devices) {
    if (::mkdirat(devices, "pts", 0755) != 0) return failure("make directory", "/dev/pts");
    Descriptor mounted;
    if (auto failed = makeFileSystem("devpts", {{"newinstance", ""}, {"ptmxmode", "0666"}, {"mode", "0620"}},
                                     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, mounted))
        return failed;
    const Descriptor place = openPath(devices, "pts", O_PATH | O_DIRECTORY);
    return attachMount(mounted.get(), place.get(), "/dev/pts");
}

}  // namespace

Attempt placeDevices(int base, int root, bool rootless) {
    Descriptor mounted;
    if (auto failed = cloneTree(base, "dev", false, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, mounted)) return failed;
    const Descriptor place = openPath(root, "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (auto failed = attachMount(mounted.get(), place.get(), "/dev")) return failed;
    const int devices = mounted.get();
    for (const Node& node : kNodes)
        if (auto failed = rootless ? bindNode(devices, node) : makeNode(devices, node)) return failed;
    for (const Link& link : kLinks)
        if (::symlinkat(link.text, devices, link.name) != 0) return failure("make link", link.name);
    if (auto failed = placeTerminals(devices)) return failed;
    if (::mkdirat(devices, "shm", 0755) != 0) return failure("make directory", "/dev/shm");
    return setMountAttributes(devices, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, false, "/dev");
}

}  // namespace gradus
