#include "plugins/isolation/jail/proc.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "plugins/isolation/jail/mount_calls.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

namespace {

constexpr unsigned kQuiet = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

// Files that tell about, or reach into, the machine as a whole. Masked one by one: `subset=pid` would also take
// cpuinfo and meminfo away, without which runtimes see a machine of no processors.
constexpr const char* kMaskedFiles[] = {
    "kcore",         "keys",      "key-users",   "kallsyms",   "sysrq-trigger", "timer_list",  "timer_stats",
    "kmsg",          "config.gz", "interrupts",  "kpagecount", "kpageflags",    "kpagecgroup", "sched_debug",
    "latency_stats", "slabinfo",  "vmallocinfo", "iomem",      "ioports",       "mtrr",        "pagetypeinfo"};
constexpr const char* kMaskedDirectories[] = {"acpi", "scsi", "asound"};
// Uid 0 without capabilities still owns these files, and their owner may write them.
constexpr const char* kReadOnlyDirectories[] = {"sys",    "irq", "bus",      "fs",
                                                "driver", "tty", "pressure", "dynamic_debug"};

Attempt cover(int directory, const std::string& name, int source, const std::string& from, unsigned attributes) {
    const Descriptor place = openPath(directory, name, O_PATH | O_NOFOLLOW);
    if (!place) return std::nullopt;  // not every kernel has every file
    Descriptor mounted;
    if (auto failed = cloneTree(source, from, false, attributes, mounted)) return failed;
    return attachMount(mounted.get(), place.get(), "/proc/" + name);
}

Attempt maskProc(int root, int proc) {
    for (const char* name : kMaskedFiles)
        if (auto failed = cover(proc, name, root, "dev/null", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)) return failed;
    // The empty directory under the new /sys, which is not mounted yet.
    for (const char* name : kMaskedDirectories)
        if (auto failed = cover(proc, name, root, "sys", MOUNT_ATTR_RDONLY | kQuiet)) return failed;
    for (const char* name : kReadOnlyDirectories)
        if (auto failed = cover(proc, name, proc, name, MOUNT_ATTR_RDONLY | kQuiet)) return failed;
    return std::nullopt;
}

// A view of the machine's devices is a convenience: without it (the host's network namespace seen from a user
// namespace) /sys stays empty.
Attempt mountSys(int root) {
    const Descriptor place = openPath(root, "sys", O_PATH | O_DIRECTORY);
    Descriptor mounted;
    if (makeFileSystem("sysfs", {}, MOUNT_ATTR_RDONLY | kQuiet, mounted)) return std::nullopt;
    if (auto failed = attachMount(mounted.get(), place.get(), "/sys")) return failed;
    const Descriptor firmware = openPath(mounted.get(), "firmware", O_PATH | O_DIRECTORY);
    if (!firmware) return std::nullopt;
    Descriptor nothing;
    if (auto failed = makeFileSystem("tmpfs", {{"size", "4k"}}, MOUNT_ATTR_RDONLY | kQuiet, nothing)) return failed;
    return attachMount(nothing.get(), firmware.get(), "/sys/firmware");
}

}  // namespace

Attempt mountProc(const char* root) {
    const Descriptor top = openPath(AT_FDCWD, root, O_PATH | O_DIRECTORY);
    if (!top) return failure("open", root);
    const Descriptor place = openPath(top.get(), "proc", O_PATH | O_DIRECTORY);
    if (!place) return failure("open", "/proc");
    Descriptor proc;
    if (auto failed = makeFileSystem("proc", {}, kQuiet, proc)) return failed;
    if (auto failed = attachMount(proc.get(), place.get(), "/proc")) return failed;
    if (auto failed = maskProc(top.get(), proc.get())) return failed;
    return mountSys(top.get());
}

}  // namespace gradus
