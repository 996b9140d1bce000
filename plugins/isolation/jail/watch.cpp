#include "plugins/isolation/jail/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
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

/// Memory of processes, of their own and shared.
struct Memory {
    std::uint64_t own = 0;
    std::uint64_t shared = 0;
};

Memory dividedMemory(int proc, const std::vector<std::string>& pids) {
    Memory memory;
    for (const std::string& pid : pids)
        if (const auto text = readTextAt(proc, pid + "/smaps_rollup")) {
            memory.own += kilobytes(*text, "Pss_Anon:");
            memory.shared += kilobytes(*text, "Pss_Shmem:");
        }
    return memory;
}

}  // namespace

Usage measure(int proc, std::uint64_t memoryLimit, std::uint64_t shared, pid_t ancestor) {
    Usage usage;
    Memory memory;
    const std::vector<std::string> pids = processes(proc, ancestor);
    for (const std::string& pid : pids) {
        if (const auto status = readTextAt(proc, pid + "/status")) {
            memory.own += kilobytes(*status, "RssAnon:");
            memory.shared += kilobytes(*status, "RssShmem:");
            usage.tasks += keyedNumber(*status, "Threads:").value_or(0);
        }
        if (const auto stat = readTextAt(proc, pid + "/stat")) usage.cpuNanos += cpuNanos(*stat);
    }
    usage.memoryBytes = memory.own + std::max(memory.shared, shared);
    if (usage.memoryBytes > memoryLimit) {
        const Memory divided = dividedMemory(proc, pids);
        if (divided.own > 0) usage.memoryBytes = divided.own + std::max(divided.shared, shared);
    }
    return usage;
}

NamelessUse measureNameless(int proc, std::uint64_t notDisk, pid_t ancestor) {
    constexpr std::uint64_t kBlock = 512;  // st_blocks counts in these
    NamelessUse use;
    std::set<std::pair<dev_t, ino_t>> seen;
    for (const std::string& pid : processes(proc, ancestor)) {
        const int directory = ::openat(proc, (pid + "/fd").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const std::unique_ptr<DIR, int (*)(DIR*)> list(directory < 0 ? nullptr : ::fdopendir(directory), &::closedir);
        while (const dirent* entry = list ? ::readdir(list.get()) : nullptr) {
            struct stat info {};
            if (entry->d_name[0] == '.' || ::fstatat(directory, entry->d_name, &info, 0) != 0) continue;
            if (!S_ISREG(info.st_mode) || info.st_nlink != 0 || info.st_blocks == 0) continue;
            if (!seen.insert({info.st_dev, info.st_ino}).second) continue;
            char target[32];
            const ssize_t length = ::readlinkat(directory, entry->d_name, target, sizeof target);
            const std::string_view name(target, length < 0 ? 0 : static_cast<std::size_t>(length));
            const std::uint64_t bytes = static_cast<std::uint64_t>(info.st_blocks) * kBlock;
            if (name.starts_with("/memfd:"))
                use.memoryBytes += bytes;
            else if (info.st_dev != notDisk)
                use.diskBytes += bytes;
        }
    }
    return use;
}

std::uint64_t measureSystemV(int table) {
    // "key shmid perms size cpid …": the size is the fourth.
    constexpr std::size_t kSize = 3;
    std::string text;
    char piece[4096];
    while (true) {
        const ssize_t got = ::pread(table, piece, sizeof piece, static_cast<off_t>(text.size()));
        if (got <= 0) break;
        text.append(piece, static_cast<std::size_t>(got));
    }
    std::uint64_t bytes = 0;
    for (const std::string& line : splitWords(text, "\n")) {
        const std::vector<std::string> fields = splitWords(line, " ");
        if (fields.size() > kSize) bytes += parseNumber(fields[kSize]).value_or(0);
    }
    return bytes;
}

}  // namespace gradus
