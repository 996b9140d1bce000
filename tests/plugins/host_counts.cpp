#include "tests/plugins/host_counts.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "plugins/isolation/jail/descendants.h"
#include "plugins/isolation/jail/system.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr const char* kControllers[] = {"memory", "pids", "cpu", "cpuacct"};
const fs::path kHierarchies = "/sys/fs/cgroup";

std::set<std::string> mountIds() {
    std::ifstream table("/proc/self/mountinfo");
    std::set<std::string> ids;
    for (std::string line; std::getline(table, line);) ids.insert(line.substr(0, line.find(' ')));
    return ids;
}

// Those that were there when we began may go at any time: whoever removes a directory elsewhere takes our copy of what
// was mounted on it along.
std::set<std::string>& earlierMounts() {
    static std::set<std::string> ids;
    return ids;
}

// An ordinary user has no mounts here whatever happens.
std::size_t countNewMounts() {
    if (!isMachineRoot()) return 0;
    std::size_t count = 0;
    for (const std::string& id : mountIds()) count += earlierMounts().contains(id) ? 0 : 1;
    return count;
}

std::size_t countEntries(const fs::path& directory) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

// "4:memory:/a/b" -> /a/b
std::string ownPath(const std::string& controller) {
    for (const std::string& line : splitWords(readText("/proc/self/cgroup").value_or(""), "\n")) {
        const std::vector<std::string> parts = splitWords(line, ":");
        if (parts.size() == 3 && parts[1] == controller) return parts[2];
        if (controller.empty() && line.starts_with("0::")) return line.substr(3);
    }
    return "/";
}

fs::path ownGroup(const std::string& controller) {
    return kHierarchies / controller / fs::path(ownPath(controller)).relative_path();
}

fs::path unifiedTop() {
    return fs::exists(kHierarchies / "cgroup.controllers") ? kHierarchies : kHierarchies / "unified";
}

bool handsOnMemory(const fs::path& group) {
    const std::string given = readText(group / "cgroup.subtree_control").value_or("");
    return (" " + given).find(" memory") != std::string::npos;
}

// A group with processes cannot hand controllers on: the nearest one above ours that does; ours where none does.
fs::path unifiedPlace() {
    const fs::path own = unifiedTop() / fs::path(ownPath("")).relative_path();
    for (fs::path place = own; place != kHierarchies.parent_path(); place = place.parent_path())
        if (handsOnMemory(place)) return place;
    return fs::exists(own / "cgroup.procs") ? own : unifiedTop();
}

std::string ownName() { return "gradus-tests-" + std::to_string(::getpid()); }

std::size_t directoriesBelow(const fs::path& path) {
    std::error_code error;
    std::size_t count = 0;
    for (fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error);
         !error && it != fs::recursive_directory_iterator(); it.increment(error))
        if (it->is_directory(error)) ++count;
    return count;
}

void addNamespaces(const fs::path& process, std::set<std::string>& seen) {
    for (const char* place : {"ns", "fd"}) {
        std::error_code error;
        for (fs::directory_iterator it(process / place, error); !error && it != fs::directory_iterator();
             it.increment(error)) {
            const std::string what = fs::read_symlink(it->path(), error).native();
            if (what.find(":[") != std::string::npos && !what.starts_with("pipe:") && !what.starts_with("socket:"))
                seen.insert(what);
        }
        error.clear();
    }
}

std::size_t countNamespaces() {
    std::set<std::string> seen;
    addNamespaces("/proc/self", seen);
    for (const pid_t pid : descendantsOf(::getpid())) addNamespaces("/proc/" + std::to_string(pid), seen);
    return seen.size();
}

std::size_t countDirectories() {
    const std::string ours = "-" + std::to_string(::getpid()) + "-";
    std::size_t count = 0;
    for (const char* place : {"/tmp", "/var/tmp", "/dev/shm"}) {
        std::error_code error;
        for (fs::directory_iterator it(place, error); !error && it != fs::directory_iterator(); it.increment(error)) {
            const std::string name = it->path().filename();
            if (name.starts_with("gradus-") && name.find(ours) != std::string::npos) ++count;
        }
    }
    return count;
}

/// As root the tests live in a mount namespace and in control groups of their own, below which their jails make theirs:
/// what others do meanwhile must not look like ours.
class OwnPlace : public ::testing::Environment {
    void SetUp() override {
        if (!isMachineRoot()) return;
        ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
        ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
        earlierMounts() = mountIds();
        for (const char* controller : kControllers)
            if (fs::exists(kHierarchies / controller / "tasks")) enterOld(controller);
        if (fs::exists(unifiedTop() / "cgroup.controllers")) enterUnified();
    }
    void TearDown() override {
        for (auto place = entered_.rbegin(); place != entered_.rend(); ++place) {
            std::ofstream(place->left / "cgroup.procs") << "0" << std::flush;
            for (const fs::path& directory : place->made) EXPECT_EQ(::rmdir(directory.c_str()), 0) << directory;
        }
    }

    struct Place {
        fs::path left;
        std::vector<fs::path> made;  ///< innermost first
    };
    void enterOld(const std::string& controller) {
        const fs::path here = ownGroup(controller);
        const fs::path left = fs::exists(here / "cgroup.procs") ? here : kHierarchies / controller;
        enter({left, {left / ownName()}});
    }
    // Here a group with processes cannot hand controllers on: we live one level further down.
    void enterUnified() {
        const fs::path group = unifiedPlace() / ownName();
        const fs::path left = unifiedTop() / fs::path(ownPath("")).relative_path();
        enter({fs::exists(left / "cgroup.procs") ? left : unifiedTop(), {group / "self", group}});
    }
    void enter(const Place& place) {
        std::error_code error;
        for (auto made = place.made.rbegin(); made != place.made.rend(); ++made) fs::create_directory(*made, error);
        if (place.made.size() > 1 && handsOnMemory(place.made.back().parent_path()))
            for (const char* controller : {"+memory", "+pids", "+cpu"})
                writeText(place.made.back() / "cgroup.subtree_control", controller);
        if (writeText(place.made.front() / "cgroup.procs", "0") == 0) {
            entered_.push_back(place);
            return;
        }
        for (const fs::path& directory : place.made) ::rmdir(directory.c_str());
    }

    std::vector<Place> entered_;
};
[[maybe_unused]] const ::testing::Environment* const kOwnPlace = ::testing::AddGlobalTestEnvironment(new OwnPlace);

}  // namespace

Enforcer groupEnforcer() {
    const bool old = fs::exists(kHierarchies / "memory/tasks");
    if (isMachineRoot()) return old ? Enforcer::kCgroupV1 : Enforcer::kCgroupV2;
    // What systemd hands over to a user: the directory, and the file by which processes come and go.
    const fs::path place = unifiedPlace();
    const bool ours = ::access(place.c_str(), W_OK) == 0 && ::access((place / "cgroup.procs").c_str(), W_OK) == 0;
    return ours && handsOnMemory(place) ? Enforcer::kCgroupV2 : Enforcer::kNone;
}

fs::path groupsPlace(const std::string& controller) {
    return groupEnforcer() == Enforcer::kCgroupV1 ? ownGroup(controller) : unifiedPlace();
}

namespace {

// A user's part of the hierarchy is shared with all that the user runs: there only the names that jails give count.
std::size_t countGroups() {
    if (groupEnforcer() == Enforcer::kNone) return 0;
    if (!isMachineRoot()) {
        const fs::directory_iterator entries(unifiedPlace());
        return static_cast<std::size_t>(std::count_if(begin(entries), end(entries), [](const fs::directory_entry& e) {
            return e.path().filename().native().starts_with("gradus-");
        }));
    }
    std::size_t count = 0;
    for (const char* controller : kControllers) count += directoriesBelow(ownGroup(controller));
    return count + directoriesBelow(unifiedTop() / fs::path(ownPath("")).parent_path().relative_path());
}

}  // namespace

HostCounts countHost() {
    HostCounts counts;
    counts.processes = descendantsOf(::getpid()).size();
    counts.mounts = countNewMounts();
    counts.cgroups = countGroups();
    counts.namespaces = countNamespaces();
    counts.directories = countDirectories();
    counts.descriptors = countEntries("/proc/self/fd");
    return counts;
}

void expectNothingLeft(const HostCounts& before) {
    const HostCounts after = countHost();
    EXPECT_EQ(after.processes, before.processes) << "a process was left behind";
    EXPECT_EQ(after.mounts, before.mounts) << "a mount was left behind";
    EXPECT_EQ(after.cgroups, before.cgroups) << "a control group was left behind";
    EXPECT_EQ(after.namespaces, before.namespaces) << "a namespace was left behind";
    EXPECT_EQ(after.directories, before.directories) << "a directory was left behind";
    EXPECT_EQ(after.descriptors, before.descriptors) << "a descriptor was left behind";
}

}  // namespace gradus
