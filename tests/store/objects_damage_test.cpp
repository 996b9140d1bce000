#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zstd.h>

#include "tests/store/objects_rig.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

using ObjectsDamage = ObjectsTest;

TEST_F(ObjectsDamage, NoDamagedByteEverPasses) {
    for (const std::string& content : {prose(8, 600), noise(8, 600), std::string()}) {
        const Digest digest = objects_.put(content);
        const std::string file = bytesOf(objects_.pathOf(digest));
        for (std::size_t at = 0; at < file.size(); ++at) {
            hurt(digest, at, std::string(1, static_cast<char>(file[at] ^ 0x10)));
            try {
                // A flipped bit that the packed form ignores is harmless; other bytes are not.
                EXPECT_EQ(read(digest), content) << "byte " << at;
                EXPECT_GE(at, 80u);
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), ErrorCode::kDamaged) << error.what();
                EXPECT_TRUE(mentions(error, objects_.pathOf(digest).native()));
                EXPECT_FALSE(error.hint().empty());
            }
            overwrite(digest, file);
        }
    }
}

TEST_F(ObjectsDamage, AFileCutAnywhereIsFoundOut) {
    const Digest digest = objects_.put(prose(9, 600));
    const std::string file = bytesOf(objects_.pathOf(digest));
    for (std::size_t length = 0; length < file.size(); ++length) {
        overwrite(digest, file.substr(0, length));
        EXPECT_EQ(errorOf([&] { objects_.contains(digest); }).code(), ErrorCode::kDamaged) << length;
    }
    overwrite(digest, file + "x");
    EXPECT_EQ(errorOf([&] { objects_.contains(digest); }).code(), ErrorCode::kDamaged);
}

TEST_F(ObjectsDamage, TheLastPieceComesOnlyAfterTheDigestWasProven) {
    const std::string content = noise(10, 400'000);
    const Digest digest = objects_.put(content);
    hurt(digest, 80 + 5, "?????");
    ObjectReader reader = objects_.open(digest);
    std::vector<char> space(100'000);
    std::size_t got = 0;
    const Error error = errorOf([&] {
        while (got < content.size()) got += reader.read(space);
    });
    EXPECT_EQ(error.code(), ErrorCode::kDamaged);
    EXPECT_LT(got, content.size());
}

TEST_F(ObjectsDamage, AFileUnderAnotherObjectsNameIsNotThatObject) {
    const Digest one = objects_.put("one");
    const Digest two = objects_.put("two");
    overwrite(two, bytesOf(objects_.pathOf(one)));
    EXPECT_TRUE(mentions(errorOf([&] { objects_.open(two); }), one.hex()));
}

TEST_F(ObjectsDamage, PuttingReplacesAnEmptyOrTornFileByAWholeOne) {
    const std::string content = prose(11, 5'000);
    const Digest digest = objects_.put(content);
    const std::string file = bytesOf(objects_.pathOf(digest));
    const std::string zeros(file.size(), '\0');
    std::string torn = file;
    torn.replace(80, 20, 20, '\0');
    for (const std::string& broken : {std::string(), file.substr(0, 50), file.substr(0, 100), zeros, torn}) {
        overwrite(digest, broken);
        EXPECT_FALSE(objects_.refresh(digest));
        EXPECT_EQ(objects_.put(content), digest);
        EXPECT_EQ(read(digest), content);
    }
    EXPECT_EQ(temporaries(), 0u);
}

TEST_F(ObjectsDamage, ALargeObjectIsBelievedByItsHeaderLengthAndSeal) {
    const std::string content = noise(12, 2 << 20);
    const Digest digest = objects_.put(content);
    const std::string file = bytesOf(objects_.pathOf(digest));
    overwrite(digest, file.substr(0, file.size() - 16) + std::string(16, '\0'));
    EXPECT_FALSE(objects_.refresh(digest));
    objects_.put(content);
    EXPECT_TRUE(objects_.refresh(digest));
    EXPECT_EQ(read(digest), content);
}

/// The documented format, written by hand: what somebody else's hands can write, too.
std::string handMade(const Digest& digest, char encoding, std::uint64_t size, std::string_view payload) {
    std::string file = "GRADOBJ1";
    file += encoding;
    file.append(7, '\0');
    for (const std::uint64_t number : {size, std::uint64_t{payload.size()}})
        for (int shift = 0; shift < 64; shift += 8) file += static_cast<char>(number >> shift & 0xff);
    file += digest.view();
    const std::string seal(sha256(file).view().substr(0, 16));
    return file + seal + std::string(payload) + seal;
}

std::string zstdOf(std::string_view bytes) {
    std::string packed(ZSTD_compressBound(bytes.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 1));
    return packed;
}

TEST_F(ObjectsDamage, ReadsWhatFollowsTheDocumentedFormat) {
    const std::string content = prose(13, 1000);
    const Digest digest = sha256(content);
    writeBytes(objects_.pathOf(digest), handMade(digest, 1, content.size(), zstdOf(content)));
    EXPECT_EQ(read(digest), content);
    writeBytes(objects_.pathOf(digest), handMade(digest, 0, content.size(), content));
    EXPECT_EQ(read(digest), content);
    writeBytes(objects_.pathOf(digest), handMade(digest, 9, content.size(), content));
    EXPECT_TRUE(mentions(errorOf([&] { read(digest); }), "encoding"));
}

TEST_F(ObjectsDamage, ABombNeverUnpacksBeyondItsRecordedSize) {
    const std::string zeros(std::size_t{50} << 20, '\0');
    const Digest digest = sha256(zeros.substr(0, 10));
    writeBytes(objects_.pathOf(digest), handMade(digest, 1, 10, zstdOf(zeros)));
    ObjectReader reader = objects_.open(digest);
    std::vector<char> space(std::size_t{1} << 20, 'x');
    EXPECT_TRUE(mentions(errorOf([&] { reader.read(space); }), "more than was stored"));
    EXPECT_EQ(space[10], 'x');
}

TEST_F(ObjectsDamage, APayloadThatEndsEarlyOrGoesOnIsDamaged) {
    const std::string content = prose(14, 1000);
    const Digest digest = sha256(content);
    const std::string packed = zstdOf(content);
    writeBytes(objects_.pathOf(digest), handMade(digest, 1, content.size() + 1, packed));
    EXPECT_EQ(errorOf([&] { read(digest); }).code(), ErrorCode::kDamaged);
    writeBytes(objects_.pathOf(digest), handMade(digest, 1, content.size(), packed + zstdOf("more")));
    EXPECT_EQ(errorOf([&] { read(digest); }).code(), ErrorCode::kDamaged);
}

TEST_F(ObjectsDamage, AThingThatIsNoFileInAnObjectsPlaceIsNamedAndNeverWaitedFor) {
    const Digest digest = sha256("x");
    const fs::path path = objects_.pathOf(digest);
    const auto expectRefused = [&](std::string_view kind) {
        for (const Error& error : {errorOf([&] { objects_.contains(digest); }), errorOf([&] { objects_.open(digest); }),
                                   errorOf([&] { objects_.put("x"); })}) {
            EXPECT_TRUE(mentions(error, kind) && mentions(error, path.native())) << error.what();
            EXPECT_FALSE(error.hint().empty());
        }
        EXPECT_EQ(objects_.check().strays, std::vector<fs::path>{path});
        EXPECT_EQ(objects_.sweep(kNothingIsReferenced, clock_.now() + 1h, 0ms).strays, std::vector<fs::path>{path});
        EXPECT_TRUE(fs::exists(fs::symlink_status(path)));
        fs::remove(path);
    };
    fs::create_directory(path);
    expectRefused("a directory");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    expectRefused("a named pipe");
    fs::create_symlink("/etc/passwd", path);
    expectRefused("a symbolic link");
    fs::create_symlink(path, path);
    expectRefused("a symbolic link");
}

TEST_F(ObjectsDamage, TheCheckReadsEverythingAndNamesWhatIsDamaged) {
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < 20; ++i) {
        const std::string content = prose(i, 1000 * i);
        bytes += content.size();
        objects_.put(content);
    }
    ObjectsCheck check = objects_.check();
    EXPECT_EQ(check.objects, 20u);
    EXPECT_EQ(check.bytes, bytes);
    EXPECT_EQ(check.damaged, 0u);
    const Digest hurtOne = sha256(prose(7, 7000));
    hurt(hurtOne, 80 + 30, "!");
    check = objects_.check();
    EXPECT_EQ(check.objects, 19u);
    EXPECT_EQ(check.damaged, 1u);
    ASSERT_EQ(check.flaws.size(), 1u);
    EXPECT_EQ(check.flaws[0].file, objects_.pathOf(hurtOne));
}

}  // namespace
}  // namespace gradus
