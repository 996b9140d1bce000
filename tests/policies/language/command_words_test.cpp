#include "policies/language/command_words.h"

#include <gtest/gtest.h>

namespace gradus {
namespace {

using Words = std::vector<std::string>;

TEST(CommandWords, SplitsAtSpacesAndKeepsQuotedOnesTogether) {
    EXPECT_EQ(splitCommand("pytest -q").value, (Words{"pytest", "-q"}));
    EXPECT_EQ(splitCommand("  a   'b c'  \"d e\"f ''").value, (Words{"a", "b c", "d ef", ""}));
}

// PF6: what a title or a branch name holds can never become a command.
TEST(CommandWords, RefusesWhatOnlyAShellUnderstands) {
    EXPECT_EQ(splitCommand("echo ${change.title}").problem, "has '${', which only a shell understands");
    EXPECT_EQ(splitCommand("echo \"$(rm -rf ~)\"").problem, "has '$(', which only a shell understands");
    EXPECT_EQ(splitCommand("echo `id`").problem, "has '`', which only a shell understands");
    EXPECT_EQ(splitCommand("a && b").problem, "has '&&', which only a shell understands");
    EXPECT_EQ(splitCommand("a | b").problem, "has '|', which only a shell understands");
}

TEST(CommandWords, TakesSingleQuotesAtTheirWord) {
    EXPECT_EQ(splitCommand("grep '${x}' '|'").value, (Words{"grep", "${x}", "|"}));
    EXPECT_EQ(splitCommand("pytest -k a$").value, (Words{"pytest", "-k", "a$"}));
}

TEST(CommandWords, RefusesAnOpenQuoteAndNothingAtAll) {
    EXPECT_EQ(splitCommand("echo 'a").problem, "has an opening ' without its end");
    EXPECT_EQ(splitCommand("  ").problem, "is empty");
}

}  // namespace
}  // namespace gradus
