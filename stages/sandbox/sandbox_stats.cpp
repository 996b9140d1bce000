// What the command in a kept sandbox uses now, as the host sees it: works beside the one who runs it, with or without
// control groups.

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "stages/sandbox/layer_tree.h"
#include "stages/sandbox/sandboxes_inside.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

/// Of /proc/PID/stat, what is asked for here. Times are in clock ticks.
struct ProcessFacts {
    pid_t parent = 0;
    std::uint64_t ticks = 0;  ///< its own and those of children it waited for
    std::uint64_t threads = 0;
    std::uint64_t start = 0;
    std::uint64_t residentPages = 0;
    bool isZombie = false;
};

// The name may hold spaces and brackets: what follows begins after the last one.
std::optional<ProcessFacts> factsOf(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    if (!std::getline(file, line)) return std::nullopt;
    const std::size_t end = line.rfind(')');
    if (end == std::string::npos) return std::nullopt;
    std::istringstream words(line.substr(end + 1));
    std::vector<std::string> fields;
    for (std::string word; words >> word;) fields.push_back(word);
    constexpr std::size_t kFields = 22;
    if (fields.size() < kFields) return std::nullopt;
    const auto number = [&](std::size_t field) { return std::strtoull(fields[field - 3].c_str(), nullptr, 10); };
    ProcessFacts facts;
    facts.isZombie = fields[0] == "Z";
    facts.parent = static_cast<pid_t>(number(4));
    for (const std::size_t field : {14U, 15U, 16U, 17U}) facts.ticks += number(field);
    facts.threads = number(20);
    facts.start = number(22);
    facts.residentPages = number(24);
    return facts;
}

std::map<pid_t, ProcessFacts> allProcesses() {
    std::map<pid_t, ProcessFacts> all;
    std::error_code error;
    for (fs::directory_iterator it("/proc", error); !error && it != fs::directory_iterator(); it.increment(error)) {
        const std::string name = it->path().filename();
        pid_t pid = 0;
        const auto [stop, fault] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (fault != std::errc() || stop != name.data() + name.size()) continue;
        if (const auto facts = factsOf(pid)) all.emplace(pid, *facts);
    }
    return all;
}

// Shared pages count by their share, where that can be read; else each process has them whole.
std::uint64_t memoryOf(pid_t pid, const ProcessFacts& facts) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("Pss:")) return std::strtoull(line.c_str() + 4, nullptr, 10) * 1024;
    return facts.residentPages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::set<pid_t> descendantsOf(pid_t top, const std::map<pid_t, ProcessFacts>& all) {
    std::set<pid_t> found{top};
    for (bool more = true; more;) {
        more = false;
        for (const auto& [pid, facts] : all)
            if (found.contains(facts.parent) && found.insert(pid).second) more = true;
    }
    return found;
}

std::uint64_t upSince(std::uint64_t startTicks) {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    const auto perSecond = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    const std::uint64_t started = startTicks * 1000 / perSecond;
    const std::uint64_t millis =
        static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
    return millis > started ? millis - started : 0;
}

void addProcesses(SandboxStats& stats) {
    const auto all = allProcesses();
    const auto init = all.find(stats.init);
    if (init == all.end()) return;
    stats.running = true;
    stats.wallMillis = upSince(init->second.start);
    const auto perSecond = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    for (const pid_t pid : descendantsOf(stats.init, all)) {
        const auto found = all.find(pid);
        if (found == all.end()) continue;
        stats.cpuMillis += found->second.ticks * 1000 / perSecond;
        if (pid == stats.init || found->second.isZombie) continue;  // pid 1 is ours
        stats.memoryBytes += memoryOf(pid, found->second);
        stats.tasks += found->second.threads;
        ++stats.processes;
    }
}

}  // namespace

SandboxStats Sandboxes::stats(std::int64_t sandbox) {
    const SandboxRecord record = inside_->living(sandbox);
    SandboxStats stats;
    stats.init = SandboxLock::command(inside_->layers().lockFile(sandbox)).value_or(0);
    if (stats.init != 0) addProcesses(stats);
    if (stats.running)
        stats.execution = inside_->read([&](const Records& records) -> std::optional<Execution> {
            const auto newest = records.sandboxes().executions(sandbox, 1);
            return newest.empty() || newest.front().state != ExecutionState::kRunning ? std::nullopt
                                                                                      : std::optional(newest.front());
        });
    const auto chain = inside_->read([&](const Records& records) { return records.sandboxes().chain(record.layer); });
    for (const LayerRecord& layer : chain) {
        if (!inside_->layers().isWhole(layer.id)) continue;  // nothing was ever written to it
        for (const FileDescriptor& upper : inside_->layers().open(layer.id, Layers::Access::kBeside).uppers())
            stats.diskBytes += allocatedBelow(upper.get());
    }
    return stats;
}

}  // namespace gradus
