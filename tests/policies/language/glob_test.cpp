#include "policies/language/glob.h"

#include <gtest/gtest.h>

#include <chrono>

namespace gradus {
namespace {

bool matches(const char* pattern, const char* path) {
    const auto glob = Glob::parse(pattern);
    EXPECT_TRUE(glob) << pattern << " " << glob.problem;
    return glob && glob.value->matches(path);
}

TEST(Glob, WithoutASlashMatchesAtAnyDepth) {
    EXPECT_TRUE(matches(".env*", ".env"));
    EXPECT_TRUE(matches(".env*", "server/.env.local"));
    EXPECT_FALSE(matches(".env*", "server/.env/file"));
    EXPECT_FALSE(matches("a", "ba"));
}

TEST(Glob, WithASlashIsAnchoredAtTheProject) {
    EXPECT_TRUE(matches("src/*.cpp", "src/a.cpp"));
    EXPECT_FALSE(matches("src/*.cpp", "src/x/a.cpp"));
    EXPECT_FALSE(matches("src/*.cpp", "lib/src/a.cpp"));
    EXPECT_TRUE(matches("/a", "a"));
    EXPECT_FALSE(matches("/a", "b/a"));
}

TEST(Glob, ADoubleStarStandsForAnyNumberOfParts) {
    EXPECT_TRUE(matches("tests/**", "tests/a/b.py"));
    EXPECT_TRUE(matches("a/**/b", "a/b"));
    EXPECT_TRUE(matches("a/**/b", "a/x/y/b"));
    EXPECT_FALSE(matches("a/**/b", "a/xb"));
    EXPECT_TRUE(matches("**/migrations/**", "migrations/1.sql"));
    EXPECT_TRUE(matches("**/migrations/**", "db/migrations/1.sql"));
    EXPECT_FALSE(matches("**/migrations/**", "db/xmigrations/1.sql"));
    EXPECT_TRUE(matches("build/", "build/x/y"));
}

TEST(Glob, KnowsSetsQuestionMarksAndEscapes) {
    EXPECT_TRUE(matches("a[0-9]", "a7"));
    EXPECT_FALSE(matches("a[0-9]", "ax"));
    EXPECT_TRUE(matches("a[!0-9]", "ax"));
    EXPECT_FALSE(matches("a[!x]b", "a/b"));
    EXPECT_TRUE(matches("a?", "ab"));
    EXPECT_TRUE(matches("a\\*", "a*"));
    EXPECT_FALSE(matches("a\\*", "ab"));
    EXPECT_TRUE(matches("[]]", "]"));
}

TEST(Glob, RefusesWhatCannotBeMeant) {
    EXPECT_EQ(Glob::parse("").problem, "is empty");
    EXPECT_EQ(Glob::parse("../x").problem, "leaves the project through '..'");
    EXPECT_EQ(Glob::parse("a[b").problem, "has a '[' without its ']'");
    EXPECT_EQ(Glob::parse("[z-a]").problem, "has a range that ends before it starts");
    EXPECT_FALSE(Glob::parse("a**b"));
    EXPECT_FALSE(Glob::parse("a\\"));
    EXPECT_FALSE(Glob::parse("a//b"));
    EXPECT_FALSE(Glob::parse(std::string(2000, 'a')));
}

// PF9: a pattern that makes a backtracking matcher take longer than the universe.
TEST(Glob, NoPatternExplodes) {
    std::string pattern;
    for (int i = 0; i < 100; ++i) pattern += "*a";
    const auto glob = Glob::parse(pattern + "b");
    const std::string path(4000, 'a');
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(glob.value->matches(path));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

}  // namespace
}  // namespace gradus
