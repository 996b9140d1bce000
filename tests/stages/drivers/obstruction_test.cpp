// What keeps a way back from coming to its end.
#include "stages/drivers/obstruction.h"

#include <gtest/gtest.h>

#include <fstream>

#include "stages/changes/room.h"
#include "tests/support/scratch.h"

namespace gradus::test {
namespace {

TEST(Obstructions, SayHowMuchRoomIsWantedWhere) {
    const ScratchDirectory scratch;
    EXPECT_FALSE(shortOfRoom(scratch.path(), {.bytes = 1, .files = 1}, {}));
    const std::uint64_t much = std::uint64_t{1} << 60;
    const auto found = shortOfRoom(scratch.path(), {.bytes = much, .files = 3}, {});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->code, ErrorCode::kInfrastructure);
    const std::string wanted = std::to_string(much) + " bytes and 3 files into " + scratch.path().native();
    EXPECT_NE(found->reason.find(wanted), std::string::npos) << found->reason;
}

TEST(Obstructions, HalfOfWhatIsGivenUpForItIsRoom) {
    const ScratchDirectory scratch;
    const std::filesystem::path reserve = scratch / "reserve";
    std::ofstream(reserve).put(' ');
    // It takes no room itself, and counts by its size.
    std::filesystem::resize_file(reserve, std::uint64_t{1} << 40);
    const std::uint64_t more = roomAt(scratch.path())->bytes + (std::uint64_t{1} << 38);
    EXPECT_TRUE(shortOfRoom(scratch.path(), {.bytes = more, .files = 0}, {}));
    EXPECT_FALSE(shortOfRoom(scratch.path(), {.bytes = more, .files = 0}, reserve));
}

TEST(Obstructions, ADirectoryThatIsNotThereIsNotClosed) {
    const ScratchDirectory scratch;
    EXPECT_FALSE(closed(scratch.path()));
    EXPECT_FALSE(closed(scratch / "none"));
}

}  // namespace
}  // namespace gradus::test
