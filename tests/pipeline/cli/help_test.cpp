#include "pipeline/cli/help.h"

#include <gtest/gtest.h>

#include <sstream>

#include "pipeline/cli/help_layout.h"
#include "store/model/utf8.h"
#include "tests/pipeline/cli/sample_verbs.h"

namespace gradus {

namespace {

const Paint kUncoloured(false);

void expectFits(const std::string& page) {
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(displayWidth(line), 80U) << line;
        EXPECT_FALSE(line.ends_with(' ')) << line;
    }
}

TEST(Help, FitsEightyColumnsOnEveryPage) {
    for (const VerbTable& verbs : {VerbTable(allVerbs()), sampleVerbs()}) {
        expectFits(overviewHelp(verbs, kUncoloured));
        for (const std::string& word : verbs.wordsAfter("")) expectFits(groupHelp(verbs, word, kUncoloured));
        for (const Verb& verb : verbs.all()) expectFits(verbHelp(verb, kUncoloured));
    }
}

TEST(Help, ListsEveryVerbOnTheFrontPage) {
    const VerbTable verbs(allVerbs());
    const std::string page = overviewHelp(verbs, kUncoloured);
    for (const Verb& verb : verbs.all())
        EXPECT_NE(page.find("\n  " + std::string(verb.words) + " "), std::string::npos) << verb.words;
}

TEST(Help, ShowsExamplesBeforeUsageAndOptions) {
    const std::string page = verbHelp(*sampleVerbs().find("audit query"), kUncoloured);
    EXPECT_EQ(page,
              "gradus audit query: list events\n"
              "\n"
              "Examples\n"
              "  gradus audit query --since 2d  the last two days\n"
              "\n"
              "Usage\n"
              "  gradus audit query [OPTION]... [CHANGE]\n"
              "\n"
              "Arguments\n"
              "  CHANGE  a change\n"
              "\n"
              "Options\n"
              "  --since TIME   from when on\n"
              "  --event KIND   only these; may be given several times\n"
              "  -n, --limit N  at most (default 100)\n"
              "  --format FORM  how: table, ndjson\n"
              "  -f, --follow   go on\n"
              "  -q, --quiet    say less\n"
              "\n"
              "Options of every verb\n"
              "  --json               answer with one JSON object on standard output\n"
              "  --color WHEN         colour the text: auto, always, never (default auto: on a\n"
              "                       terminal, unless NO_COLOR is set)\n"
              "  --no-color           the same as --color=never\n"
              "  -C, --directory DIR  run as if started in DIR\n"
              "  -h, --help           show the help of this verb\n");
}

TEST(Help, WritesTheUsageOfEveryShapeOfVerb) {
    const VerbTable verbs = sampleVerbs();
    EXPECT_EQ(usageLine(*verbs.find("try")), "gradus try [OPTION]... -- COMMAND...");
    EXPECT_EQ(usageLine(*verbs.find("lint")), "gradus lint [OPTION]... KIND FILE...");
    EXPECT_EQ(usageLine(*verbs.find("version")), "gradus version [OPTION]...");
}

TEST(Help, WrapsAtBlanks) {
    EXPECT_EQ(wrapWords("one two three", 7), (std::vector<std::string>{"one two", "three"}));
    EXPECT_EQ(wrapWords("unbreakable", 3), (std::vector<std::string>{"unbreakable"}));
    EXPECT_TRUE(wrapWords("", 10).empty());
}

TEST(Help, DescribesAVerbForPrograms) {
    const Json described = describeVerb(*sampleVerbs().find("try"));
    EXPECT_EQ(described["name"], "try");
    EXPECT_EQ(described["command"]["name"], "COMMAND");
    EXPECT_EQ(described["options"][0]["name"], "keep");
}

}  // namespace

}  // namespace gradus
