#include "store/model/digest.h"

#include <gtest/gtest.h>

#include "store/model/canonical.h"

namespace gradus {
namespace {

TEST(Digest, IsTheSha256OfTheBytes) {
    EXPECT_EQ(sha256("abc").hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256("").hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Digest, AHasherIsReadyForTheNextMessageAfterFinish) {
    Hasher hasher;
    hasher.update("something else").finish();
    EXPECT_EQ(hasher.update("a").update("bc").finish(), sha256("abc"));
}

TEST(Digest, ReadsOnlyExactHexadecimal) {
    const Digest digest = sha256("x");
    EXPECT_EQ(Digest::fromHex(digest.hex()), digest);
    EXPECT_FALSE(Digest::fromHex(digest.hex().substr(1)));
    EXPECT_FALSE(Digest::fromHex(digest.hex() + "0"));
    std::string upper = digest.hex();
    upper[0] = 'G';
    EXPECT_FALSE(Digest::fromHex(upper));
}

TEST(Canonical, FieldsCannotBorrowBytesFromTheirNeighbours) {
    EXPECT_NE(Canonical("t.1").text("ab").text("c").bytes(), Canonical("t.1").text("a").text("bc").bytes());
    EXPECT_NE(Canonical("t.1").text("").bytes(), Canonical("t.1").absent().bytes());
    EXPECT_NE(Canonical("t.1").number(0).bytes(), Canonical("t.1").absent().bytes());
    EXPECT_NE(Canonical("t.1").text("a").bytes(), Canonical("t.2").text("a").bytes());
    EXPECT_NE(Canonical("t.1").list(1).text("a").bytes(), Canonical("t.1").list(0).text("a").bytes());
}

TEST(Canonical, HasTheDocumentedBytes) {
    EXPECT_EQ(Canonical("x").text("hi").number(258).bytes(), std::string("D\1\0\0\0x"
                                                                         "t\2\0\0\0hi"
                                                                         "n\2\1\0\0\0\0\0\0",
                                                                         6 + 7 + 9));
}

}  // namespace
}  // namespace gradus
