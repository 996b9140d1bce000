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
// cpuinfo and meminfo away, without which runtimes see a machine of no processors. The first ones anybody may read; the
// others only root, which a sandbox can be.
constexpr const char* kMaskedFiles[] = {"keys",       "key-users", "kallsyms", "config.gz", "interrupts",
                                        "timer_list", "iomem",     "ioports",  "mtrr",      "sched_debug"};
constexpr const char* kMaskedFromRoot[] = {"kcore",      "sysrq-trigger", "timer_stats", "kmsg",
                                           "kpagecount", "kpageflags",    "kpagecgroup", "latency_stats",
                                           "slabinfo",   "vmallocinfo",   "pagetypeinfo"};
constexpr const char* kMaskedDirectories[] = {"acpi", "scsi", "asound"};
// The second has files that anybody may write.
constexpr const char* kReadOnlyDirectories[] = {"sys", "pressure"};
// Uid 0 without capabilities still owns these files, and their owner may write them.
constexpr const char* kReadOnlyForRoot[] = {"irq", "bus", "fs", "driver", "tty", "dynamic_debug"};

template <typename Names>
void addExisting(std::vector<std::string>& found, const Names& names) {
    for (const char* name : names) {
        const std::string path = std::string("/proc/") + name;
        if (::access(path.c_str(), F_OK) == 0) found.push_back(path);
    }
}

// By path and with the old call, which makes no detached mount in between: there are many of these in every run, and
// the tree is ours alone.
Attempt cover(const std::string& target, const char* source, const char* type, unsigned long flags) {
    if (::mount(source, target.c_str(), type, flags, nullptr) == 0 || errno == ENOENT) return std::nullopt;
    return failure("mask", target);
}

Attempt makeReadOnly(const std::string& target) {
    constexpr unsigned long kFlags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (::mount(target.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0)
        return errno == ENOENT ? Attempt() : failure("mask", target);
    if (::mount(nullptr, target.c_str(), nullptr, kFlags, nullptr) != 0) return failure("mask", target);
    return std::nullopt;
}

}  // namespace

ProcMasks findProcMasks(std::uint32_t uid) {
    ProcMasks masks;
    addExisting(masks.files, kMaskedFiles);
    addExisting(masks.directories, kMaskedDirectories);
    addExisting(masks.readOnly, kReadOnlyDirectories);
    if (uid != 0) return masks;
    addExisting(masks.files, kMaskedFromRoot);
    addExisting(masks.readOnly, kReadOnlyForRoot);
    return masks;
}

Attempt mountProc(const ProcMasks& masks) {
    constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (::mount("proc", "/proc", "proc", kFlags, nullptr) != 0) return failure("mount proc", "/proc");
    for (const std::string& path : masks.files)
        if (auto failed = cover(path, "/dev/null", nullptr, MS_BIND)) return failed;
    for (const std::string& path : masks.directories)
        if (auto failed = cover(path, "none", "tmpfs", kFlags | MS_RDONLY)) return failed;
    for (const std::string& path : masks.readOnly)
        if (auto failed = makeReadOnly(path)) return failed;
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
