#include "tests/plugins/sandbox_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "plugins/isolation/process.h"
#include "store/file.h"
#include "store/model/digest.h"
#include "store/privilege.h"
#include "tests/plugins/patience.h"
#include "tests/support/reach.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::string describeEntry(const fs::path& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return "gone";
    std::string text = fmt::format("{:o} {}:{} {}", info.st_mode, info.st_uid, info.st_gid, info.st_nlink);
    if (S_ISREG(info.st_mode)) text += " " + sha256(readSmallFile(path, 1U << 30, "a file")).hex();
    if (S_ISLNK(info.st_mode)) text += " " + fs::read_symlink(path).native();
    return text;
}

}  // namespace

HostProject::HostProject(const Identity& owner, const fs::path& parent) : owner_(owner) {
    std::string name = (parent / fmt::format("gradus-test-{}-XXXXXX", ::getpid())).native();
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

bool isProcessBackend() {
    const char* name = std::getenv("GRADUS_TEST_BACKEND");
    return name != nullptr && std::string_view(name) == "process";
}

bool isEmulated() { return std::getenv("GRADUS_TEST_EMULATED") != nullptr; }

Milliseconds jailPatience() { return Milliseconds(patiently(30'000)); }

std::string guestProgram() { return isProcessBackend() ? GRADUS_GUEST : "/run/guest"; }

std::unique_ptr<IsolationBackend> makeBackend(const Clock& clock) {
    if (isProcessBackend()) return std::make_unique<ProcessBackend>(GRADUS_JAIL, clock);
    const char* jail = std::getenv("GRADUS_TEST_JAIL");
    NamespacesConfig config{jail != nullptr ? jail : GRADUS_JAIL, "/sys/fs/cgroup", jailPatience(), 0};
    if (const char* pooled = std::getenv("GRADUS_TEST_POOL"))
        config.pooled = static_cast<std::size_t>(std::atoi(pooled));
    return std::make_unique<NamespacesBackend>(config, clock);
}

void SandboxTest::TearDown() {
    backend_.reset();  // and what it keeps for later
    expectNothingLeft(before_);
}

bool SandboxTest::isRoot() { return isMachineRoot(); }

Identity SandboxTest::someone() { return isRoot() ? Identity{41234, 41234} : Identity{::geteuid(), ::getegid()}; }

void SandboxTest::requireReachable() {
    if (isRoot() && !test::canOthersRun(GRADUS_GUEST)) GTEST_SKIP() << "only root can reach " << GRADUS_GUEST;
}

Workspace SandboxTest::workspaceOf(const HostProject& project) {
    Workspace workspace;
    if (isProcessBackend()) return workspace;
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
    command.arguments = {guestProgram()};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    return command;
}

namespace {

Limits withDeadline(Limits limits) {
    if (!limits[LimitName::kWallTime]) limits[LimitName::kWallTime] = Limit{patiently(30'000), true};
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
    // A wall time of seconds is a deadline that should not strike.
    for (const auto& [name, value] : values)
        limits[name] = Limit{name == LimitName::kWallTime && value >= 4000 ? patiently(value) : value, true};
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
