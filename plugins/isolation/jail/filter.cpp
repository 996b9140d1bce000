#include "plugins/isolation/jail/filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "plugins/isolation/jail/syscalls.h"

namespace gradus {

namespace {

#ifndef __x86_64__
#error "gradus-jail has no system call table for this architecture"
#endif
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;

using Program = std::vector<sock_filter>;

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kDeny = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

constexpr std::uint32_t kNewNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
constexpr std::uint32_t kNewTime = 0x80;
constexpr std::uint32_t kRenameWhiteout = 4;

sock_filter statement(unsigned code, std::uint32_t value) { return {static_cast<std::uint16_t>(code), 0, 0, value}; }

sock_filter jump(unsigned test, std::uint32_t value, std::size_t whenTrue, std::size_t whenFalse) {
    return {static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), static_cast<std::uint8_t>(whenTrue),
            static_cast<std::uint8_t>(whenFalse), value};
}

sock_filter answer(std::uint32_t action) { return statement(BPF_RET | BPF_K, action); }

// The low half of an argument. The kernel reads these arguments as 32 bits, so the high half must not be able to make
// a forbidden value look different.
sock_filter loadArgument(std::size_t index) {
    return statement(BPF_LD | BPF_W | BPF_ABS,
                     static_cast<std::uint32_t>(offsetof(seccomp_data, args) + index * sizeof(std::uint64_t)));
}

Program denyAnyBit(std::size_t argument, std::uint32_t bits) {
    return {loadArgument(argument), jump(BPF_JSET, bits, 0, 1), answer(kDeny), answer(kAllow)};
}

Program denyValues(std::size_t argument, std::uint32_t mask, const std::vector<std::uint32_t>& values) {
    Program program = {loadArgument(argument), statement(BPF_ALU | BPF_AND | BPF_K, mask)};
    for (const std::uint32_t value : values) {
        program.push_back(jump(BPF_JEQ, value, 0, 1));
        program.push_back(answer(kDeny));
    }
    program.push_back(answer(kAllow));
    return program;
}

Program allowValues(std::size_t argument, const std::vector<std::uint32_t>& values) {
    Program program = {loadArgument(argument)};
    for (const std::uint32_t value : values) {
        program.push_back(jump(BPF_JEQ, value, 0, 1));
        program.push_back(answer(kAllow));
    }
    program.push_back(answer(kDeny));
    return program;
}

// Unix, IPv4 and IPv6; of netlink only routing, through which the C library lists interfaces. Changing a route needs a
// capability over the network namespace, which nothing inside has.
Program socketRule(std::uint32_t refusal = kDeny) {
    constexpr std::uint32_t kNetlinkRoute = 0;
    Program program = {loadArgument(0)};
    for (const std::uint32_t family : {std::uint32_t{AF_UNIX}, std::uint32_t{AF_INET}, std::uint32_t{AF_INET6}}) {
        program.push_back(jump(BPF_JEQ, family, 0, 1));
        program.push_back(answer(kAllow));
    }
    program.push_back(jump(BPF_JEQ, AF_NETLINK, 1, 0));
    program.push_back(answer(kDeny));
    program.push_back(loadArgument(2));
    program.push_back(jump(BPF_JEQ, kNetlinkRoute, 0, 1));
    program.push_back(answer(kAllow));
    program.push_back(answer(refusal));
    return program;
}

// Typing into the terminal, selecting text on the console, loading line disciplines.
Program ioctlRule() { return denyValues(1, 0xffffffff, {TIOCSTI, TIOCLINUX, TIOCSETD}); }

// A character device 0:0 is overlayfs's mark of a deletion and needs no capability: a forged one must not be made,
// neither by mknod nor by a rename that leaves one behind.
Program deviceRule(std::size_t modeArgument) { return denyValues(modeArgument, S_IFMT, {S_IFCHR, S_IFBLK}); }

// Asking which one it is, 32-bit names, and an old version number; nothing that loosens memory protection.
Program personalityRule() {
    constexpr std::uint32_t kLinux32 = PER_LINUX32;
    constexpr std::uint32_t kOldVersion = UNAME26;
    return allowValues(0, {0, kLinux32, kOldVersion, kLinux32 | kOldVersion, 0xffffffff});
}

/// Calls that are allowed or not by their arguments.
struct Examined {
    std::uint32_t number;
    Program rule;
};

std::vector<Examined> examinedCalls() {
    return {
        {SYS_clone, denyAnyBit(0, kNewNamespaces)},
        {SYS_unshare, denyAnyBit(0, kNewNamespaces | kNewTime)},
        {SYS_ioctl, ioctlRule()},
        {SYS_socket, socketRule()},
        {SYS_socketpair, allowValues(0, {AF_UNIX})},
        {SYS_personality, personalityRule()},
        {SYS_mknod, deviceRule(1)},
        {SYS_mknodat, deviceRule(2)},
        {SYS_renameat2, denyAnyBit(4, kRenameWhiteout)},
    };
}

/// A run of call numbers that share one fate.
struct Range {
    std::uint32_t first;
    Program program;
};

bool sameProgram(const Program& left, const Program& right) {
    return left.size() == right.size() && std::equal(left.begin(), left.end(), right.begin(), [](auto a, auto b) {
               return a.code == b.code && a.jt == b.jt && a.jf == b.jf && a.k == b.k;
           });
}

// Tools that add users speak to the kernel's audit where there is one, and stop where it is merely out of reach.
void allowForSystem(std::vector<Program>& fate) {
    constexpr std::uint32_t kNoSuchProtocol = SECCOMP_RET_ERRNO | EPROTONOSUPPORT;
    for (const std::uint32_t number : kSystemCalls) fate[number] = {answer(kAllow)};
    fate[SYS_socket] = socketRule(kNoSuchProtocol);
}

std::vector<Range> ranges(const std::vector<std::uint32_t>& denied, bool system) {
    std::vector<Program> fate(kHighestKnownCall + 1, {answer(kDeny)});
    for (const auto& [first, last] : kNumberGaps)
        for (std::uint32_t number = first; number <= last; ++number) fate[number] = {answer(kUnknown)};
    for (const std::uint32_t number : kAllowedCalls) fate[number] = {answer(kAllow)};
    for (const std::uint32_t number : kAbsentCalls) fate[number] = {answer(kUnknown)};
    for (Examined& examined : examinedCalls()) fate[examined.number] = std::move(examined.rule);
    if (system) allowForSystem(fate);
    // Last, so that they win; what is unknown or refused in another way stays so.
    for (const std::uint32_t number : denied)
        if (number <= kHighestKnownCall && !sameProgram(fate[number], {answer(kUnknown)}))
            fate[number] = {answer(kDeny)};
    std::vector<Range> all;
    for (std::uint32_t number = 0; number <= kHighestKnownCall; ++number)
        if (all.empty() || !sameProgram(all.back().program, fate[number])) all.push_back({number, fate[number]});
    all.push_back({kHighestKnownCall + 1, {answer(kUnknown)}});
    return all;
}

// A balanced tree over the borders between ranges: some eight comparisons for any number, and a program half the size
// of one that asks for each number in turn.
Program tree(const std::vector<Range>& all, std::size_t low, std::size_t high) {
    if (low == high) return all[low].program;
    const std::size_t middle = (low + high + 1) / 2;
    const Program left = tree(all, low, middle - 1);
    const Program right = tree(all, middle, high);
    Program program;
    if (left.size() < 256) {
        program.push_back(jump(BPF_JGE, all[middle].first, left.size(), 0));
    } else {
        program.push_back(jump(BPF_JGE, all[middle].first, 0, 1));
        program.push_back(statement(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(left.size())));
    }
    program.insert(program.end(), left.begin(), left.end());
    program.insert(program.end(), right.begin(), right.end());
    return program;
}

}  // namespace

std::vector<sock_filter> buildFilter(const std::vector<std::uint32_t>& denied, bool system) {
    const std::vector<Range> all = ranges(denied, system);
    // Another architecture's calls have other numbers: none of them is known here. The x32 numbers of x86-64 lie far
    // above the highest known one and end there too.
    Program program = {statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
                       jump(BPF_JEQ, kArchitecture, 1, 0), answer(kUnknown),
                       statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    const Program calls = tree(all, 0, all.size() - 1);
    program.insert(program.end(), calls.begin(), calls.end());
    return program;
}

Attempt installFilter(const std::vector<sock_filter>& program) {
    std::vector<sock_filter> copy = program;
    const sock_fprog filter{static_cast<unsigned short>(copy.size()), copy.data()};
    if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) return failure("filter", "install");
    return std::nullopt;
}

}  // namespace gradus
