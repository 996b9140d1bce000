#include "plugins/isolation/jail/descendants.h"

#include <dirent.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include "plugins/isolation/jail/system.h"

namespace gradus {

namespace {

constexpr std::uint64_t kPatienceNanos = 5'000'000'000;

// Field 4 of /proc/PID/stat; the name before it may hold anything, brackets too.
pid_t parentOf(const std::string& pid) {
    const std::string stat = readText("/proc/" + pid + "/stat").value_or("");
    const std::size_t bracket = stat.rfind(')');
    if (bracket == std::string::npos) return 0;
    const std::vector<std::string> fields = splitWords(std::string_view(stat).substr(bracket + 1), " ");
    return fields.size() < 2 ? 0 : static_cast<pid_t>(parseNumber(fields[1]).value_or(0));
}

std::vector<std::pair<pid_t, pid_t>> processesWithParents() {
    std::vector<std::pair<pid_t, pid_t>> all;
    const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
    while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr)
        if (const auto pid = parseNumber(entry->d_name))
            all.emplace_back(static_cast<pid_t>(*pid), parentOf(entry->d_name));
    return all;
}

void signalAll(const std::vector<pid_t>& pids, int signal) {
    for (const pid_t pid : pids) ::kill(pid, signal);
}

}  // namespace

std::vector<pid_t> descendantsOf(pid_t ancestor) {
    const std::vector<std::pair<pid_t, pid_t>> all = processesWithParents();
    std::vector<pid_t> found;
    for (std::size_t next = 0, parent = static_cast<std::size_t>(ancestor);; ++next) {
        for (const auto& [pid, its] : all)
            if (static_cast<std::size_t>(its) == parent) found.push_back(pid);
        if (next == found.size()) return found;
        parent = static_cast<std::size_t>(found[next]);
    }
}

void endDescendants() {
    const timespec pause{0, 1'000'000};
    for (const std::uint64_t begin = bootNanos(); bootNanos() - begin < kPatienceNanos; ::nanosleep(&pause, nullptr)) {
        signalAll(descendantsOf(::getpid()), SIGSTOP);
        signalAll(descendantsOf(::getpid()), SIGKILL);
        while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
        if (::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD) return;
    }
}

}  // namespace gradus
