// Rules a caller adds to the filter, a filter that cannot be had, and Landlock behind the mounts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/openat2.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "plugins/isolation/jail/filter.h"
#include "plugins/isolation/jail/landlock.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

class SecondLine : public SandboxTest {};

TEST_F(SecondLine, ExtraRulesAddToTheOthersAndCanOnlyTighten) {
    GRADUS_CASES("SC9");
    const HostProject project(someone());
    Workspace workspace = workspaceOf(project);
    workspace.deniedCalls = {SYS_uname, SYS_bpf, SYS_clone3, 100'000};
    const auto strict = backend().open(workspace, {}, Network::kNone, someone());
    // The command's only call is refused now, and what was refused before still is, in the same way.
    const Outcome outcome =
        strict->run(shell("uname >/dev/null 2>&1 || echo refused; unshare -U true 2>/dev/null || echo still"));
    EXPECT_EQ(outcome.out.text(), "refused\nstill\n") << describe(outcome);
    strict->close();
    EXPECT_EQ(open(project)->run(shell("uname")).out.text(), "Linux\n") << "another sandbox has its own rules";
}

// In a process of its own, which it confines for good.
template <typename Act>
int inAChild(Act act) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(act());
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(FilterProgram, AProgramTheKernelDoesNotTakeIsAFailureToStart) {
    GRADUS_CASES("SC4");
    const auto refused = [](std::vector<sock_filter> program) {
        return inAChild([&] {
            ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            const Attempt failed = installFilter(program);
            return failed && failed->step == "filter" && failed->error == EINVAL ? 0 : 1;
        });
    };
    EXPECT_EQ(refused({}), 0) << "an empty program";
    EXPECT_EQ(refused({sock_filter{0xffff, 0, 0, 0}}), 0) << "an instruction that does not exist";
    EXPECT_EQ(refused({sock_filter{BPF_JMP | BPF_JA, 0, 0, 1000}, sock_filter{BPF_RET, 0, 0, 0}}), 0) << "a jump out";
}

TEST(Landlock, ClosesWhatLiesOutsideWhateverWayItIsOpened) {
    GRADUS_CASES("KS9");
    if (landlockAbi() < 2) GTEST_SKIP() << "this kernel has no Landlock of use";
    const test::ScratchDirectory inside;
    const test::ScratchDirectory outside;
    std::ofstream(outside / "file") << "x";
    const int failures = inAChild([&] {
        const std::string path = outside / "file";
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (restrictByLandlock({inside.path().native()})) return 100;
        int wrong = 0;
        const auto closed = [&](int fd) { wrong += fd >= 0 || errno != EACCES ? 1 : 0; };
        closed(::open(path.c_str(), O_WRONLY));
        open_how how{};
        how.flags = O_RDWR;
        closed(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
        const int handle = ::open(path.c_str(), O_PATH);
        const std::string again = "/proc/self/fd/" + std::to_string(::dup(handle));
        closed(::open(again.c_str(), O_WRONLY));
        closed(::unlink(path.c_str()));
        closed(::mkdir((outside / "new").c_str(), 0755));
        wrong += ::open((inside / "new").c_str(), O_WRONLY | O_CREAT, 0600) < 0 ? 1 : 0;
        return wrong;
    });
    EXPECT_EQ(failures, 0);
}

TEST_F(SecondLine, TheRecordSaysWhichLandlockStoodBehindTheMounts) {
    GRADUS_CASES("KS9");
    EXPECT_EQ(runShell("true").landlock, landlockAbi());
}

}  // namespace
}  // namespace gradus
