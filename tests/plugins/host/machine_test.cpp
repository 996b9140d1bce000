#include "plugins/host/machine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

/// Another machine's /proc and /sys, as far as sandboxes care.
class Machine : public ::testing::Test {
  protected:
    Machine() {
        file("proc/filesystems", "nodev\ttmpfs\nnodev\toverlay\n");
        file("proc/sys/kernel/seccomp/actions_avail", "kill_process errno allow\n");
        file("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n");
    }

    void file(const fs::path& path, const std::string& text) {
        fs::create_directories((root_.path() / path).parent_path());
        std::ofstream(root_.path() / path) << text;
    }
    void remove(const fs::path& path) { fs::remove_all(root_.path() / path); }

    MachineFact fact(const std::string& name, uid_t uid = 1000) const {
        const auto facts = machineFacts(uid, root_.path());
        const auto found = std::find_if(facts.begin(), facts.end(), [&](const auto& f) { return f.name == name; });
        return found == facts.end() ? MachineFact{"missing", MachineFact::Word::kStops, {}, {}} : *found;
    }

    test::ScratchDirectory root_;
};

TEST_F(Machine, IsGoodWhereNothingIsForbidden) {
    for (const char* name : {"user namespaces", "overlayfs", "seccomp", "container"})
        EXPECT_EQ(fact(name).word, MachineFact::Word::kGood) << name << ": " << fact(name).seen;
}

TEST_F(Machine, NamesUbuntusRestrictionAndTheCommandThatLiftsIt) {
    file("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    EXPECT_EQ(fact("user namespaces").word, MachineFact::Word::kStops);
    EXPECT_NE(fact("user namespaces").seen.find("Ubuntu"), std::string::npos);
    EXPECT_NE(fact("user namespaces").cure.find("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
              std::string::npos);
    EXPECT_EQ(fact("user namespaces", 0).word, MachineFact::Word::kGood) << "root is not concerned";
}

TEST_F(Machine, NamesDebiansRestriction) {
    file("proc/sys/kernel/unprivileged_userns_clone", "0\n");
    EXPECT_NE(fact("user namespaces").cure.find("kernel.unprivileged_userns_clone=1"), std::string::npos);
}

TEST_F(Machine, NoUserNamespacesAtAllStopsRootToo) {
    file("proc/sys/user/max_user_namespaces", "0\n");
    EXPECT_EQ(fact("user namespaces", 0).word, MachineFact::Word::kStops);
    file("proc/sys/user/max_user_namespaces", "63000\n");
    EXPECT_EQ(fact("user namespaces", 0).word, MachineFact::Word::kGood);
}

TEST_F(Machine, AMissingOverlayIsLoadedByACommand) {
    file("proc/filesystems", "nodev\ttmpfs\n");
    EXPECT_EQ(fact("overlayfs").word, MachineFact::Word::kStops);
    EXPECT_EQ(fact("overlayfs").cure, "sudo modprobe overlay");
}

TEST_F(Machine, ControlGroupsAreToldApart) {
    EXPECT_NE(fact("control groups", 0).seen.find("version 2 (cpu memory pids)"), std::string::npos);
    EXPECT_EQ(fact("control groups", 0).word, MachineFact::Word::kGood);
    EXPECT_NE(fact("control groups").cure.find("Delegate=yes"), std::string::npos);
    remove("sys/fs/cgroup/cgroup.controllers");
    EXPECT_EQ(fact("control groups", 0).word, MachineFact::Word::kLimits) << "none are mounted";
    file("sys/fs/cgroup/memory/tasks", "");
    EXPECT_NE(fact("control groups", 0).seen.find("version 1"), std::string::npos);
}

TEST_F(Machine, AContainerIsNamedWithWhatItsStartNeeds) {
    file(".dockerenv", "");
    EXPECT_NE(fact("container").cure.find("seccomp=unconfined"), std::string::npos);
}

TEST_F(Machine, AKernelWithoutFiltersStops) {
    remove("proc/sys/kernel/seccomp");
    EXPECT_EQ(fact("seccomp").word, MachineFact::Word::kStops);
}

}  // namespace
}  // namespace gradus
