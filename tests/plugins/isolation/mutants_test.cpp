// Jails with one promise broken each (tests/mutants): the contract suite must fail on every one, and hold on the real
// one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "plugins/host/child_process.h"
#include "tests/plugins/patience.h"
#include "tests/plugins/sandbox_fixture.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

/// This very program again, with another jail: 0 if the named tests pass.
int contract(const std::string& jail, const std::string& tests) {
    ChildPlan plan{fs::read_symlink("/proc/self/exe"),
                   {"isolation_tests", "--gtest_filter=" + tests},
                   {"GRADUS_TEST_JAIL=" + jail, "GRADUS_TEST_MUTANT=1", "PATH=/usr/bin:/bin"},
                   {}};
    if (isEmulated()) plan.environment.emplace_back("GRADUS_TEST_EMULATED=1");
    ChildProcess again(plan);
    const auto status = again.wait(Milliseconds(patiently(100'000)));
    return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
}

void expectCaught(const std::string& mutant, const std::string& tests) {
    EXPECT_EQ(contract(GRADUS_JAIL, tests), 0) << tests << " fails on the real jail";
    EXPECT_EQ(contract(GRADUS_MUTANTS "/jail_" + mutant, tests), 1) << mutant << " went unnoticed";
}

// A process joins its old groups, and is born into a unified one.
std::string outOfItsGroup() {
    return groupEnforcer() == Enforcer::kCgroupV1 ? "cgroup_not_applied" : "cgroup_not_born_in";
}

TEST(Mutants, AKeptCapabilityIsSeen) { expectCaught("capability_kept", "Isolation.HasNoCapabilitiesAndCannotGainAny"); }

TEST(Mutants, ADroppedFilterRuleIsSeen) {
    expectCaught("filter_rule_dropped",
                 "FilterInside.ForbiddenCallsFailAndTheCallerLivesOn:Isolation.NoNamespaceCanBeMadeInside");
}

TEST(Mutants, ASharedNetworkIsSeen) { expectCaught("network_shared", "NetworkNone.ListenersOnTheHostHearNothing"); }

TEST(Mutants, AGroupThatIsNotJoinedIsSeen) {
    if (groupEnforcer() == Enforcer::kNone) GTEST_SKIP() << "this user has no control groups";
    expectCaught(outOfItsGroup(), "Limited.*ForkBomb*:Limited.*Task*");
}

TEST(Mutants, AHostThatIsBoundIsSeen) {
    expectCaught("host_bound", "HostMountsTest.AHiddenFileStays*:HostMountsTest.ASocket*");
}

TEST(Mutants, AHostWithOwnersIsSeen) {
    if (::geteuid() != 0) GTEST_SKIP() << "an ordinary user reads what its groups give it";
    expectCaught("owners_kept", "HostMountsTest.RootReads*");
}

TEST(Mutants, MemoryWithoutANameThatIsNotCountedIsSeen) { expectCaught("nameless_free", "Hoard.Memory*"); }

// The probe is what a person's machine has instead of this suite.
TEST(Mutants, TheProbeClaimsNothingThatAMutantBroke) {
    const SystemClock clock;
    const auto proves = [&](const std::string& mutant, Guarantee guarantee) {
        NamespacesBackend backend(NamespacesConfig{.jail = GRADUS_MUTANTS "/jail_" + mutant}, clock);
        return backend.probe().proves(guarantee);
    };
    EXPECT_FALSE(proves("capability_kept", Guarantee::kKernelFilter));
    EXPECT_FALSE(proves("filter_rule_dropped", Guarantee::kKernelFilter));
    EXPECT_FALSE(proves("network_shared", Guarantee::kNoNetwork));
    if (groupEnforcer() != Enforcer::kNone) {
        EXPECT_FALSE(proves(outOfItsGroup(), Guarantee::kMemoryLimit));
    }
}

}  // namespace
}  // namespace gradus
