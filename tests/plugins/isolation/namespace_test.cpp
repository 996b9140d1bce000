// The contract every backend that claims a boundary is held to: processes, identity, descriptors, environment.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class Isolation : public SandboxTest {};

TEST_F(Isolation, PassesTheExitStatusThrough) {
    GRADUS_CASES("NS1", "OV34");
    const HostProject project(someone());
    const auto sandbox = open(project);
    for (const auto& [program, status] : {std::pair("/bin/true", 0), {"/bin/false", 1}}) {
        Command command;
        command.arguments = {program};
        EXPECT_EQ(sandbox->run(command).exitCode, status);
    }
    EXPECT_EQ(sandbox->run(shell("exit 3")).exitCode, 3);
    EXPECT_EQ(sandbox->run(shell("exit 3")).verdict, Verdict::kFailed);
}

TEST_F(Isolation, ShowsOnlyItsOwnProcesses) {
    GRADUS_CASES("NS3");
    const Outcome outcome = runShell("echo $$ $PPID; echo /proc/[0-9]*");
    EXPECT_EQ(outcome.out.text(), "2 1\n/proc/1 /proc/2\n") << describe(outcome);
}

TEST_F(Isolation, SignalsReachNobodyOutside) {
    GRADUS_CASES("NS3", "PR3");
    const pid_t bystander = ::getpid();
    const Outcome outcome = runShell("kill -9 -1; kill -9 1; kill -0 " + std::to_string(bystander) +
                                     " 2>/dev/null && echo reached; echo alive");
    // kill -1 spares the sender and pid 1.
    EXPECT_EQ(outcome.out.text(), "alive\n") << describe(outcome);
}

// As root the sandbox is somebody else; nothing of another user's is readable.
TEST_F(Isolation, ShowsNoCredentials) {
    GRADUS_CASES("NS4", "FS1", "PV5");
    const HostProject project(someone());
    project.write("secret", "x");
    fs::permissions(project.path() / "secret", fs::perms::none);
    const Outcome outcome = open(project)->run(
        shell("cat /etc/shadow | wc -c; ls -A /root /home | grep -v : | grep -c .; cat secret", project.path()));
    EXPECT_EQ(outcome.out.text(), "0\n0\n") << describe(outcome);
}

// Uid 0 owns /etc/shadow and may read it without any capability; it is hidden, not merely protected.
TEST_F(Isolation, HidesCredentialsFromRootToo) {
    GRADUS_CASES("NS4", "FS1");
    if (!isRoot()) GTEST_SKIP() << "only root can run a command as uid 0";
    const HostProject project({0, 0});
    const auto sandbox = backend().open(workspaceOf(project), {}, Network::kNone, {0, 0});
    const Outcome outcome = sandbox->run(shell("id -u; cat /etc/shadow /etc/gshadow | wc -c; ls -A /root | wc -l"));
    EXPECT_EQ(outcome.out.text(), "0\n0\n0\n") << describe(outcome);
}

TEST_F(Isolation, HasNoCapabilitiesAndCannotGainAny) {
    GRADUS_CASES("NS5", "NS6", "PV2");
    const Outcome outcome = runShell("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr '\\t' ' '");
    EXPECT_EQ(outcome.out.text(),
              "CapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\n"
              "CapBnd: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n")
        << describe(outcome);
}

// Uid 0 inside is no exception; executing as root gives capabilities back unless the bounding set is empty.
TEST_F(Isolation, RootInsideHasNoCapabilitiesEither) {
    GRADUS_CASES("NS5");
    if (!isRoot()) GTEST_SKIP() << "only root can run a command as uid 0";
    const HostProject project({0, 0});
    const auto sandbox = backend().open(workspaceOf(project), {}, Network::kNone, {0, 0});
    const Outcome outcome = sandbox->run(shell("grep -E '^Cap(Eff|Prm|Bnd)' /proc/self/status | cut -f2 | sort -u"));
    EXPECT_EQ(outcome.out.text(), "0000000000000000\n") << describe(outcome);
}

TEST_F(Isolation, ASetuidProgramGainsNothing) {
    GRADUS_CASES("NS6", "PV1", "FS15");
    const HostProject project(someone());
    if (isRoot()) {
        fs::copy_file("/usr/bin/id", project.path() / "id");
        ASSERT_EQ(::chown((project.path() / "id").c_str(), 0, 0), 0);
        ASSERT_EQ(::chmod((project.path() / "id").c_str(), 04755), 0);
    } else {
        fs::copy_file("/usr/bin/id", project.path() / "id");
        ASSERT_EQ(::chmod((project.path() / "id").c_str(), 04755), 0);
    }
    const Outcome outcome = open(project)->run(
        shell("./id -u; grep ' '$(pwd)' ' /proc/self/mounts | grep -c nosuid; awk '$2 == \"/usr\"' /proc/self/mounts | "
              "grep -vc nosuid",
              project.path()));
    EXPECT_EQ(outcome.out.text(), fmt::format("{}\n1\n0\n", someone().uid)) << describe(outcome);
}

TEST_F(Isolation, OrphansAreReaped) {
    GRADUS_CASES("NS8");
    const Outcome outcome = runGuest({"orphans", "50"});
    EXPECT_EQ(outcome.out.text(), "none\n") << describe(outcome);
}

TEST_F(Isolation, ReportsPidAndNamespacesOfAStartedCommand) {
    GRADUS_CASES("NS9");
    const Outcome outcome = runShell("for n in mnt pid net ipc uts cgroup user; do readlink /proc/self/ns/$n; done");
    ASSERT_EQ(outcome.namespaces.size(), 7U);
    std::string expected;
    for (const auto& [name, inode] : outcome.namespaces) {
        expected += fmt::format("{}:[{}]\n", name, inode);
        struct stat host {};
        ASSERT_EQ(::stat(("/proc/self/ns/" + name).c_str(), &host), 0);
        EXPECT_NE(host.st_ino, inode) << name << " is shared with the host";
    }
    EXPECT_EQ(outcome.out.text(), expected);
    EXPECT_TRUE(outcome.init.has_value());
}

// A failure to start is never mistaken for an exit status.
TEST_F(Isolation, ACommandThatCannotStartHasNoExitStatus) {
    GRADUS_CASES("NS9");
    const HostProject project(someone());
    const auto sandbox = open(project);
    Command missing;
    missing.arguments = {"/no/such/program"};
    Outcome outcome = sandbox->run(missing);
    EXPECT_EQ(outcome.verdict, Verdict::kSetupFailed);
    EXPECT_FALSE(outcome.exitCode || outcome.signal);
    ASSERT_TRUE(outcome.failure);
    EXPECT_EQ(outcome.failure->step, "exec");
    EXPECT_EQ(outcome.failure->error, ENOENT);

    Command notAProgram;
    notAProgram.arguments = {(project.path() / "README.md").native()};
    outcome = sandbox->run(notAProgram);
    EXPECT_EQ(outcome.failure->error, EACCES);

    Command nowhere = shell("true", "/no/such/directory");
    outcome = sandbox->run(nowhere);
    EXPECT_EQ(outcome.failure->step, "directory");
    EXPECT_EQ(sandbox->run(shell("true")).verdict, Verdict::kOk) << "the sandbox is still of use";
}

// Nothing is inherited, nothing is parsed.
TEST_F(Isolation, EnvironmentAndArgumentsAreExactlyTheGivenOnes) {
    GRADUS_CASES("NS16", "NS17", "NS14", "E1", "PV6", "OV36");
    ::setenv("AWS_SECRET_FOR_TEST", "x", 1);
    const HostProject project(someone());
    const auto sandbox = open(project);
    ::unsetenv("AWS_SECRET_FOR_TEST");
    Command command;
    command.program = "/usr/bin/env";
    command.arguments = {"--prove"};
    command.environment = {"A=1", "B=two words", "EMPTY="};
    EXPECT_EQ(sandbox->run(command).out.text(), "A=1\nB=two words\nEMPTY=\n");

    command.program = "/bin/sh";
    command.arguments = {"another-name", "-c", "echo $0; tr '\\0' ' ' < /proc/$$/cmdline", "--", "-x"};
    EXPECT_EQ(sandbox->run(command).out.text(), "--\nanother-name -c echo $0; tr '\\0' ' ' < /proc/$$/cmdline -- -x ");

    Command named = shell("true");
    named.arguments = {"true"};
    EXPECT_EQ(sandbox->run(named).verdict, Verdict::kOk) << "a name is found through PATH";
}

// Nor can anything of the engine's environment be read from a process in view.
TEST_F(Isolation, NoEnvironmentOfTheEngineIsInView) {
    GRADUS_CASES("E1");
    ::setenv("AWS_SECRET_FOR_TEST", "verysecret", 1);
    const Outcome outcome = runShell("cat /proc/*/environ 2>/dev/null | grep -c verysecret");
    ::unsetenv("AWS_SECRET_FOR_TEST");
    EXPECT_EQ(outcome.out.text(), "0\n") << describe(outcome);
}

TEST_F(Isolation, NoNamespaceCanBeMadeInside) {
    GRADUS_CASES("NS15", "KS7");
    const Outcome outcome = runShell(
        "for f in -U -m -Ur -n -p -u -i -C; do unshare $f true 2>/dev/null && echo $f; done; nsenter -t 1 -m true "
        "2>/dev/null && echo entered; echo done");
    EXPECT_EQ(outcome.out.text(), "done\n") << describe(outcome);
}

TEST_F(Isolation, HostNameAndSharedMemoryAreItsOwn) {
    GRADUS_CASES("NS23");
    const int segment = ::shmget(0x47524144, 4096, IPC_CREAT | 0666);
    const Outcome outcome =
        runShell("hostname; ipcs -m | grep -c 47524144; hostname other 2>/dev/null && echo renamed");
    ::shmctl(segment, IPC_RMID, nullptr);
    EXPECT_EQ(outcome.out.text(), "sandbox\n0\n") << describe(outcome);
}

TEST_F(Isolation, HasASessionAndNoTerminal) {
    GRADUS_CASES("NS28");
    const Outcome outcome = runShell(
        "test $(cut -d' ' -f6 /proc/$$/stat) = $$ && echo leader; (: < /dev/tty) 2>/dev/null && "
        "echo terminal; echo done");
    EXPECT_EQ(outcome.out.text(), "leader\ndone\n") << describe(outcome);
}

// What the engine has open is not there.
TEST_F(Isolation, OnlyTheThreeStandardDescriptorsAreOpen) {
    GRADUS_CASES("FS4");
    const int leak = ::open("/", O_RDONLY | O_DIRECTORY);  // on purpose without close-on-exec
    const Outcome outcome = runGuest({"descriptors"});
    ::close(leak);
    EXPECT_EQ(outcome.out.text(), "0\n1\n2\n") << describe(outcome);
}

// Nothing of the kernel's settings is writable, even for uid 0.
TEST_F(Isolation, NothingInProcCanBeWrittenButOnesOwn) {
    GRADUS_CASES("FS8");
    const Identity who = isRoot() ? Identity{0, 0} : someone();
    const HostProject project(who);
    const auto sandbox = backend().open(workspaceOf(project), {}, Network::kNone, who);
    const Outcome outcome = sandbox->run(guest({"writable-proc"}));
    EXPECT_EQ(outcome.out.text(), "") << describe(outcome);
}

TEST_F(Isolation, PidOneCannotBeLookedInto) {
    GRADUS_CASES("PR4");
    const Outcome outcome = runGuest({"spy"});
    EXPECT_EQ(outcome.out.text().find(" ok"), std::string::npos) << describe(outcome);
}

TEST_F(Isolation, AnOrdinaryUserCanOnlyBeItself) {
    if (isRoot()) GTEST_SKIP() << "root may run commands as anybody";
    const HostProject project(someone());
    EXPECT_THROW(backend().open(workspaceOf(project), {}, Network::kNone, {4711, 4711}), SetupError);
}

}  // namespace
}  // namespace gradus
