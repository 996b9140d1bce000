#include "pipeline/cli/verb_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "pipeline/cli/parser.h"
#include "tests/pipeline/cli/sample_verbs.h"

namespace gradus {

namespace {

// These hold for every row anyone adds: the parser, the help and the completions rely on them.

TEST(EveryVerb, HasAShortSummaryAndAnExampleOfItself) {
    for (const Verb& verb : allVerbs()) {
        EXPECT_FALSE(verb.summary.empty()) << verb.words;
        EXPECT_LE(verb.summary.size(), 64U) << verb.words;
        EXPECT_FALSE(verb.summary.ends_with('.')) << verb.words;
        ASSERT_FALSE(verb.examples.empty()) << verb.words;
        for (const Example& example : verb.examples) {
            EXPECT_NE(example.command.find("gradus " + std::string(verb.words)), std::string_view::npos)
                << example.command;
            EXPECT_FALSE(example.doc.empty()) << example.command;
        }
        EXPECT_TRUE(verb.handler) << verb.words;
    }
}

TEST(EveryVerb, HasWordsOfItsOwnAndIsFoundByThem) {
    const VerbTable verbs(allVerbs());
    for (const Verb& verb : verbs.all()) {
        std::vector<std::string> words;
        std::istringstream split{std::string(verb.words)};
        for (std::string word; split >> word;) words.push_back(word);
        // With an option in between, too.
        for (std::size_t at = 0; at <= words.size(); ++at) {
            std::vector<std::string> typed = words;
            typed.insert(typed.begin() + static_cast<std::ptrdiff_t>(at), "--json");
            EXPECT_EQ(resolveVerb(verbs, typed).verb->words, verb.words);
        }
        EXPECT_EQ(std::ranges::count(verbs.all(), verb.words, &Verb::words), 1) << verb.words;
    }
}

TEST(EveryVerb, HasOptionsWithDistinctNamesAndLettersAndDocs) {
    for (const Verb& verb : allVerbs()) {
        std::set<std::string_view> names;
        std::set<char> letters;
        for (const auto* options : {&verb.options, &globalOptions()}) {
            for (const Option& option : *options) {
                EXPECT_TRUE(names.insert(option.name).second) << verb.words << " --" << option.name;
                EXPECT_TRUE(option.letter == '\0' || letters.insert(option.letter).second)
                    << verb.words << " -" << option.letter;
                EXPECT_FALSE(option.doc.empty()) << verb.words << " --" << option.name;
                EXPECT_TRUE(option.choices.empty() || !option.isFlag()) << verb.words << " --" << option.name;
            }
        }
    }
}

TEST(EveryVerb, HasOptionalAndRepeatedPositionalsLast) {
    for (const Verb& verb : allVerbs()) {
        for (std::size_t i = 0; i + 1 < verb.positionals.size(); ++i) {
            EXPECT_FALSE(verb.positionals[i].repeated) << verb.words;
            EXPECT_TRUE(verb.positionals[i].required || !verb.positionals[i + 1].required) << verb.words;
        }
    }
}

TEST(VerbTable, FindsVerbsAndWhatIsBelowAGroup) {
    const VerbTable verbs = sampleVerbs();
    EXPECT_EQ(verbs.find("audit query")->summary, "list events");
    EXPECT_EQ(verbs.find("audit"), nullptr);
    EXPECT_EQ(verbs.below("audit").size(), 2U);
    EXPECT_EQ(verbs.below("aud").size(), 0U);
    EXPECT_EQ(verbs.wordsAfter("audit"), (std::vector<std::string>{"query", "verify"}));
    EXPECT_EQ(std::ranges::count(verbs.wordsAfter(""), "audit"), 1);
}

}  // namespace

}  // namespace gradus
