#include "plugins/isolation/system_copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "plugins/isolation/loop_image.h"
#include "store/model/error.h"
#include "store/privilege.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

TEST(SystemCopy, KnowsTheIdsThatAUserMayGiveAway) {
    const std::string file = "ada:100000:65536\n# a comment\neve:200000:1\n1000:300000:10\nada:x:y\nada:5\n";
    const auto ranges = subordinateIds(file, "ada", 1000);
    ASSERT_EQ(ranges.size(), 2U);
    EXPECT_EQ(ranges[0].first, 100000U);
    EXPECT_EQ(ranges[0].count, 65536U);
    EXPECT_EQ(ranges[1].first, 300000U);
    EXPECT_TRUE(subordinateIds(file, "bob", 1).empty());
}

TEST(SystemCopy, NobodysPasswordIsInIt) {
    const SystemCopy copy = planSystemCopy("/nowhere");
    ASSERT_FALSE(copy.overlays.empty());
    EXPECT_EQ(copy.overlays.front().target, "/");
    const auto shadow = std::find_if(copy.seeds.begin(), copy.seeds.end(),
                                     [](const PrivateFile& seed) { return seed.target == "/etc/shadow"; });
    ASSERT_NE(shadow, copy.seeds.end());
    EXPECT_TRUE(shadow->content.starts_with("root:*:::::::\n")) << shadow->content;
    EXPECT_EQ(shadow->content.find('$'), std::string::npos);
}

// Root inside reads whatever it sees: a list that was cut short would show the rest.
TEST(SystemCopy, IsRefusedWhereMoreIsClosedThanCanBeHidden) {
    if (!isMachineRoot()) GTEST_SKIP() << "an ordinary user's copy shows what that user may see";
    const std::vector<fs::path> closed = closedPlaces();
    ASSERT_GT(closed.size(), 1U);
    EXPECT_EQ(closedPlaces(closed.size()), closed);
    try {
        closedPlaces(closed.size() - 1);
        FAIL() << "one of them was left out";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kNotAllowed);
        EXPECT_NE(error.hint().find("--system"), std::string::npos) << error.hint();
    }
}

TEST(LoopImage, IsBoundedLocksItselfAndLeavesNothing) {
    if (!isMachineRoot()) GTEST_SKIP() << "only root mounts images";
    const test::ScratchDirectory scratch;
    const fs::path image = scratch / "image";
    makeLoopImage(image, 5 << 20, scratch / "templates");
    EXPECT_LE(fs::file_size(image), 5U << 20);
    {
        const FileDescriptor top = openLoopImage(image, false);
        EXPECT_EQ(::mkdirat(top.get(), "made", 0700), 0);
        EXPECT_THROW(openLoopImage(image, true), Error) << "somebody else is writing to it";
    }
    const FileDescriptor one = openLoopImage(image, true);
    const FileDescriptor other = openLoopImage(image, true);
    EXPECT_EQ(::faccessat(one.get(), "made", F_OK, 0), 0);
    EXPECT_EQ(::mkdirat(other.get(), "more", 0700), -1);
    EXPECT_EQ(errno, EROFS);
}

}  // namespace
}  // namespace gradus
