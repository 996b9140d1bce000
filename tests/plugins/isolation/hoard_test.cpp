// Memory and disk that no process has mapped and no directory names: the limits mean these as well.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/plugins/sandbox_fixture.h"

namespace gradus {
namespace {

// Without control groups, as an ordinary user mostly is: these count it anyway.
class Hoard : public SandboxTest {
  protected:
    Outcome runWatched(const std::vector<std::string>& words, std::uint64_t memory) {
        const HostProject project(someone());
        SystemClock clock;
        const char* jail = std::getenv("GRADUS_TEST_JAIL");
        NamespacesBackend bare(NamespacesConfig{jail != nullptr ? jail : GRADUS_JAIL, project.path(), jailPatience()},
                               clock);
        Workspace workspace;
        workspace.binds.push_back({GRADUS_GUEST, "/run/guest", false});
        return bare.open(workspace, limitsOf({{LimitName::kMemory, memory}}), Network::kNone, someone())
            ->run(guest(words));
    }
    static constexpr std::uint64_t kLimit = std::uint64_t{64} << 20;
    static constexpr const char* kMuch = "200000000";
};

TEST_F(Hoard, MemoryThatNoProcessHasMappedMeetsTheLimit) {
    for (const char* kind : {"memfd", "sysv"}) {
        const Outcome outcome = runWatched({"hoard", kind, kMuch}, kLimit);
        EXPECT_NE(outcome.verdict, Verdict::kOk) << kind << describe(outcome);
        EXPECT_TRUE(reportOf(outcome, LimitName::kMemory).tripped) << kind << describe(outcome);
    }
}

TEST_F(Hoard, FilesInMemoryMeetTheLimit) {
    const Outcome outcome = runWatched({"hoard", "file", kMuch, "/dev/shm/hoard"}, kLimit);
    EXPECT_NE(outcome.verdict, Verdict::kOk) << describe(outcome);
}

TEST_F(Hoard, LessThanTheLimitIsAllowed) {
    const Outcome outcome = runWatched({"use", "20"}, kLimit);
    EXPECT_EQ(outcome.verdict, Verdict::kOk) << describe(outcome);
}

TEST_F(Hoard, ADeletedFileThatIsOpenMeetsTheDiskLimit) {
    const HostProject project(someone());
    const HostProject layers(someone());
    std::filesystem::create_directory(layers.path() / "upper");
    std::filesystem::create_directory(layers.path() / "work");
    for (const char* name : {"upper", "work"})
        ASSERT_EQ(::chown((layers.path() / name).c_str(), someone().uid, someone().gid), 0);
    Workspace workspace = workspaceOf(project);
    workspace.overlays.front().upper = layers.path() / "upper";
    workspace.overlays.front().work = layers.path() / "work";
    const auto sandbox = backend().open(workspace, limitsOf({{LimitName::kDisk, kLimit}}), Network::kNone, someone());
    const Outcome outcome = sandbox->run(guest({"hoard", "deleted", kMuch, (project.path() / "f").native()}));
    EXPECT_EQ(outcome.verdict, Verdict::kLimit) << describe(outcome);
    EXPECT_TRUE(reportOf(outcome, LimitName::kDisk).tripped) << describe(outcome);
}

}  // namespace
}  // namespace gradus
