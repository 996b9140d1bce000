#include "plugins/isolation/jail/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "plugins/isolation/jail/descendants.h"

namespace gradus {

namespace {

std::vector<std::string> processes(int proc, pid_t ancestor) {
    std::vector<std::string> names;
    if (ancestor != 0) {
        names.push_back(std::to_string(ancestor));
        for (const pid_t pid : descendantsOf(ancestor)) names.push_back(std::to_string(pid));
        return names;
    }
    const int copy = ::openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0) return names;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(copy), &::closedir);
    while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') names.emplace_back(entry->d_name);
    return names;
}

std::uint64_t kilobytes(const std::string& text, std::string_view key) {
    return keyedNumber(text, key).value_or(0) * 1024;
}

// Own time and that of children it has waited for: summed over the living, every dead one is counted once.
std::uint64_t cpuNanos(const std::string& stat) {
    const std::size_t bracket = stat.rfind(')');
    if (bracket == std::string::npos) return 0;
    const std::vector<std::string> fields = splitWords(std::string_view(stat).substr(bracket + 1), " ");
    if (fields.size() < 15) return 0;
    std::uint64_t ticks = 0;
    for (std::size_t i = 11; i < 15; ++i) ticks += parseNumber(fields[i]).value_or(0);
    return ticks * (1'000'000'000U / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)));
}

std::uint64_t dividedMemory(int proc, const std::vector<std::string>& pids) {
    std::uint64_t bytes = 0;
    for (const std::string& pid : pids)
        if (const auto text = readTextAt(proc, pid + "/smaps_rollup")) bytes += kilobytes(*text, "Pss:");
    return bytes;
}

}  // namespace

Usage measure(int proc, std::uint64_t memoryLimit, pid_t ancestor) {
    Usage usage;
    const std::vector<std::string> pids = processes(proc, ancestor);
    for (const std::string& pid : pids) {
        if (const auto status = readTextAt(proc, pid + "/status")) {
            usage.memoryBytes += kilobytes(*status, "RssAnon:") + kilobytes(*status, "RssShmem:");
            usage.tasks += keyedNumber(*status, "Threads:").value_or(0);
        }
        if (const auto stat = readTextAt(proc, pid + "/stat")) usage.cpuNanos += cpuNanos(*stat);
    }
    if (usage.memoryBytes > memoryLimit) {
        const std::uint64_t divided = dividedMemory(proc, pids);
        if (divided > 0) usage.memoryBytes = divided;
    }
    return usage;
}

}  // namespace gradus
