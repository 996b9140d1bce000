#include "plugins/isolation/jail/proc.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "plugins/isolation/jail/mount_calls.h"
#include "plugins/isolation/jail/skeleton.h"
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

// By path and with the old call, which makes no detached mount in between: there are some twenty of these in every run,
// and both trees are ours alone.
Attempt coverWith(const std::string& source, const std::string& target) {
    if (::mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) == 0 || errno == ENOENT) return std::nullopt;
    return failure("mask", target);
}

Attempt coverReadOnly(const std::string& source, const std::string& target) {
    constexpr unsigned long kFlags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (::mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0)
        return errno == ENOENT ? Attempt() : failure("mask", target);
    if (::mount(nullptr, target.c_str(), nullptr, kFlags, nullptr) != 0) return failure("mask", target);
    return std::nullopt;
}

}  // namespace

Attempt mountProc(const std::string& root) {
    const std::string proc = root + "/proc/";
    if (::mount("proc", proc.c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
        return failure("mount proc", "/proc");
    for (const char* name : kMaskedFiles)
        if (auto failed = coverWith(root + "/dev/null", proc + name)) return failed;
    for (const char* name : kMaskedDirectories)
        if (auto failed = coverReadOnly(kEmptyDirectory, proc + name)) return failed;
    for (const char* name : kReadOnlyDirectories)
        if (auto failed = coverReadOnly(proc + name, proc + name)) return failed;
    return std::nullopt;
}

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

}  // namespace gradus
