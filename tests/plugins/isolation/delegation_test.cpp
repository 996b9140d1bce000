// How an ordinary user comes by control groups: against a hierarchy made of a map and a manager made up for the test,
// and against a bus that is a socket of the test's own.

#include "plugins/isolation/jail/delegation.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "plugins/isolation/namespaces.h"
#include "store/file.h"
#include "tests/plugins/isolation/fake_cgroups.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

constexpr const char* kManagers = "/user.slice/user-7.slice/user@7.service/app.slice";
constexpr const char* kScope = "gradus-1-2-0.scope";

/// A machine as systemd leaves it: the session is root's, the manager's part is the user's.
class UserMachine : public FakeCgroups {
  public:
    UserMachine() {
        addUnified("/cg", "cpu memory pids");
        handOn("/cg");
        for (const std::string path : {"/user.slice", "/user.slice/user-7.slice"}) {
            addGroup("/cg" + path);
            handOn("/cg" + path);
            close("/cg" + path);
        }
        addGroup("/cg/user.slice/user-7.slice/session-1.scope");
        close("/cg/user.slice/user-7.slice/session-1.scope");
        close("/cg");
        addGroup("/cg/user.slice/user-7.slice/user@7.service");
        handOn("/cg/user.slice/user-7.slice/user@7.service");
        addGroup(std::string("/cg") + kManagers);
        handOn(std::string("/cg") + kManagers);
        put("/proc/self/cgroup", "0::/user.slice/user-7.slice/session-1.scope\n");
    }
    void handOn(const std::string& path) {
        for (const char* controller : {"+cpu", "+memory", "+pids"}) write(path + "/cgroup.subtree_control", controller);
    }

  private:
    void close(const std::string& path) {
        forbid(path, EACCES);
        forbid(path + "/cgroup.subtree_control", EACCES);
        forbid(path + "/cgroup.procs", EACCES);
    }
};

class FakeManager final : public UserManager {
  public:
    explicit FakeManager(UserMachine& machine) : machine_(machine) {}
    Attempt startScope(const std::string& scope, pid_t pid) override {
        asked += scope + " " + std::to_string(pid) + "\n";
        if (refuses) return failure("user scope", "StartTransientUnit was refused: no", 0);
        if (forgets) return std::nullopt;
        const std::string place = std::string(kManagers) + "/" + scope;
        machine_.addGroup("/cg" + place);
        machine_.put("/proc/self/cgroup", "0::" + place + "\n");
        return std::nullopt;
    }

    std::string asked;
    bool refuses = false;
    bool forgets = false;

  private:
    UserMachine& machine_;
};

const Limits kAll = limitsOf(
    {{LimitName::kMemory, 1000}, {LimitName::kTasks, 10}, {LimitName::kCpuShare, 150}, {LimitName::kCpuTime, 500}});
constexpr LimitName kHeld[] = {LimitName::kMemory, LimitName::kTasks, LimitName::kCpuShare, LimitName::kCpuTime};

TEST(Delegation, AScopeOfTheUsersSystemdHoldsEveryLimit) {
    GRADUS_CASES("R13");
    UserMachine machine;
    FakeManager manager(machine);
    std::string own;
    ASSERT_FALSE(enterDelegatedScope({machine, manager, "/cg"}, 1, 2, own));
    EXPECT_EQ(manager.asked, "gradus-1-2-0.scope 1\n");
    const std::string scope = std::string("/cg") + kManagers + "/" + kScope;
    EXPECT_EQ(machine.at(scope + "/gradus-1-2-1/cgroup.procs"), "0") << "out of the way of the scope's controllers";
    Cgroups groups(machine, "/cg", own, "gradus-1-2-0");
    groups.create(kAll, 0);
    for (const LimitName name : kHeld) EXPECT_EQ(groups.enforcer(name), Enforcer::kCgroupV2) << limitName(name);
    EXPECT_EQ(groups.unifiedDirectory(), scope + "/gradus-1-2-0");
    EXPECT_EQ(machine.at(scope + "/gradus-1-2-0/memory.max"), "1000");
}

// A second plan of the same jail: by then its own group is the one aside, which has a process in it.
TEST(Delegation, GroupsAreMadeAnewBesideTheProcessThatWasMovedAside) {
    GRADUS_CASES("R13");
    UserMachine machine;
    FakeManager manager(machine);
    std::string own;
    ASSERT_FALSE(enterDelegatedScope({machine, manager, "/cg"}, 1, 2, own));
    const std::string scope = std::string("/cg") + kManagers + "/" + kScope;
    machine.forbid(scope + "/gradus-1-2-1/cgroup.subtree_control", EBUSY);
    Cgroups groups(machine, "/cg", "0::" + std::string(kManagers) + "/" + kScope + "/gradus-1-2-1\n", "gradus-1-2-0");
    groups.create(kAll, 0);
    EXPECT_EQ(groups.unifiedDirectory(), scope + "/gradus-1-2-0");
}

TEST(Delegation, ARefusalIsAReasonAndNothingIsTouched) {
    GRADUS_CASES("R13");
    UserMachine machine;
    FakeManager manager(machine);
    manager.refuses = true;
    const std::size_t before = machine.groups();
    std::string own;
    const Attempt failed = enterDelegatedScope({machine, manager, "/cg"}, 1, 2, own);
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->detail, "StartTransientUnit was refused: no");
    EXPECT_EQ(machine.groups(), before);
}

TEST(Delegation, AManagerThatDoesNotKeepItsWordIsNotWaitedForForever) {
    UserMachine machine;
    FakeManager manager(machine);
    manager.forgets = true;
    std::string own;
    const Attempt failed = enterDelegatedScope({machine, manager, "/cg", 3}, 1, 2, own);
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->error, ETIMEDOUT);
}

TEST(Delegation, WithoutAUnifiedHierarchyNobodyIsAsked) {
    FakeCgroups machine;
    machine.addOld("memory");
    UserMachine other;
    FakeManager manager(other);
    std::string own;
    EXPECT_TRUE(enterDelegatedScope({machine, manager, "/cg"}, 1, 2, own));
    EXPECT_EQ(manager.asked, "");
}

/// The other end of a bus: takes one caller, answers as told, keeps what it heard.
class FakeBus {
  public:
    FakeBus(std::filesystem::path path, std::string answer) : path_(std::move(path)), answer_(std::move(answer)) {
        listener_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
        EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::listen(listener_.get(), 1), 0);
        serving_ = std::thread([this] { serve(); });
    }
    ~FakeBus() { finish(); }
    void finish() {
        if (serving_.joinable()) serving_.join();
    }

    std::string introduction;
    std::vector<std::string> messages;

  private:
    void serve() {
        const FileDescriptor caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        introduction = line(caller.get());
        if (answer_ == "closed door") return say(caller.get(), "REJECTED EXTERNAL\r\n");
        say(caller.get(), "OK 1234deadbeef\r\n");
        introduction += line(caller.get());
        while (hear(caller.get())) {
            const bool hello = messages.back().find("Hello") != std::string::npos;
            if (!hello && answer_ == "hang up") return;
            // A signal in between is nobody's answer.
            say(caller.get(), message(4, 0, ""));
            say(caller.get(), message(!hello && answer_ != "yes" ? 3 : 2, serial(messages.back()), answer_));
        }
    }
    static void say(int fd, const std::string& text) {
        EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    }
    static std::string line(int fd) {
        std::string text;
        char letter = 0;
        while (!text.ends_with("\r\n") && ::recv(fd, &letter, 1, 0) == 1) text += letter;
        return text;
    }
    static std::uint32_t number(const std::string& text, std::size_t at) {
        std::uint32_t value = 0;
        std::memcpy(&value, text.data() + at, 4);
        return value;
    }
    static std::uint32_t serial(const std::string& message) { return number(message, 8); }
    bool hear(int fd) {
        std::string text(16, '\0');
        if (::recv(fd, text.data(), 16, MSG_WAITALL) != 16) return false;
        const std::size_t rest = (number(text, 12) + 7) / 8 * 8 + number(text, 4);
        text.resize(16 + rest);
        if (::recv(fd, text.data() + 16, rest, MSG_WAITALL) != static_cast<ssize_t>(rest)) return false;
        messages.push_back(text);
        return true;
    }
    // With the field "answer to" and a text as body, written out by hand.
    static std::string message(char kind, std::uint32_t answers, const std::string& text) {
        const auto put = [](std::uint32_t value) { return std::string(reinterpret_cast<const char*>(&value), 4); };
        const std::string body = put(static_cast<std::uint32_t>(text.size())) + text + '\0';
        const std::string fields = std::string("\5\1u\0", 4) + put(answers) + std::string("\10\1g\0\1s\0", 7);
        std::string whole =
            std::string("l") + kind + std::string("\0\1", 2) + put(static_cast<std::uint32_t>(body.size()));
        whole += put(77) + put(static_cast<std::uint32_t>(fields.size())) + fields;
        whole.resize((whole.size() + 7) / 8 * 8, '\0');
        return whole + body;
    }

    std::filesystem::path path_;
    std::string answer_;
    FileDescriptor listener_;
    std::thread serving_;
};

TEST(UserManager, AsksForADelegatedScopeOnTheUsersBus) {
    GRADUS_CASES("R13");
    const test::ScratchDirectory scratch;
    FakeBus bus(scratch.path() / "bus", "yes");
    EXPECT_FALSE(SystemdUserManager(scratch.path() / "bus").startScope("gradus-5-6-0.scope", 4321));
    bus.finish();
    std::string uid;
    for (const char digit : std::to_string(::geteuid())) uid += fmt::format("{:02x}", static_cast<int>(digit));
    EXPECT_EQ(bus.introduction, std::string(1, '\0') + "AUTH EXTERNAL " + uid + "\r\nBEGIN\r\n");
    ASSERT_EQ(bus.messages.size(), 2U);
    EXPECT_NE(bus.messages[0].find("Hello"), std::string::npos);
    const std::string& call = bus.messages[1];
    for (const char* word : {"org.freedesktop.systemd1", "/org/freedesktop/systemd1", "StartTransientUnit",
                             "ssa(sv)a(sa(sv))", "gradus-5-6-0.scope", "fail", "Delegate", "CollectMode", "PIDs"})
        EXPECT_NE(call.find(word), std::string::npos) << word;
    // "PIDs" as an array of one number.
    EXPECT_NE(call.find(std::string("\2au\0\0\0\0\4\0\0\0\xe1\x10\0\0", 15)), std::string::npos)
        << testing::PrintToString(call);
}

TEST(UserManager, TheManagersPrivateSocketIsSpokenToDirectly) {
    const test::ScratchDirectory scratch;
    FakeBus bus(scratch.path() / "private", "yes");
    EXPECT_FALSE(SystemdUserManager(scratch.path() / "private").startScope("x.scope", 1));
    bus.finish();
    ASSERT_EQ(bus.messages.size(), 1U);
    EXPECT_EQ(bus.messages[0].find("Hello"), std::string::npos);
}

TEST(UserManager, EveryWayItCanGoWrongHasAReason) {
    const auto reason = [](const std::string& answer) {
        const test::ScratchDirectory scratch;
        FakeBus bus(scratch.path() / "bus", answer);
        const Attempt failed = SystemdUserManager(scratch.path() / "bus").startScope("x.scope", 1);
        return failed ? failed->detail : std::string("none");
    };
    EXPECT_EQ(reason("Unit x.scope already exists."), "StartTransientUnit was refused: Unit x.scope already exists.");
    EXPECT_EQ(reason("hang up"), "StartTransientUnit was not answered");
    EXPECT_EQ(reason("closed door"), "we are not let in");
    const Attempt nobody = SystemdUserManager("/nowhere/bus").startScope("x.scope", 1);
    ASSERT_TRUE(nobody);
    EXPECT_EQ(nobody->detail, "cannot reach /nowhere/bus");
}

// A sandbox whose limit nobody insists on never waits for a manager; one that insists asks it, and says what came of
// it.
class AskingForAScope : public SandboxTest {};

TEST_F(AskingForAScope, HappensOnlyForALimitThatIsInsistedOn) {
    GRADUS_CASES("R13");
    if (isRoot()) GTEST_SKIP() << "root needs nobody's leave";
    const test::ScratchDirectory scratch;
    const HostProject project(someone());
    SystemClock clock;
    NamespacesBackend backend(
        NamespacesConfig{.jail = GRADUS_JAIL, .cgroupRoot = "/sys/fs/cgroup", .userManager = scratch.path() / "bus"},
        clock);
    Limits limits;
    limits[LimitName::kMemory] = Limit{64U << 20, false};
    const auto run = [&] {
        return backend.open(workspaceOf(project), limits, Network::kNone, someone())->run(shell("true"));
    };
    EXPECT_EQ(run().shortfall.find("user scope"), std::string::npos) << run().shortfall;
    limits[LimitName::kMemory]->required = true;
    const Outcome insisted = run();
    if (insisted.limits.front().enforcedBy != Enforcer::kWatch) GTEST_SKIP() << "this user has control groups anyway";
    EXPECT_NE(insisted.shortfall.find("user scope"), std::string::npos) << insisted.shortfall;
}

// A systemd of the user's, as a login gives it or as with_user_manager.sh makes one: CPU time is counted in every
// group, whatever controllers there are.
class RealUserManager : public SandboxTest {
  protected:
    void holdsCpuTime(const std::filesystem::path& socket) {
        SystemClock clock;
        NamespacesBackend backend(NamespacesConfig{.jail = GRADUS_JAIL, .userManager = socket}, clock);
        const HostProject project(someone());
        const Limits limits = limitsOf({{LimitName::kCpuTime, 300}, {LimitName::kWallTime, 30'000}});
        const auto sandbox = backend.open(workspaceOf(project), limits, Network::kNone, someone());
        const Outcome outcome = sandbox->run(guest({"spin-unwaited", "6000"}));
        EXPECT_EQ(outcome.shortfall, "");
        EXPECT_EQ(reportOf(outcome, LimitName::kCpuTime).enforcedBy, Enforcer::kCgroupV2);
        EXPECT_EQ(outcome.verdict, Verdict::kLimit) << describe(outcome);
    }
};

TEST_F(RealUserManager, HandsOutAGroupThatCountsCpuTime) {
    GRADUS_CASES("R13");
    if (isRoot()) GTEST_SKIP() << "root needs nobody's leave";
    const std::filesystem::path bus = findUserManager();
    if (bus.empty()) GTEST_SKIP() << "this user has no systemd that could be asked: neither a bus nor a private socket";
    holdsCpuTime(bus);
    const std::filesystem::path direct = bus.parent_path() / "systemd/private";
    if (std::filesystem::exists(direct)) holdsCpuTime(direct);
}

}  // namespace
}  // namespace gradus
