// Git's ignore rules, by examples and against git itself.
#include "stages/changes/ignore_rules.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "stages/changes/ignored_paths.h"
#include "tests/stages/changes/git_program.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

struct Example {
    const char* rules;
    const char* path;
    bool isDirectory;
    bool ignored;
};

TEST(IgnoreRulesTest, ReadsGitsExamples) {
    const std::vector<Example> examples{
        {"*.o", "a.o", false, true},
        {"*.o", "d/a.o", false, true},
        {"*.o", "a.oo", false, false},
        {"/a", "a", false, true},
        {"/a", "d/a", false, false},
        {"d/a", "d/a", false, true},
        {"d/a", "x/d/a", false, false},
        {"build/", "build", true, true},
        {"build/", "build", false, false},
        {"**/foo", "a/b/foo", false, true},
        {"**/foo", "foo", false, true},
        {"abc/**", "abc/x/y", false, true},
        {"abc/**", "abc", true, false},
        {"a/**/b", "a/b", false, true},
        {"**//a", "x/a", false, false},
        {"a/**/b", "a/x/y/b", false, true},
        {"a/*/b", "a/x/y/b", false, false},
        {"*\n!keep", "keep", false, false},
        {"!keep\n*", "keep", false, true},
        {"# comment", "# comment", false, false},
        {"\\#file", "#file", false, true},
        {"\\!file", "!file", false, true},
        {"name   ", "name", false, true},
        {"name\\ ", "name ", false, true},
        {"crlf\r\n", "crlf", false, true},
        {"\xef\xbb\xbf"
         "bom",
         "bom", false, true},
        {"[a-c]x", "bx", false, true},
        {"[!a-c]x", "bx", false, false},
        {"[[:digit:]]", "7", false, true},
        {"[[:wrong:]]", "7", false, false},
        {"[", "[", false, false},
        {"a[]]b", "a]b", false, true},
        {"x\\", "x\\", false, false},
        {"a?c", "abc", false, true},
        {"/a?c", "a/c", false, false},
        {"/", "a", true, false},
        {"!", "a", true, false},
        {"", "a", true, false},
        {"no-newline-at-end", "no-newline-at-end", false, true},
    };
    for (const Example& example : examples)
        EXPECT_EQ(IgnoreRules(example.rules).judge(example.path, example.isDirectory).value_or(false), example.ignored)
            << '"' << example.rules << "\" for " << example.path;
}

// A pattern from inside a sandbox must not make the host think for ever.
TEST(IgnoreRulesTest, MatchesHostilePatternsInGoodTime) {
    std::string pattern = "/x?";
    std::string path = "xx";
    for (int i = 0; i < 60; ++i) pattern += "*a**/[ab]*";
    for (int i = 0; i < 400; ++i) path += "a/";
    path += "c";
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(IgnoreRules(pattern).judge(path, false).value_or(false));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

const std::vector<std::string> kPaths{
    "a",     "b",     "ab",   "a.o",   "b.o",     "#a",     "!a",       "a ",      "a]b",       "a-b",
    "A",     "d/a",   "d/b",  "d/a.o", "d/e/a",   "d/e/ab", "d/e/a.o",  "d/e/f/a", "d/e/f/b.o", "e/a",
    "e/d/a", "e/d/b", "aa/a", "aa/bb", "aa/d/ab", "ab.d/a", "ab.d/b",   "d/d/d/a", "a b/a",     "a*b",
    "d/a*",  "x[y",   "0",    "d/#",   "d/!a",    "d/1",    "aa/e/e/a", "aab",     "d/e/x.y.o"};

std::string randomPattern(std::mt19937& random) {
    static const std::vector<std::string> kPieces{"a",       "b",
                                                  "d",       "e",
                                                  "*",       "**",
                                                  "?",       "/",
                                                  "/",       ".o",
                                                  "[a",      "[ab]",
                                                  "[!a]",    "[a-e]",
                                                  "[]a]",    "[[:alpha:]]",
                                                  "\\",      "\\a",
                                                  " ",       "!",
                                                  "#",       "ab",
                                                  "aa",      "**/",
                                                  "/**",     "[^b]",
                                                  "*.o",     "]",
                                                  "-",       "[[:x:]]",
                                                  "[\\]a]",  "[a-",
                                                  "[b-\\e]", "[[:alpha:]-z]",
                                                  "\\*",     "d/",
                                                  "/*/",     "a*",
                                                  "*a"};
    std::string pattern;
    if (random() % 6 == 0) pattern = "!";
    for (std::size_t i = 0, n = 1 + random() % 5; i < n; ++i) pattern += kPieces[random() % kPieces.size()];
    if (random() % 8 == 0) pattern += "/";
    if (random() % 10 == 0) pattern += "  ";
    if (random() % 10 == 0) pattern += "\r";
    return pattern;
}

bool isIgnoredHere(const fs::path& root, const std::string& path) {
    IgnoredPaths ignored(root, {});
    IgnoredPaths::Scope scope = ignored.outermost();
    for (std::size_t begin = 0;;) {
        const std::string directory = path.substr(0, begin == 0 ? 0 : begin - 1);
        if (const auto rules = readPlainFile(AT_FDCWD, root / directory / ".gitignore", IgnoredPaths::kRulesCap))
            scope = ignored.within(scope, directory, *rules);
        const std::size_t end = path.find('/', begin);
        const std::string part = path.substr(0, end);
        if (ignored.isExcluded(scope, part, fs::is_directory(root / part))) return true;
        if (end == std::string::npos) return false;
        begin = end + 1;
    }
}

TEST(IgnoreRulesTest, AgreesWithGitOnRandomRules) {
    if (!test::hasGit()) GTEST_SKIP() << "git is not installed";
    const test::ScratchDirectory scratch;
    const fs::path root = scratch / "repository";
    fs::create_directory(root);
    test::shell(root, "git init -q");
    std::set<std::string> asked;
    std::string question;
    for (const std::string& path : kPaths) {
        fs::create_directories((root / path).parent_path());
        std::ofstream(root / path) << "x";
        for (std::size_t slash = path.find('/');; slash = path.find('/', slash + 1)) {
            if (asked.insert(path.substr(0, slash)).second) question += path.substr(0, slash) + '\0';
            if (slash == std::string::npos) break;
        }
    }
    std::ofstream(scratch / "question", std::ios::binary) << question;
    std::mt19937 random(::getenv("RC_PARAMS") != nullptr ? std::hash<std::string>{}(::getenv("RC_PARAMS")) : 1);
    const int rounds = ::getenv("GRADUS_LONG") != nullptr ? 20'000 : 400;
    int ignoredPaths = 0;
    for (int round = 0; round < rounds; ++round) {
        std::string all;
        for (const char* file :
             {".gitignore", "d/.gitignore", "aa/.gitignore", "d/e/.gitignore", ".git/info/exclude"}) {
            std::string rules;
            for (std::size_t i = 0, n = random() % 4; i < n; ++i) rules += randomPattern(random) + "\n";
            std::ofstream(root / file, std::ios::binary) << rules;
            all += fmt::format("{}:\n{}", file, rules);
        }
        const auto expected = test::splitNul(test::shell(root, "git check-ignore --no-index -z --stdin < ../question"));
        std::set<std::string> ours;
        for (const std::string& path : asked)
            if (isIgnoredHere(root, path)) ours.insert(path);
        ASSERT_EQ(ours, expected) << "round " << round << "\n" << all;
        ignoredPaths += static_cast<int>(ours.size());
    }
    EXPECT_GT(ignoredPaths, rounds) << "the rules hardly ever matched";
}

}  // namespace
}  // namespace gradus
