// The system call filter: every number by reading the program, and the same from inside on the real kernel.

#include "plugins/isolation/jail/filter.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

/// What the kernel would answer: a reading of the few instructions that filters use.
std::uint32_t evaluate(const std::vector<sock_filter>& program, const seccomp_data& data) {
    std::uint32_t accumulator = 0;
    for (std::size_t at = 0; at < program.size(); ++at) {
        const sock_filter& step = program[at];
        switch (step.code) {
            case BPF_LD | BPF_W | BPF_ABS:
                std::memcpy(&accumulator, reinterpret_cast<const char*>(&data) + step.k, sizeof accumulator);
                break;
            case BPF_ALU | BPF_AND | BPF_K:
                accumulator &= step.k;
                break;
            case BPF_JMP | BPF_JA:
                at += step.k;
                break;
            case BPF_JMP | BPF_JEQ | BPF_K:
                at += accumulator == step.k ? step.jt : step.jf;
                break;
            case BPF_JMP | BPF_JGE | BPF_K:
                at += accumulator >= step.k ? step.jt : step.jf;
                break;
            case BPF_JMP | BPF_JSET | BPF_K:
                at += (accumulator & step.k) != 0 ? step.jt : step.jf;
                break;
            case BPF_RET | BPF_K:
                return step.k;
            default:
                ADD_FAILURE() << "unexpected instruction " << step.code;
                return 0;
        }
    }
    ADD_FAILURE() << "ran off the end";
    return 0;
}

std::uint32_t fateOf(std::uint32_t number, const std::vector<std::uint64_t>& arguments = {},
                     std::uint32_t architecture = AUDIT_ARCH_X86_64) {
    static const std::vector<sock_filter> kProgram = buildFilter();
    seccomp_data data{};
    data.nr = static_cast<int>(number);
    data.arch = architecture;
    for (std::size_t i = 0; i < arguments.size(); ++i) data.args[i] = arguments[i];
    return evaluate(kProgram, data);
}

constexpr std::uint32_t kAllowed = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kDenied = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

// Written down by hand, independently of the table that the filter is made from: the calls that must fail with EPERM
// whatever their arguments.
const std::set<std::uint32_t> kForbidden = {SYS_ptrace,
                                            SYS_syslog,
                                            SYS_uselib,
                                            SYS_ustat,
                                            SYS_sysfs,
                                            SYS_vhangup,
                                            SYS_modify_ldt,
                                            SYS_pivot_root,
                                            SYS__sysctl,
                                            SYS_adjtimex,
                                            SYS_chroot,
                                            SYS_acct,
                                            SYS_settimeofday,
                                            SYS_mount,
                                            SYS_umount2,
                                            SYS_swapon,
                                            SYS_swapoff,
                                            SYS_reboot,
                                            SYS_sethostname,
                                            SYS_setdomainname,
                                            SYS_iopl,
                                            SYS_ioperm,
                                            SYS_create_module,
                                            SYS_init_module,
                                            SYS_delete_module,
                                            SYS_get_kernel_syms,
                                            SYS_query_module,
                                            SYS_quotactl,
                                            SYS_nfsservctl,
                                            SYS_getpmsg,
                                            SYS_putpmsg,
                                            SYS_afs_syscall,
                                            SYS_tuxcall,
                                            SYS_security,
                                            SYS_lookup_dcookie,
                                            SYS_epoll_ctl_old,
                                            SYS_epoll_wait_old,
                                            SYS_clock_settime,
                                            SYS_vserver,
                                            SYS_mbind,
                                            SYS_set_mempolicy,
                                            SYS_get_mempolicy,
                                            SYS_kexec_load,
                                            SYS_add_key,
                                            SYS_request_key,
                                            SYS_keyctl,
                                            SYS_migrate_pages,
                                            SYS_move_pages,
                                            SYS_perf_event_open,
                                            SYS_fanotify_init,
                                            SYS_fanotify_mark,
                                            SYS_open_by_handle_at,
                                            SYS_clock_adjtime,
                                            SYS_setns,
                                            SYS_process_vm_readv,
                                            SYS_process_vm_writev,
                                            SYS_kcmp,
                                            SYS_finit_module,
                                            SYS_kexec_file_load,
                                            SYS_bpf,
                                            SYS_userfaultfd,
                                            SYS_open_tree,
                                            SYS_move_mount,
                                            SYS_fsopen,
                                            SYS_fsconfig,
                                            SYS_fsmount,
                                            SYS_fspick,
                                            SYS_pidfd_getfd,
                                            SYS_process_madvise,
                                            SYS_mount_setattr,
                                            SYS_quotactl_fd,
                                            SYS_set_mempolicy_home_node,
                                            457 /* statmount */,
                                            458 /* listmount */,
                                            459 /* lsm_get_self_attr */,
                                            460 /* lsm_set_self_attr */,
                                            461 /* lsm_list_modules */,
                                            467 /* open_tree_attr */};

bool isGap(std::uint32_t number) { return (number >= 335 && number <= 423) || number > 467; }

const std::set<std::uint32_t> kPretendedAbsent = {SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter,
                                                  SYS_io_uring_register};

// Judged by their arguments, each in a test of its own.
const std::set<std::uint32_t> kExamined = {SYS_clone,       SYS_unshare, SYS_ioctl,   SYS_socket,   SYS_socketpair,
                                           SYS_personality, SYS_mknod,   SYS_mknodat, SYS_renameat2};

TEST(Filter, EveryNumberHasTheFateWrittenDownForIt) {
    GRADUS_CASES("KS2", "SC1", "SC2");
    for (std::uint32_t number = 0; number <= 600; ++number) {
        if (kExamined.contains(number)) continue;
        std::uint32_t expected = kAllowed;
        if (kForbidden.contains(number)) expected = kDenied;
        if (isGap(number) || kPretendedAbsent.contains(number)) expected = kUnknown;
        EXPECT_EQ(fateOf(number), expected) << "call " << number;
    }
}

TEST(Filter, IsATreeOfModestSize) {
    const std::vector<sock_filter> program = buildFilter();
    EXPECT_LT(program.size(), 400U);
    EXPECT_GT(program.size(), 50U);
}

// A copy of the system differs in what package managers call, and in nothing else.
TEST(Filter, ACopyOfTheSystemMayChangeItsRootAndNothingMore) {
    const auto program = buildFilter({}, true);
    for (std::uint32_t number = 0; number < 600; ++number) {
        seccomp_data data{};
        data.nr = static_cast<int>(number);
        data.arch = AUDIT_ARCH_X86_64;
        EXPECT_EQ(evaluate(program, data), number == SYS_chroot ? kAllowed : fateOf(number)) << "call " << number;
    }
    EXPECT_EQ(fateOf(SYS_chroot), kDenied);
    seccomp_data audit{};
    audit.nr = SYS_socket;
    audit.arch = AUDIT_ARCH_X86_64;
    audit.args[0] = AF_NETLINK;
    audit.args[2] = 9;
    EXPECT_EQ(evaluate(program, audit), SECCOMP_RET_ERRNO | EPROTONOSUPPORT);
}

// The x32 numbers and other architectures do not slip through under another numbering.
TEST(Filter, ForeignNumberingsAreUnknown) {
    GRADUS_CASES("KS6");
    for (const std::uint32_t number : {0U, 1U, 59U, 101U, 165U, 520U})
        EXPECT_EQ(fateOf(number | 0x40000000), kUnknown) << number;
    for (const std::uint32_t architecture :
         std::initializer_list<std::uint32_t>{AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, 0})
        for (std::uint32_t number = 0; number < 500; ++number) EXPECT_EQ(fateOf(number, {}, architecture), kUnknown);
    EXPECT_EQ(fateOf(0xffffffff), kUnknown);
}

TEST(Filter, NoFlagMakesANamespace) {
    GRADUS_CASES("NS15");
    for (const std::uint64_t flag :
         {0x00020000U, 0x02000000U, 0x04000000U, 0x08000000U, 0x10000000U, 0x20000000U, 0x40000000U}) {
        EXPECT_EQ(fateOf(SYS_clone, {flag | 17}), kDenied) << flag;
        EXPECT_EQ(fateOf(SYS_unshare, {flag}), kDenied) << flag;
        EXPECT_EQ(fateOf(SYS_unshare, {flag | 1ULL << 32}), kDenied) << flag;
    }
    EXPECT_EQ(fateOf(SYS_unshare, {0x80}), kDenied) << "a time namespace";
    EXPECT_EQ(fateOf(SYS_clone, {0x01200011}), kAllowed) << "fork";
    EXPECT_EQ(fateOf(SYS_clone, {0x003d0f00}), kAllowed) << "a thread";
    EXPECT_EQ(fateOf(SYS_unshare, {0x00000400}), kAllowed) << "CLONE_FILES";
}

// The kernel looks at the low half only, so the high half must not hide anything.
TEST(Filter, NothingCanBeTypedIntoATerminal) {
    GRADUS_CASES("NS28");
    for (const std::uint64_t request : {0x5412U, 0x541cU, 0x5423U}) {
        EXPECT_EQ(fateOf(SYS_ioctl, {0, request}), kDenied);
        EXPECT_EQ(fateOf(SYS_ioctl, {0, request | 1ULL << 32}), kDenied);
        EXPECT_EQ(fateOf(SYS_ioctl, {0, request | 0xffffffffULL << 32}), kDenied);
    }
    EXPECT_EQ(fateOf(SYS_ioctl, {0, 0x5401}), kAllowed);
}

TEST(Filter, OnlyTheCommonSocketFamiliesExist) {
    GRADUS_CASES("SC8");
    for (std::uint64_t family = 0; family < 64; ++family) {
        const bool common = family == 1 || family == 2 || family == 10;
        EXPECT_EQ(fateOf(SYS_socket, {family, 1, 6}), common ? kAllowed : kDenied) << family;
        EXPECT_EQ(fateOf(SYS_socket, {family | 1ULL << 32, 1, 6}), common ? kAllowed : kDenied) << family;
        EXPECT_EQ(fateOf(SYS_socketpair, {family}), family == 1 ? kAllowed : kDenied) << family;
    }
    EXPECT_EQ(fateOf(SYS_socket, {16, 3, 0}), kAllowed) << "routing, to list interfaces";
    EXPECT_EQ(fateOf(SYS_socket, {16, 3, 9}), kDenied) << "audit";
    EXPECT_EQ(fateOf(SYS_socket, {16, 3, 12}), kDenied) << "netfilter";
}

TEST(Filter, PersonalitiesThatWeakenAProcessAreDenied) {
    GRADUS_CASES("KS8");
    for (const std::uint64_t value : {0x0400000U, 0x0040000U, 0x0100000U, 0x0200000U})
        EXPECT_EQ(fateOf(SYS_personality, {value}), kDenied) << value;
    for (const std::uint64_t value : {0x0ULL, 0x8ULL, 0x20000ULL, 0x20008ULL, 0xffffffffULL})
        EXPECT_EQ(fateOf(SYS_personality, {value}), kAllowed) << value;
}

TEST(Filter, DevicesAndForgedDeletionMarksAreDenied) {
    GRADUS_CASES("FS16");
    for (const std::uint64_t type : {0020000U, 0060000U}) {
        EXPECT_EQ(fateOf(SYS_mknod, {0, type | 0666, 0}), kDenied);
        EXPECT_EQ(fateOf(SYS_mknodat, {0, 0, type, 0}), kDenied);
    }
    for (const std::uint64_t type : {0010000U, 0100000U, 0140000U, 0U})
        EXPECT_EQ(fateOf(SYS_mknod, {0, type, 0}), kAllowed);
    EXPECT_EQ(fateOf(SYS_renameat2, {0, 0, 0, 0, 4}), kDenied);
    EXPECT_EQ(fateOf(SYS_renameat2, {0, 0, 0, 0, 2}), kAllowed);
}

class FilterInside : public SandboxTest {
  protected:
    static std::map<std::uint32_t, int> parse(const std::string& text) {
        std::map<std::uint32_t, int> errors;
        std::istringstream stream(text);
        for (std::uint32_t number = 0, error = 0; stream >> number >> error;) errors[number] = static_cast<int>(error);
        return errors;
    }
};

// The kernel lets these two past every filter, on purpose; called from anywhere but a probe they end in SIGILL.
constexpr std::uint32_t kUretprobe = 335;
constexpr std::uint32_t kUprobe = 336;

// On the real kernel: every number that must not work, asked from inside.
TEST_F(FilterInside, ForbiddenCallsFailAndTheCallerLivesOn) {
    GRADUS_CASES("KS1", "KS2", "KS7", "SC6");
    std::vector<std::string> words = {"calls", "0", "600"};
    for (std::uint32_t number = 0; number <= 600; ++number)
        if (number == kUretprobe || number == kUprobe ||
            (!kForbidden.contains(number) && !kPretendedAbsent.contains(number) && !isGap(number)))
            words.push_back(std::to_string(number));
    const Outcome outcome = runGuest(words);
    const std::map<std::uint32_t, int> errors = parse(outcome.out.text());
    EXPECT_EQ(errors.size(), 601U - (words.size() - 3)) << describe(outcome);
    for (const auto& [number, error] : errors)
        EXPECT_EQ(error, kForbidden.contains(number) ? EPERM : ENOSYS) << "call " << number;
}

// An error, not a signal.
TEST_F(FilterInside, ADeniedCallIsAnErrorTheProgramCanHandle) {
    GRADUS_CASES("SC5");
    const Outcome outcome = runShell("strace true 2>/dev/null; echo $?; echo alive");
    EXPECT_NE(outcome.out.text().find("alive"), std::string::npos) << describe(outcome);
    EXPECT_EQ(outcome.verdict, Verdict::kOk);
}

TEST_F(FilterInside, TheOldDoorOfAnotherArchitectureIsShut) {
    EXPECT_EQ(runGuest({"foreign"}).out.text(), std::to_string(-ENOSYS) + "\n");
}

// A second filter may be added, the first stays.
TEST_F(FilterInside, AFilterCannotBeLoosened) {
    GRADUS_CASES("KS6");
    const Outcome outcome = runShell(
        "python3 - <<'E'\n"
        "import ctypes\n"
        "c = ctypes.CDLL(None, use_errno=True)\n"
        "print(c.prctl(22, 0, 0, 0, 0), c.syscall(165, 0, 0, 0, 0, 0), ctypes.get_errno())\n"
        "E");
    EXPECT_EQ(outcome.out.text(), "-1 -1 1\n") << describe(outcome);
}

// What people really run.
TEST_F(FilterInside, EverydayProgramsRun) {
    GRADUS_CASES("SC10");
    const std::vector<std::pair<std::string, std::string>> scripts = {
        {"/usr/bin/python3",
         "python3 -c 'import threading, subprocess, socket, tempfile\n"
         "t = [threading.Thread(target=lambda: subprocess.run([\"true\"], check=True)) for _ in range(8)]\n"
         "[x.start() for x in t]; [x.join() for x in t]\n"
         "socket.socketpair(); tempfile.TemporaryFile().write(b\"x\")'"},
        {"/usr/bin/node",
         "node -e 'require(\"fs\").readdirSync(\".\"); const {Worker} = require(\"worker_threads\"); "
         "new Worker(\"process.exit(0)\", {eval: true})'"},
        {"/usr/bin/git",
         "git init -q . && git add . && git -c user.name=a -c user.email=b@c commit -qm x && git log | grep -q x"},
        {"/usr/bin/gcc", "gcc -o prog src/main.c && ./prog"},
        {"/usr/bin/make", "printf 'all:\\n\\t@true\\n' > Makefile && make -s -j4"},
        {"/usr/bin/java", "java -version"},
        {"/usr/bin/perl", "perl -e 'fork() // die; wait'"},
    };
    const HostProject project(someone());
    const std::string before = project.fingerprint();
    const auto sandbox = open(project, limitsOf({{LimitName::kWallTime, 60'000}}));
    for (const auto& [program, script] : scripts) {
        if (!std::filesystem::exists(program)) continue;
        Command command = shell(script, project.path());
        command.environment.emplace_back("HOME=/tmp");
        const Outcome outcome = sandbox->run(command);
        EXPECT_EQ(outcome.verdict, Verdict::kOk) << script << "\n" << describe(outcome);
    }
    EXPECT_EQ(project.fingerprint(), before);
}

}  // namespace
}  // namespace gradus
