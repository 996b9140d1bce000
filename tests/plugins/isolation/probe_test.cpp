// A probe claims what it has seen, and nothing else.

#include <gtest/gtest.h>

#include "plugins/isolation/examination.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

class Probe : public SandboxTest {};

TEST_F(Probe, ProvesEveryGuaranteeThatHoldsHere) {
    GRADUS_CASES("E6");
    const ProbeResult result = backend().probe();
    EXPECT_EQ(result.proofs.size(), kGuaranteeNames.size());
    for (const Proof& proof : result.proofs) {
        EXPECT_FALSE(proof.evidence.empty()) << guaranteeName(proof.guarantee);
        EXPECT_EQ(proof.evidence.find("BROKEN"), std::string::npos) << proof.evidence;
        EXPECT_TRUE(proof.holds || !proof.cure.empty()) << guaranteeName(proof.guarantee) << ": " << proof.evidence;
    }
    for (const Guarantee guarantee : {Guarantee::kNoNetwork, Guarantee::kReadOnlyHost, Guarantee::kPrivateProcesses,
                                      Guarantee::kKernelFilter, Guarantee::kTaskLimit, Guarantee::kDiskLimit})
        EXPECT_TRUE(result.proves(guarantee)) << guaranteeName(guarantee) << ": " << result.find(guarantee)->evidence;
    EXPECT_FALSE(result.proves(Guarantee::kSeparateKernel));
    // As an ordinary user without delegation these are watched or absent, which is no proof.
    const bool groups = groupEnforcer() != Enforcer::kNone;
    EXPECT_EQ(result.proves(Guarantee::kMemoryLimit), groups) << result.find(Guarantee::kMemoryLimit)->evidence;
    EXPECT_EQ(result.proves(Guarantee::kCpuLimit), groups) << result.find(Guarantee::kCpuLimit)->evidence;
}

TEST_F(Probe, AnExaminationThatEndsWithoutAWordIsNoWithoutAReason) {
    Outcome silent;
    silent.verdict = Verdict::kTimeout;
    const Proof proof = Examination::judged(Guarantee::kNoNetwork, silent);
    EXPECT_FALSE(proof.holds);
    EXPECT_NE(proof.evidence.find("timeout"), std::string::npos) << proof.evidence;
}

// Without the kernel's help the answer is no, with a reason; never an exception, never a yes.
TEST_F(Probe, AJailThatCannotStartProvesNothing) {
    GRADUS_CASES("E6");
    SystemClock clock;
    NamespacesBackend broken(NamespacesConfig{"/bin/false", "/sys/fs/cgroup", Milliseconds(2000)}, clock);
    const ProbeResult result = broken.probe();
    for (const Proof& proof : result.proofs) EXPECT_FALSE(proof.holds) << guaranteeName(proof.guarantee);
    EXPECT_FALSE(result.find(Guarantee::kNoNetwork)->evidence.empty());
}

TEST(ProbeCache, IsReadBackOnlyForTheSameMachineProgramAndUser) {
    const ProbeKey key{"boot", "6.1", sha256("program"), 1000};
    const ProbeResult result{"namespaces",
                             "abc",
                             {{Guarantee::kNoNetwork, true, "two\nlines \\ and more", ""},
                              {Guarantee::kMemoryLimit, false, "watched", "run as root"}}};
    const std::string text = formatProbe(key, result);
    const auto again = parseProbe(key, text);
    ASSERT_TRUE(again);
    EXPECT_TRUE(again->proves(Guarantee::kNoNetwork));
    EXPECT_EQ(again->find(Guarantee::kNoNetwork)->evidence, "two\nlines \\ and more");
    EXPECT_EQ(again->find(Guarantee::kMemoryLimit)->cure, "run as root");
    for (const ProbeKey& other :
         {ProbeKey{"boot2", "6.1", sha256("program"), 1000}, ProbeKey{"boot", "6.2", sha256("program"), 1000},
          ProbeKey{"boot", "6.1", sha256("other"), 1000}, ProbeKey{"boot", "6.1", sha256("program"), 0}})
        EXPECT_FALSE(parseProbe(other, text));
    for (std::size_t length = 0; length + 1 < text.size(); ++length) {
        const auto cut = parseProbe(key, text.substr(0, length));
        EXPECT_TRUE(!cut || cut->proofs.size() < 2) << length;
    }
}

TEST(SetupErrors, NameTheCureForTheCommonestRefusals) {
    EXPECT_NE(SetupError({"uid map", EPERM, "1000"}).hint().find("kernel.apparmor_restrict_unprivileged_userns=0"),
              std::string::npos);
    EXPECT_NE(SetupError({"namespaces", ENOSPC, "user"}).hint().find("user.max_user_namespaces"), std::string::npos);
    EXPECT_NE(SetupError({"mount overlay", ENODEV, "fsopen"}).hint().find("modprobe overlay"), std::string::npos);
    EXPECT_NE(SetupError({"limits", EOPNOTSUPP, "memory"}).hint().find("Delegate"), std::string::npos);
    EXPECT_TRUE(SetupError({"bind", ENOENT, "/x"}).hint().empty());
    EXPECT_EQ(SetupFailure({"bind", ENOENT, "/x"}).text(), "bind: /x (No such file or directory)");
}

}  // namespace
}  // namespace gradus
