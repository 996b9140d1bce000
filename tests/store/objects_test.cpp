#include "store/objects.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/stat.h>

#include "tests/store/objects_rig.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

TEST_F(ObjectsTest, GivesBackWhatWasPutUnderItsSha256) {
    for (const std::string& content : {std::string(), std::string("x"), prose(1, 300'000), noise(1, 300'000),
                                       std::string(128 * 1024, 'a'), std::string(128 * 1024 + 1, 'a')}) {
        const Digest digest = objects_.put(content);
        EXPECT_EQ(digest, sha256(content));
        EXPECT_EQ(read(digest), content);
        EXPECT_EQ(objects_.size(digest), content.size());
        EXPECT_TRUE(objects_.contains(digest));
    }
    EXPECT_EQ(temporaries(), 0u);
}

TEST_F(ObjectsTest, ItDoesNotMatterInWhichPiecesTheContentComes) {
    const bool holds =
        rc::check("any pieces give the object of their whole", [this](const std::vector<std::string>& pieces) {
            Pieces source(pieces);
            std::string whole;
            for (const std::string& piece : pieces) whole += piece;
            RC_ASSERT(objects_.put(source) == sha256(whole));
            RC_ASSERT(read(sha256(whole)) == whole);
        });
    EXPECT_TRUE(holds);
    const std::string large = prose(2, 500'000);
    Pieces source({large.substr(0, 1), large.substr(1, 200'000), large.substr(200'001)});
    EXPECT_EQ(objects_.put(source), sha256(large));
    EXPECT_EQ(read(sha256(large)), large);
}

TEST_F(ObjectsTest, ReadsADescriptorToItsEnd) {
    const std::string content = prose(3, 1'000'000);
    writeBytes(scratch_.path() / "file", content);
    const FileDescriptor file = openFile(scratch_.path() / "file", O_RDONLY);
    EXPECT_EQ(objects_.putFrom(file.get(), scratch_.path() / "file"), sha256(content));
    const FileDescriptor folder = openFile(scratch_.path(), O_RDONLY);
    EXPECT_TRUE(mentions(errorOf([&] { objects_.putFrom(folder.get(), scratch_.path()); }), scratch_.path().native()));
}

TEST_F(ObjectsTest, ASourceThatFailsLeavesNothingBehind) {
    struct Failing final : ByteSource {
        int calls = 0;
        std::size_t read(std::span<char> space) override {
            if (++calls > 3) throw Error(ErrorCode::kInfrastructure, "the source is gone");
            std::ranges::fill(space, 'f');
            return space.size();
        }
    } source;
    EXPECT_TRUE(mentions(errorOf([&] { objects_.put(source); }), "the source is gone"));
    EXPECT_EQ(temporaries(), 0u);
    EXPECT_EQ(objects_.check().objects, 0u);
}

TEST_F(ObjectsTest, PacksWhatGetsSmallerAndLeavesTheRestRaw) {
    const Digest packed = objects_.put(prose(4, 400'000));
    const Digest raw = objects_.put(noise(4, 400'000));
    EXPECT_LT(fs::file_size(objects_.pathOf(packed)), 60'000u);
    EXPECT_EQ(fs::file_size(objects_.pathOf(raw)), 400'000u + 96);
}

TEST_F(ObjectsTest, TheFirstBlockDecidesTheEncoding) {
    const std::string content = noise(5, 128 * 1024) + prose(5, 400'000);
    EXPECT_EQ(fs::file_size(objects_.pathOf(objects_.put(content))), content.size() + 96);
}

TEST_F(ObjectsTest, StoresEqualContentsOnce) {
    const std::string content = noise(6, 200'000);
    const Digest digest = objects_.put(content);
    const ino_t inode = inodeOf(digest);
    Pieces source({content});
    EXPECT_EQ(objects_.put(content), digest);
    EXPECT_EQ(objects_.put(source), digest);
    EXPECT_EQ(inodeOf(digest), inode);
    EXPECT_EQ(objects_.check().objects, 1u);
    EXPECT_EQ(temporaries(), 0u);
}

TEST_F(ObjectsTest, AnAbsentObjectIsAnAnswerUnlessItIsNeeded) {
    const Digest digest = sha256("never stored");
    EXPECT_FALSE(objects_.contains(digest));
    EXPECT_FALSE(objects_.size(digest));
    EXPECT_FALSE(objects_.find(digest));
    EXPECT_FALSE(objects_.refresh(digest));
    const Error error = errorOf([&] { objects_.open(digest); });
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_TRUE(mentions(error, digest.hex()));
    EXPECT_FALSE(error.hint().empty());
}

TEST_F(ObjectsTest, ReadsNoMoreThanTheCallerCanTake) {
    const Digest digest = objects_.put(std::string(1001, 'z'));
    EXPECT_EQ(objects_.readAll(digest, 1001).size(), 1001u);
    EXPECT_EQ(errorOf([&] { objects_.readAll(digest, 1000); }).code(), ErrorCode::kNotAllowed);
}

TEST_F(ObjectsTest, AStoreIsMadeOnceAndOpenedAgain) {
    const Digest digest = objects_.put("kept");
    EXPECT_EQ(Objects(directory(), clock_).readAll(digest, kCap), "kept");
    EXPECT_EQ(bytesOf(directory() / "format"), "gradus objects 1\n");
}

TEST_F(ObjectsTest, AStoreHalfMadeIsMadeWhole) {
    const fs::path half = scratch_.path() / "half";
    fs::create_directories(half / "00");
    writeBytes(half / "format.tmp.1", "grad");
    Objects objects(half, clock_);
    EXPECT_EQ(objects.readAll(objects.put("x"), kCap), "x");
}

TEST_F(ObjectsTest, RefusesADirectoryThatHoldsSomethingElse) {
    writeBytes(scratch_.path() / "thesis.txt", "years of work");
    const Error error = errorOf([&] { Objects(scratch_.path(), clock_); });
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_TRUE(mentions(error, scratch_.path().native()));
    EXPECT_FALSE(fs::exists(scratch_.path() / "00"));
}

TEST_F(ObjectsTest, RefusesAStoreOfANewerReleaseNamingBoth) {
    writeBytes(directory() / "format", "gradus objects 2\n");
    const Error error = errorOf([&] { Objects(directory(), clock_); });
    EXPECT_TRUE(mentions(error, "gradus objects 2") && mentions(error, "gradus objects 1")) << error.what();
}

TEST_F(ObjectsTest, RefusesAFileOrAPipeWhereTheStoreShouldBe) {
    writeBytes(scratch_.path() / "file", "");
    EXPECT_TRUE(mentions(errorOf([&] { Objects(scratch_.path() / "file", clock_); }), "file"));
    fs::remove(directory() / "format");
    ASSERT_EQ(::mkfifo((directory() / "format").c_str(), 0600), 0);
    EXPECT_TRUE(mentions(errorOf([&] { Objects(directory(), clock_); }), "a named pipe"));
}

TEST_F(ObjectsTest, AStoreThatVanishedIsAFaultAndIsNotMadeAgain) {
    fs::remove_all(directory());
    EXPECT_TRUE(mentions(errorOf([&] { objects_.put("x"); }), directory().native()));
    EXPECT_FALSE(fs::exists(directory()));
}

TEST_F(ObjectsTest, AFanOutDirectoryTidiedAwayIsMadeAgain) {
    const Digest digest = sha256("x");
    fs::remove(objects_.pathOf(digest).parent_path());
    EXPECT_FALSE(objects_.contains(digest));
    EXPECT_EQ(objects_.sweep(kNothingIsReferenced, clock_.now(), 0ms).removed, 0u);
    EXPECT_EQ(read(objects_.put("x")), "x");
}

}  // namespace
}  // namespace gradus
