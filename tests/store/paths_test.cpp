#include "store/paths.h"

#include <gtest/gtest.h>

namespace gradus {
namespace {

TEST(Paths, ADirectoryHoldsItselfAndWhatIsBelow) {
    for (const char* path : {"/a/b", "/a/b/c", "/a/b/c/d"}) EXPECT_TRUE(isAtOrBelow(path, "/a/b")) << path;
    for (const char* path : {"/a", "/", "/a/bc", "/a/b.c", "/c/a/b"}) EXPECT_FALSE(isAtOrBelow(path, "/a/b")) << path;
    EXPECT_TRUE(isWithin(std::filesystem::path("a/b"), std::filesystem::path("a")));
}

TEST(Paths, TheTopHoldsEverything) {
    EXPECT_TRUE(isAtOrBelow("/a", "/"));
    EXPECT_TRUE(isAtOrBelow("/", "/"));
    EXPECT_TRUE(isAtOrBelow("a/b", "")) << "what relative names begin at";
    EXPECT_FALSE(isAtOrBelow("", "a"));
}

}  // namespace
}  // namespace gradus
