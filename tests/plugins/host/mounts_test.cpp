#include "plugins/host/mounts.h"

#include <gtest/gtest.h>

namespace gradus {
namespace {

namespace fs = std::filesystem;

std::vector<HostMount> sampleMounts() {
    return parseMounts(
        "1 0 8:1 / / rw,relatime - ext4 /dev/vda rw\n"
        "2 1 8:2 / /home rw - ext4 /dev/vdb rw\n"
        "3 1 8:1 /root/deep /srv/deep rw - ext4 /dev/vda rw\n"
        "4 1 8:1 / /mnt/whole\\040disk ro,nosuid shared:1 - ext4 /dev/vda rw\n"
        "5 1 8:2 /ada /srv/ada rw - ext4 /dev/vdb rw\n"
        "not a mount\n");
}

TEST(Mounts, AreReadWithWhatTheyShow) {
    const auto mounts = sampleMounts();
    ASSERT_EQ(mounts.size(), 5U);
    EXPECT_EQ(mounts[3].path, "/mnt/whole disk");
    EXPECT_TRUE(mounts[3].readOnly);
    EXPECT_FALSE(mounts[0].readOnly);
    EXPECT_EQ(mounts[4].top, "/ada");
    EXPECT_EQ(mounts[4].type, "ext4");
}

TEST(Mounts, AreReadWithTheirEscapesAndTheTopmostIsSeen) {
    const auto mounts =
        topmost(parseMounts("36 35 98:0 / / rw shared:1 - ext4 /dev/root rw\n"
                            "40 36 0:1 / /srv/a\\040b\\134c\\012d\\9 rw - tmpfs none rw\n"
                            "41 36 0:2 / /srv/x rw - tmpfs none rw\n"
                            "42 41 0:3 / /srv/x rw master:2 propagate_from:1 - xfs /dev/y rw\n"
                            "nonsense\n"
                            "- - - -\n"));
    ASSERT_EQ(mounts.size(), 3U);
    EXPECT_EQ(mounts[1].path, "/srv/a b\\c\nd\\9");
    EXPECT_EQ(mounts[2].type, "xfs") << "the topmost of two";
    EXPECT_EQ(mountsBelow(mounts, "/srv").size(), 2U);
    EXPECT_EQ(mountsBelow(mounts, "/srv/x").size(), 0U) << "the directory itself is not below itself";
    EXPECT_EQ(mountsBelow(mounts, "/sr").size(), 0U);
}

TEST(Mounts, ShowEveryOtherWayToAPlace) {
    const auto mounts = sampleMounts();
    const auto aliases = [&](const char* path) { return aliasesOf(path, mounts); };
    EXPECT_EQ(aliases("/root"), (std::vector<fs::path>{"/srv/deep", "/mnt/whole disk/root"}));
    EXPECT_EQ(aliases("/root/deep/key"), (std::vector<fs::path>{"/srv/deep/key", "/mnt/whole disk/root/deep/key"}));
    EXPECT_EQ(aliases("/home"), (std::vector<fs::path>{"/srv/ada"}));
    EXPECT_EQ(aliases("/home/ada/.ssh"), (std::vector<fs::path>{"/srv/ada/.ssh"}));
    EXPECT_EQ(aliases("/home/eve"), std::vector<fs::path>{});
}

TEST(Mounts, OfTheKernelAreKnownByTheirType) {
    EXPECT_TRUE(isOfTheKernel("proc"));
    EXPECT_TRUE(isOfTheKernel("nsfs"));
    EXPECT_FALSE(isOfTheKernel("ext4"));
    EXPECT_FALSE(isOfTheKernel("tmpfs"));
}

}  // namespace
}  // namespace gradus
