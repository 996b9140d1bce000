// What a hostile layer may cost the one who looks at it.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/stages/changes/overlay_rig.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::told;
using test::writeText;
using Lines = std::vector<std::string>;

class HarvestBounds : public test::OverlayTest {};

void makeSparse(const fs::path& path, std::uintmax_t size) {
    writeText(path, "");
    fs::resize_file(path, size);
}

std::string faultOf(test::OverlayRig& rig, const HarvestOptions& options) {
    try {
        rig.harvest(options);
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}

// Each of them is just beyond the bound: hashing up to it takes seconds, and hours for a thousand.
TEST_F(HarvestBounds, AFileOfTooManyHolesIsRefusedBeforeItIsRead) {
    rig().begin();
    for (int i = 0; i < 20; ++i) makeSparse(in("sparse" + std::to_string(i)), (std::uintmax_t{2} << 30) + 65536);
    const auto begin = std::chrono::steady_clock::now();
    const Harvest harvest = rig().harvest({.maxHoles = std::uint64_t{2} << 30});
    EXPECT_EQ(harvest.refused.size(), 20U);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(HarvestBounds, ThePiecesOfAFileAreBounded) {
    rig().begin();
    writeText(in("pieces"), "");
    fs::resize_file(in("pieces"), 64 << 20);
    const FileDescriptor file = openFile(in("pieces"), O_WRONLY);
    for (off_t at = 0; at < 64 << 20; at += 1 << 20) ASSERT_EQ(::pwrite(file.get(), "x", 1, at), 1);
    EXPECT_EQ(rig().harvest({.maxExtents = 1000}).changes.changes().size(), 1U);
    EXPECT_EQ(rig().harvest({.maxExtents = 10}).refused.size(), 1U);
}

TEST_F(HarvestBounds, TheBytesOfPathsAreBounded) {
    rig().begin();
    fs::path deep = in("");
    for (int i = 0; i < 8; ++i) deep /= std::string(200, 'd');
    fs::create_directories(deep);
    for (int i = 0; i < 20; ++i) writeText(deep / std::to_string(i), "");
    EXPECT_EQ(rig().harvest({.maxPathBytes = 60'000}).changes.changes().size(), 28U);
    EXPECT_EQ(faultOf(rig(), {.maxPathBytes = 20'000}), "the changed paths are longer than 20000 bytes together");
}

TEST_F(HarvestBounds, DirectoriesOfARepositoryCount) {
    rig().begin();
    for (int i = 0; i < 30; ++i) fs::create_directories(in(".git/objects") / std::to_string(i));
    EXPECT_EQ(faultOf(rig(), {.maxEntries = 20}), "more than 20 paths were changed in the repository's own directory");
}

TEST_F(HarvestBounds, ContentsAreNotReadWhereNobodyAsksForThem) {
    writeText(base("same"), "same");
    writeText(base("shorter"), "before");
    writeText(base("other"), "1234");
    rig().begin();
    writeText(in("new"), "text");
    makeSparse(in("huge"), std::uintmax_t{1} << 40);
    writeText(in("same"), "same");
    writeText(in("shorter"), "now");
    writeText(in("other"), "5678");
    const Harvest harvest = rig().harvest({.maxBytes = 16, .readsContents = false});
    EXPECT_EQ(told(harvest), (Lines{"added huge", "added new", "modified other", "modified shorter"}));
    EXPECT_EQ(harvest.changes.changes()[1].after->digest, Digest{});
    EXPECT_EQ(harvest.changes.changes()[1].after->size, 4U);
}

TEST_F(HarvestBounds, TheWalkEndsWhenItIsStopped) {
    rig().begin();
    writeText(in("new"), "text");
    std::stop_source stop;
    EXPECT_EQ(faultOf(rig(), {.cancel = stop.get_token()}), "");
    stop.request_stop();
    EXPECT_EQ(faultOf(rig(), {.cancel = stop.get_token()}), "listing the changes was stopped");
}

// Within one file, too: it may be a terabyte.
TEST_F(HarvestBounds, AFileIsNotReadOnAfterTheTime) {
    rig().begin();
    makeSparse(in("sparse"), std::uintmax_t{1} << 40);
    const auto begin = std::chrono::steady_clock::now();
    const std::string fault =
        faultOf(rig(), {.maxHoles = std::uint64_t{1} << 41, .until = begin + std::chrono::milliseconds(50)});
    EXPECT_EQ(fault, "listing the changes took longer than the wall-time limit leaves for it");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace gradus
