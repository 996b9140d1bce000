#include "pipeline/cli/shell_word.h"

#include <gtest/gtest.h>
#include <stdio.h>

#include <array>

namespace gradus {
namespace {

/// What sh makes of it.
std::string asShellReadsIt(const std::string& word) {
    const std::string command = "printf %s " + word;
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string read;
    std::array<char, 256> buffer{};
    for (std::size_t count = 0; (count = ::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
        read.append(buffer.data(), count);
    EXPECT_EQ(::pclose(pipe), 0) << command;
    return read;
}

TEST(ShellWord, LeavesPlainWordsAsTheyAre) {
    for (const char* word : {"s7", "/srv/shop-1.2", "a_b", "user@host:/x", "k=v,w", "+100%"})
        EXPECT_EQ(shellWord(word), word);
}

TEST(ShellWord, QuotesWhatAShellWouldReadDifferently) {
    EXPECT_EQ(shellWord(""), "''");
    EXPECT_EQ(shellWord("a b"), "'a b'");
    EXPECT_EQ(shellWord("it's"), "'it'\\''s'");
}

TEST(ShellWord, IsReadBackByAShellAsWhatItWas) {
    for (const std::string word : {"a b", "it's", "$(touch x)", "`id`", "a;b", "a\nb", "*", "~", "\\", "\"", "-n #x",
                                   "''", "grün", "!x", "a&b|c>d<e", "{a,b}"})
        EXPECT_EQ(asShellReadsIt(shellWord(word)), word);
}

}  // namespace
}  // namespace gradus
