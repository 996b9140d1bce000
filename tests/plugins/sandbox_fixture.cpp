#include "tests/plugins/sandbox_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "plugins/isolation/jail/system.h"
#include "store/file.h"
#include "store/model/digest.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::size_t countLines(const fs::path& path) {
    std::ifstream file(path);
    return static_cast<std::size_t>(
        std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n'));
}

std::map<pid_t, pid_t> parents() {
    std::map<pid_t, pid_t> parentOf;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        const std::string text = readText(entry.path() / "stat").value_or("");  // it may be gone by now
        const std::size_t bracket = text.rfind(')');
        if (bracket == std::string::npos) continue;
        parentOf[std::stoi(name)] = std::stoi(text.substr(bracket + 4));
    }
    return parentOf;
}

std::size_t countDescendants() {
    const std::map<pid_t, pid_t> parentOf = parents();
    std::set<pid_t> ours = {::getpid()};
    for (bool grown = true; grown;) {
        grown = false;
        for (const auto& [pid, parent] : parentOf)
            if (ours.contains(parent) && ours.insert(pid).second) grown = true;
    }
    return ours.size() - 1;
}

// Only those this process's jails made: their pid is in the name, and other test programs may run beside this one.
std::size_t countCgroups() {
    std::size_t count = 0;
    std::error_code error;
    for (const char* controller : {"memory", "pids", "cpu", "cpuacct", "unified", "."})
        for (fs::recursive_directory_iterator it(fs::path("/sys/fs/cgroup") / controller,
                                                 fs::directory_options::skip_permission_denied, error);
             !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
            if (it.depth() > 3) it.disable_recursion_pending();
            const std::string name = it->path().filename();
            if (!name.starts_with("gradus-")) continue;
            const std::map<pid_t, pid_t> parentOf = parents();
            const auto owner = parentOf.find(std::atoi(name.c_str() + 7));
            if (owner == parentOf.end() || owner->second == ::getpid()) ++count;
        }
    return count;
}

std::string describeEntry(const fs::path& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return "gone";
    std::string text = fmt::format("{:o} {}:{} {}", info.st_mode, info.st_uid, info.st_gid, info.st_nlink);
    if (S_ISREG(info.st_mode)) text += " " + sha256(readSmallFile(path, 1U << 30, "a file")).hex();
    if (S_ISLNK(info.st_mode)) text += " " + fs::read_symlink(path).native();
    return text;
}

// As root the tests live in a mount namespace of their own: what others mount meanwhile must not look like ours.
class OwnMounts : public ::testing::Environment {
    void SetUp() override {
        if (::geteuid() != 0) return;
        ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
        ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    }
};
[[maybe_unused]] const ::testing::Environment* const kOwnMounts = ::testing::AddGlobalTestEnvironment(new OwnMounts);

}  // namespace

HostCounts countHost() {
    HostCounts counts;
    counts.processes = countDescendants();
    counts.mounts = countLines("/proc/self/mountinfo");
    counts.cgroups = countCgroups();
    counts.descriptors =
        static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
    return counts;
}

void expectNothingLeft(const HostCounts& before) {
    HostCounts after = countHost();
    // A jail that another test killed may be dead and not yet cleaned up after.
    for (int i = 0; i < 500 && after.cgroups > before.cgroups; ++i) {
        ::usleep(10'000);
        after = countHost();
    }
    EXPECT_EQ(after.processes, before.processes) << "a process was left behind";
    EXPECT_EQ(after.mounts, before.mounts) << "a mount was left behind";
    // Fewer is no fault: those of another test's jail that was killed count here until somebody removes them.
    EXPECT_LE(after.cgroups, before.cgroups) << "a control group was left behind";
    EXPECT_EQ(after.descriptors, before.descriptors) << "a descriptor was left behind";
}

HostProject::HostProject(const Identity& owner, const fs::path& parent) : owner_(owner) {
    std::string name = (parent / "gradus-test-XXXXXX").native();
    if (::mkdtemp(name.data()) == nullptr)
        throw Error(ErrorCode::kInfrastructure, "no directory in {}", parent.native());
    path_ = name;
    ::chmod(path_.c_str(), 0755);
    EXPECT_EQ(::chown(path_.c_str(), owner.uid, owner.gid), 0);
    write("README.md", "hello\n");
    write("src/main.c", "int main(void) { return 0; }\n");
    write("src/util.c", "\n");
}

HostProject::~HostProject() {
    std::error_code ignored;
    // An overlay leaves a directory of mode 0 in its work directory, which an ordinary user must open up to remove.
    for (fs::recursive_directory_iterator it(path_, ignored); it != fs::recursive_directory_iterator();
         it.increment(ignored))
        if (it->is_directory(ignored) && !it->is_symlink(ignored))
            fs::permissions(it->path(), fs::perms::owner_all, fs::perm_options::add, ignored);
    fs::remove_all(path_, ignored);
}

void HostProject::write(const std::string& name, const std::string& text) const {
    const fs::path file = path_ / name;
    for (fs::path directory = path_; const fs::path& part : fs::path(name).parent_path()) {
        directory /= part;
        const bool made = ::mkdir(directory.c_str(), 0755) == 0;
        EXPECT_TRUE(!made || ::chown(directory.c_str(), owner_.uid, owner_.gid) == 0);
    }
    std::ofstream(file) << text;
    EXPECT_EQ(::chown(file.c_str(), owner_.uid, owner_.gid), 0);
}

std::string HostProject::read(const std::string& name) const { return readSmallFile(path_ / name, 1U << 20, "a file"); }

std::string HostProject::fingerprint() const {
    std::map<std::string, std::string> entries;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path_))
        entries[entry.path().native()] = describeEntry(entry.path());
    std::string text = describeEntry(path_) + "\n";
    for (const auto& [path, what] : entries) text += path + " " + what + "\n";
    return text;
}

std::unique_ptr<IsolationBackend> makeBackend(const Clock& clock) {
    const char* jail = std::getenv("GRADUS_TEST_JAIL");
    NamespacesConfig config{jail != nullptr ? jail : GRADUS_JAIL, "/sys/fs/cgroup", Milliseconds(30'000), 0};
    if (const char* pooled = std::getenv("GRADUS_TEST_POOL"))
        config.pooled = static_cast<std::size_t>(std::atoi(pooled));
    return std::make_unique<NamespacesBackend>(config, clock);
}

void SandboxTest::TearDown() {
    backend_.reset();  // and what it keeps for later
    expectNothingLeft(before_);
}

bool SandboxTest::isRoot() { return ::geteuid() == 0; }

Identity SandboxTest::someone() { return isRoot() ? Identity{41234, 41234} : Identity{::geteuid(), ::getegid()}; }

Workspace SandboxTest::workspaceOf(const HostProject& project) {
    Workspace workspace;
    Overlay overlay;
    overlay.target = project.path();
    overlay.lowers = {project.path()};
    workspace.overlays.push_back(overlay);
    workspace.binds.push_back({GRADUS_GUEST, "/run/guest", false});
    return workspace;
}

std::unique_ptr<Sandbox> SandboxTest::open(const HostProject& project, const Limits& limits) {
    if (std::getenv("GRADUS_TEST_EXPECT") != nullptr) backend().expect();
    return backend().open(workspaceOf(project), limits, Network::kNone, someone());
}

Command SandboxTest::shell(const std::string& script, const fs::path& directory) {
    Command command;
    command.arguments = {"/bin/sh", "-c", script};
    command.environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
    command.directory = directory;
    return command;
}

Command SandboxTest::guest(const std::vector<std::string>& arguments) {
    Command command;
    command.arguments = {"/run/guest"};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    return command;
}

namespace {

Limits withDeadline(Limits limits) {
    if (!limits[LimitName::kWallTime]) limits[LimitName::kWallTime] = Limit{30'000, true};
    return limits;
}

}  // namespace

Outcome SandboxTest::runShell(const std::string& script, const Limits& limits) {
    const HostProject project(someone());
    return open(project, withDeadline(limits))->run(shell(script, project.path()));
}

Outcome SandboxTest::runGuest(const std::vector<std::string>& arguments, const Limits& limits) {
    const HostProject project(someone());
    Command command = guest(arguments);
    command.directory = project.path();
    return open(project, withDeadline(limits))->run(command);
}

Limits limitsOf(std::initializer_list<std::pair<LimitName, std::uint64_t>> values) {
    Limits limits;
    for (const auto& [name, value] : values) limits[name] = Limit{value, true};
    return limits;
}

const LimitReport& reportOf(const Outcome& outcome, LimitName name) {
    for (const LimitReport& report : outcome.limits)
        if (report.name == name) return report;
    throw Error(ErrorCode::kNotFound, "no report for {}", limitName(name));
}

std::string describe(const Outcome& outcome) {
    return fmt::format("verdict {} exit {} signal {} failure {}\nout: {}\nerr: {}", verdictName(outcome.verdict),
                       outcome.exitCode.value_or(-1), outcome.signal.value_or(-1),
                       outcome.failure ? outcome.failure->text() : "none", outcome.out.text(), outcome.err.text());
}

}  // namespace gradus
