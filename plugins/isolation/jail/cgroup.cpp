#include "plugins/isolation/jail/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace gradus {

namespace {

constexpr std::uint64_t kPeriodMicros = 100'000;
constexpr std::string_view kPrefix = "gradus-";

bool contains(const std::vector<std::string>& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

// "4:memory:/a/b" -> /a/b for "memory"; "0::/a" for the unified hierarchy's empty name.
std::optional<std::string> ownPath(const std::vector<std::string>& lines, std::string_view controller) {
    for (const std::string& line : lines) {
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string names = line.substr(first + 1, second - first - 1);
        const bool match = controller.empty() ? names.empty() : contains(splitWords(names, ","), controller);
        if (!match) continue;
        const std::string path = line.substr(second + 1);
        return path == "/" ? std::string() : path;
    }
    return std::nullopt;
}

std::string parentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string quota(std::uint64_t percent) {
    return std::to_string(std::max<std::uint64_t>(percent * kPeriodMicros / 100, 1000));
}

}  // namespace

int KernelCgroupFiles::makeDirectory(const std::string& path) { return ::mkdir(path.c_str(), 0755) == 0 ? 0 : errno; }

int KernelCgroupFiles::removeDirectory(const std::string& path) { return ::rmdir(path.c_str()) == 0 ? 0 : errno; }

int KernelCgroupFiles::write(const std::string& path, std::string_view text) { return writeText(path, text); }

int KernelCgroupFiles::read(const std::string& path, std::string& text) {
    std::optional<std::string> got = readText(path);
    if (!got) return errno;
    text = std::move(*got);
    return 0;
}

int KernelCgroupFiles::list(const std::string& path, std::vector<std::string>& names) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
    if (!directory) return errno;
    while (const dirent* entry = ::readdir(directory.get())) names.emplace_back(entry->d_name);
    return 0;
}

bool KernelCgroupFiles::exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

int KernelCgroupFiles::opened(const std::string& path, int flags) {
    Descriptor& file = open_[{path, flags}];
    if (!file) file = openPath(AT_FDCWD, path, flags);
    return file.get();
}

int KernelCgroupFiles::writeAgain(const std::string& path, std::string_view text) {
    const int file = opened(path, O_WRONLY);
    return file >= 0 && ::pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) ? 0 : errno;
}

int KernelCgroupFiles::readAgain(const std::string& path, std::string& text) {
    const int file = opened(path, O_RDONLY);
    char buffer[8192];
    const ssize_t got = file < 0 ? -1 : ::pread(file, buffer, sizeof buffer, 0);
    if (got < 0) return errno;
    text.assign(buffer, static_cast<std::size_t>(got));
    return 0;
}

Cgroups::Cgroups(CgroupFiles& files, std::string root, std::string_view ownCgroups, std::string name)
    : files_(files), root_(std::move(root)), own_(splitWords(ownCgroups, "\n")), name_(std::move(name)) {}

void Cgroups::create(const Limits& limits, std::uint64_t scratchBytes) {
    const bool memory = limits[LimitName::kMemory].has_value();
    const bool tasks = limits[LimitName::kTasks].has_value();
    const bool share = limits[LimitName::kCpuShare].has_value();
    const bool time = limits[LimitName::kCpuTime].has_value();
    if (memory) createOld("memory", limits, scratchBytes);
    if (tasks) createOld("pids", limits, scratchBytes);
    if (share) createOld("cpu", limits, scratchBytes);
    if (time || share) createOld("cpuacct", limits, scratchBytes);
    const auto missing = [](bool wanted, Enforcer by) { return wanted && by == Enforcer::kNone; };
    if (missing(memory, memory_) || missing(tasks, tasks_) || missing(share, share_) || missing(time, time_))
        createUnified(limits, scratchBytes);
}

Enforcer Cgroups::enforcer(LimitName name) const {
    switch (name) {
        case LimitName::kMemory:
            return memory_;
        case LimitName::kTasks:
            return tasks_;
        case LimitName::kCpuShare:
            return share_;
        case LimitName::kCpuTime:
            return time_;
        default:
            return Enforcer::kNone;
    }
}

bool Cgroups::set(const std::string& path, const std::string& value) {
    const int error = files_.write(path, value);
    if (error == 0) return true;
    reason_ = "cannot write " + path + " (errno " + std::to_string(error) + ")";
    return false;
}

void Cgroups::createOld(const std::string& controller, const Limits& limits, std::uint64_t scratchBytes) {
    const std::string hierarchy = root_ + "/" + controller;
    const std::optional<std::string> own = ownPath(own_, controller);
    if (!own || !files_.exists(hierarchy + "/tasks")) return;
    // Seen from inside a container our own path may not exist below the mount; its top is then our place.
    const std::string parent = files_.exists(hierarchy + *own + "/tasks") ? hierarchy + *own : hierarchy;
    sweep(parent);
    const std::string directory = parent + "/" + name_;
    // Controllers may share a hierarchy (cpu,cpuacct): then the group is there already, and ours.
    const int error = files_.makeDirectory(directory);
    if (error != 0 && (error != EEXIST || old_.empty())) {
        reason_ = "cannot make " + directory + " (errno " + std::to_string(error) + ")";
        return;
    }
    old_.push_back({controller, directory, directory});
    if (controller == "memory") {
        const std::string bytes = std::to_string(limits[LimitName::kMemory]->value + scratchBytes);
        if (!set(directory + "/memory.limit_in_bytes", bytes)) return;
        // Where swap is accounted it must not be a way around the limit.
        const std::string swap = directory + "/memory.memsw.limit_in_bytes";
        if (files_.exists(swap) && !set(swap, bytes)) return;
        memory_ = Enforcer::kCgroupV1;
    } else if (controller == "pids") {
        // One more than asked for: pid 1 of the sandbox is ours, not the command's.
        if (set(directory + "/pids.max", std::to_string(limits[LimitName::kTasks]->value + 1)))
            tasks_ = Enforcer::kCgroupV1;
    } else if (controller == "cpu") {
        if (set(directory + "/cpu.cfs_period_us", std::to_string(kPeriodMicros)) &&
            set(directory + "/cpu.cfs_quota_us", quota(limits[LimitName::kCpuShare]->value)))
            share_ = Enforcer::kCgroupV1;
    } else if (limits[LimitName::kCpuTime]) {
        time_ = Enforcer::kCgroupV1;
    }
}

void Cgroups::createUnified(const Limits& limits, std::uint64_t scratchBytes) {
    const std::string top = files_.exists(root_ + "/cgroup.controllers") ? root_ : root_ + "/unified";
    const std::optional<std::string> own = ownPath(own_, "");
    if (!own || !files_.exists(top + "/cgroup.controllers")) {
        if (reason_.empty()) reason_ = "no control group hierarchy with the needed controllers at " + root_;
        return;
    }
    std::vector<std::string> wanted;
    if (limits[LimitName::kMemory] && memory_ == Enforcer::kNone) wanted.emplace_back("memory");
    if (limits[LimitName::kTasks] && tasks_ == Enforcer::kNone) wanted.emplace_back("pids");
    if (limits[LimitName::kCpuShare] && share_ == Enforcer::kNone) wanted.emplace_back("cpu");
    // Without any controller a group still counts CPU time.
    const bool counts = limits[LimitName::kCpuTime] && time_ == Enforcer::kNone;
    if (!findPlace(top, top + *own, counts ? 0 : 1, wanted)) return;
    const auto holds = [&](const char* controller) { return contains(wanted, controller); };
    if (holds("memory")) {
        const std::string bytes = std::to_string(limits[LimitName::kMemory]->value + scratchBytes);
        // Where swap is accounted it must not be a way around the limit.
        const std::string swap = unified_ + "/memory.swap.max";
        if (set(unified_ + "/memory.max", bytes) && (!files_.exists(swap) || set(swap, "0")))
            memory_ = Enforcer::kCgroupV2;
        files_.write(unified_ + "/memory.oom.group", "1");
    }
    if (holds("pids") && set(unified_ + "/pids.max", std::to_string(limits[LimitName::kTasks]->value + 1)))
        tasks_ = Enforcer::kCgroupV2;
    if (holds("cpu") &&
        set(unified_ + "/cpu.max", quota(limits[LimitName::kCpuShare]->value) + " " + std::to_string(kPeriodMicros)))
        share_ = Enforcer::kCgroupV2;
    if (limits[LimitName::kCpuTime] && time_ == Enforcer::kNone && keyed(unified_ + "/cpu.stat", "usage_usec"))
        time_ = Enforcer::kCgroupV2;
}

// A group with processes cannot hand controllers on, so the place is the nearest ancestor that can. Where none has all
// of them, it is done without some, the last one first: a user is often given memory and pids but not cpu.
bool Cgroups::findPlace(const std::string& top, const std::string& own, std::size_t least,
                        std::vector<std::string>& wanted) {
    std::string missing;
    std::string reason;
    while (true) {
        for (std::string parent = own; parent.size() >= top.size(); parent = parentOf(parent)) {
            if (!makeUnifiedBelow(parent, wanted)) continue;
            if (!missing.empty()) reason_ = "no group that we may use has" + missing;
            return true;
        }
        // What it fell short of is what was asked for, not what was left of that.
        if (missing.empty()) reason = reason_;
        if (wanted.size() <= least) break;
        missing += (missing.empty() ? " the controller " : " or ") + wanted.back();
        wanted.pop_back();
    }
    reason_ = reason;
    return false;
}

bool Cgroups::makeUnifiedBelow(const std::string& parent, const std::vector<std::string>& wanted) {
    if (!wanted.empty() && !handsOn(parent, wanted)) return false;
    sweep(parent);
    const std::string directory = parent + "/" + name_;
    if (const int error = files_.makeDirectory(directory)) {
        reason_ = "cannot make " + directory + " (errno " + std::to_string(error) + ")";
        return false;
    }
    std::string type;
    if (files_.read(directory + "/cgroup.type", type) == 0 &&
        splitWords(type, "\n") != std::vector<std::string>{"domain"}) {
        reason_ = parent + " is for threads: no process can be in a group below it";
        files_.removeDirectory(directory);
        return false;
    }
    unified_ = directory;
    unifiedAccess_ = directory;
    return true;
}

// The kernel lets a group with processes in it, and only the root of all is exempt, hand on some controllers all the
// same (pids, cpu): it then turns the group into one for threads, below which no process can be.
bool Cgroups::handsOn(const std::string& parent, const std::vector<std::string>& wanted) {
    std::string processes;
    if (files_.exists(parent + "/cgroup.type") &&
        (files_.read(parent + "/cgroup.procs", processes) != 0 || !processes.empty())) {
        reason_ = parent + " has processes in it, so it cannot hand on controllers";
        return false;
    }
    const std::string control = parent + "/cgroup.subtree_control";
    for (const std::string& controller : wanted) files_.write(control, "+" + controller);
    std::string text;
    if (const int error = files_.read(control, text)) {
        reason_ = "cannot read " + control + " (errno " + std::to_string(error) + ")";
        return false;
    }
    const std::vector<std::string> given = splitWords(text, " \n");
    for (const std::string& controller : wanted)
        if (!contains(given, controller)) {
            reason_ = "the controller " + controller + " is not available below " + parent;
            return false;
        }
    return true;
}

std::string Cgroups::oldDirectory(std::string_view controller) const {
    for (const Old& old : old_)
        if (old.controller == controller) return old.access;
    return {};
}

std::string Cgroups::tasksDirectory() const {
    return tasks_ == Enforcer::kCgroupV1 ? oldDirectory("pids") : unifiedAccess_;
}

std::vector<std::string> Cgroups::taskFiles() const {
    std::vector<std::string> paths;
    for (const Old& old : old_) paths.push_back(old.access + "/tasks");
    return paths;
}

std::string Cgroups::oldMemoryDirectory() const {
    return memory_ == Enforcer::kCgroupV1 ? oldDirectory("memory") : std::string();
}

std::optional<std::uint64_t> Cgroups::number(const std::string& path) const {
    std::string text;
    if (files_.readAgain(path, text) != 0) return std::nullopt;
    return parseNumber(text);
}

std::optional<std::uint64_t> Cgroups::keyed(const std::string& path, std::string_view key) const {
    std::string text;
    if (files_.readAgain(path, text) != 0) return std::nullopt;
    return keyedNumber(text, key);
}

void Cgroups::holdOpen() {
    files_.letGo();  // known by other paths from here on
    const auto hold = [this](const std::string& directory, std::string& access) {
        held_.push_back(openPath(AT_FDCWD, directory, O_PATH | O_DIRECTORY));
        if (held_.back()) access = descriptorPath(held_.back().get());
    };
    for (Old& old : old_) hold(old.directory, old.access);
    if (!unified_.empty()) hold(unified_, unifiedAccess_);
}

CgroupCounters Cgroups::counters() const {
    CgroupCounters counters;
    if (memory_ == Enforcer::kCgroupV1) {
        const std::string directory = oldDirectory("memory");
        counters.oomKills = keyed(directory + "/memory.oom_control", "oom_kill").value_or(0);
        counters.memoryPeak = number(directory + "/memory.max_usage_in_bytes");
    } else if (memory_ == Enforcer::kCgroupV2) {
        counters.oomKills = keyed(unifiedAccess_ + "/memory.events", "oom_kill").value_or(0);
        counters.memoryPeak = number(unifiedAccess_ + "/memory.peak");
        counters.memoryNow = number(unifiedAccess_ + "/memory.current");
    }
    if (tasks_ != Enforcer::kNone) {
        const std::string directory = tasksDirectory();
        counters.taskRefusals = keyed(directory + "/pids.events", "max").value_or(0);
        counters.taskPeak = number(directory + "/pids.peak");
    }
    // A peak that did not rise is an earlier run's, or a sandbox's that had this group before.
    if (counters.memoryPeak == memoryFloor_) counters.memoryPeak.reset();
    if (counters.taskPeak == taskFloor_) counters.taskPeak.reset();
    const std::string accounting = oldDirectory("cpuacct");
    if (!accounting.empty()) {
        counters.cpuNanos = number(accounting + "/cpuacct.usage");
    } else if (!unifiedAccess_.empty()) {
        if (const auto micros = keyed(unifiedAccess_ + "/cpu.stat", "usage_usec")) counters.cpuNanos = *micros * 1000;
    }
    return counters;
}

void Cgroups::resetPeaks() {
    const std::string memory = oldDirectory("memory");
    if (!memory.empty()) files_.writeAgain(memory + "/memory.max_usage_in_bytes", "0");
    memoryFloor_ = memory_ == Enforcer::kCgroupV2 ? number(unifiedAccess_ + "/memory.peak").value_or(0) : 0;
    taskFloor_ = tasks_ == Enforcer::kNone ? 0 : number(tasksDirectory() + "/pids.peak").value_or(0);
}

bool Cgroups::remove() {
    held_.clear();
    files_.letGo();
    std::erase_if(old_, [&](const Old& old) {
        const int error = files_.removeDirectory(old.directory);
        return error == 0 || error == ENOENT;
    });
    if (!unified_.empty() && files_.removeDirectory(unified_) == 0) unified_.clear();
    return old_.empty() && unified_.empty();
}

// What a jail that was killed has left: its processes died with it, so its groups are empty and nobody's.
void Cgroups::sweep(const std::string& parent) {
    std::vector<std::string> names;
    if (files_.list(parent, names) != 0) return;
    for (const std::string& name : names)
        if (isOrphan(name)) files_.removeDirectory(parent + "/" + name);
}

std::string cgroupName(pid_t pid, std::uint64_t start, std::uint64_t serial) {
    return std::string(kPrefix) + std::to_string(pid) + "-" + std::to_string(start) + "-" + std::to_string(serial);
}

bool isOrphan(std::string_view name) {
    if (!name.starts_with(kPrefix)) return false;
    const std::vector<std::string> parts = splitWords(name.substr(kPrefix.size()), "-");
    if (parts.size() != 3) return false;
    const std::optional<std::uint64_t> pid = parseNumber(parts[0]);
    const std::optional<std::uint64_t> start = parseNumber(parts[1]);
    if (!pid || !start || *pid > 1U << 30) return false;
    return startTime(static_cast<pid_t>(*pid)) != start;
}

}  // namespace gradus
