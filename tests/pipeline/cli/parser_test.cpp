#include "pipeline/cli/parser.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "tests/pipeline/cli/sample_verbs.h"

namespace gradus {

namespace {

using Words = std::vector<std::string>;

// Owns the table that the arguments point into.
struct Parsed {
    explicit Parsed(const Words& words) : call(resolveVerb(verbs, words)), arguments(parseArguments(call)) {}
    VerbTable verbs = sampleVerbs();
    VerbCall call;
    Arguments arguments;
};

struct Mistake {
    Words words;
    std::string message;
    std::string hint;
};

void expectMistake(const Mistake& mistake) {
    const std::string line = testing::PrintToString(mistake.words);
    try {
        const Parsed parsed(mistake.words);
        ADD_FAILURE() << "accepted " << line;
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUsage) << line;
        EXPECT_NE(std::string(error.what()).find(mistake.message), std::string::npos) << line << ": " << error.what();
        EXPECT_NE(error.hint().find(mistake.hint), std::string::npos) << line << ": " << error.hint();
        EXPECT_NE(error.hint().find("see 'gradus help"), std::string::npos) << line << ": " << error.hint();
    }
}

TEST(Parser, RefusesEveryKindOfMistakeWithTheVerbAndAWayOut) {
    const std::vector<Mistake> mistakes = {
        {{"adit"}, "gradus: unknown verb 'adit'", "did you mean 'audit'?"},
        {{"audit", "qurey"}, "gradus audit: unknown verb 'qurey'", "did you mean 'query'?"},
        {{"verify"}, "unknown verb 'verify'", "did you mean 'audit verify'?"},
        {{"zzzzzz"}, "unknown verb 'zzzzzz'", "see 'gradus help'"},
        {{""}, "unknown verb ''", "see 'gradus help'"},
        {{"--jsno", "version"}, "unknown option '--jsno' before the verb", "did you mean '--json'?"},
        {{"--since", "2d", "audit", "query"}, "unknown option '--since' before the verb", "after the verb"},
        {{"-x", "version"}, "unknown option '-x' before the verb", ""},
        {{"--", "version"}, "a verb is missing before '--'", ""},
        {{"audit", "--", "query"}, "gradus audit: a verb is missing", "see 'gradus help audit'"},
        {{"audit", "query", "--sicne", "2d"},
         "gradus audit query: unknown option '--sicne'",
         "did you mean '--since'?"},
        {{"audit", "query", "-x"}, "unknown option '-x'", ""},
        {{"audit", "query", "-since"}, "unknown option '-since'", "did you mean '--since'?"},
        {{"audit", "query", "--since"}, "option '--since' needs a value", "gradus help audit query"},
        {{"audit", "query", "--since", "--"}, "option '--since' needs a value", ""},
        {{"audit", "query", "--limit", "-5"}, "option '--limit' needs a value", "write '--limit=-5'"},
        {{"audit", "query", "-n"}, "option '-n' needs a value", ""},
        {{"audit", "query", "--since="}, "option '--since' has an empty value", ""},
        {{"audit", "query", "--since", ""}, "option '--since' has an empty value", ""},
        {{"audit", "query", "--follow=yes"}, "option '--follow' takes no value", ""},
        {{"audit", "query", "--since", "1d", "--since=2d"}, "option '--since' is given twice", ""},
        {{"audit", "query", "-f", "--follow"}, "option '--follow' is given twice", ""},
        {{"audit", "query", "--format", "ndjsn"}, "takes table, ndjson, not 'ndjsn'", "did you mean 'ndjson'?"},
        {{"audit", "query", "--color", "sometimes"}, "takes auto, always, never, not 'sometimes'", ""},
        {{"audit", "query", "c1", "c2"}, "gradus audit query: unexpected argument 'c2'", ""},
        {{"audit", "query", ""}, "CHANGE is empty", ""},
        {{"version", "now"}, "gradus version: unexpected argument 'now'", "gradus help version"},
        {{"lint"}, "KIND (policy, pipeline) is missing", "KIND: what they are"},
        {{"lint", "policy"}, "FILE is missing", "FILE: a file"},
        {{"lint", "polcy", "x"}, "KIND takes policy, pipeline, not 'polcy'", "did you mean 'policy'?"},
        {{"try"}, "the command is missing", "gradus try -- COMMAND"},
        {{"try", "--"}, "the command is missing", "gradus try -- COMMAND"},
        {{"try", "make", "test"}, "unexpected argument 'make'", "gradus try -- make"},
        {{"completion", "tcsh"}, "SHELL takes bash, zsh, fish, not 'tcsh'", ""},
        {{"completion", "bsah"}, "not 'bsah'", "did you mean 'bash'?"},
        {{"-C"}, "option '-C' needs a value", ""},
    };
    for (const Mistake& mistake : mistakes) expectMistake(mistake);
}

TEST(Parser, TakesAValueAfterABlankOrAnEqualsSign) {
    EXPECT_EQ(Parsed({"audit", "query", "--since", "2d"}).arguments.value("since"), "2d");
    EXPECT_EQ(Parsed({"audit", "query", "--since=2d"}).arguments.value("since"), "2d");
    EXPECT_EQ(Parsed({"audit", "query", "--since=a=b"}).arguments.value("since"), "a=b");
    EXPECT_EQ(Parsed({"audit", "query", "-n5"}).arguments.value("limit"), "5");
    EXPECT_EQ(Parsed({"audit", "query", "-n", "5"}).arguments.value("limit"), "5");
    EXPECT_EQ(Parsed({"audit", "query", "--since", "-"}).arguments.value("since"), "-");
}

TEST(Parser, TakesFlagsRunTogether) {
    const Parsed parsed({"audit", "query", "-fqn7"});
    EXPECT_TRUE(parsed.arguments.flag("follow"));
    EXPECT_TRUE(parsed.arguments.flag("quiet"));
    EXPECT_EQ(parsed.arguments.value("limit"), "7");
}

TEST(Parser, KeepsEveryValueOfARepeatableOption) {
    const Parsed parsed({"audit", "query", "--event", "a", "--event=b"});
    EXPECT_EQ(parsed.arguments.values("event"), (Words{"a", "b"}));
}

TEST(Parser, LeavesWhatWasNotGivenEmpty) {
    const Parsed parsed({"audit", "query"});
    EXPECT_FALSE(parsed.arguments.value("since"));
    EXPECT_FALSE(parsed.arguments.flag("follow"));
    EXPECT_FALSE(parsed.arguments.positional("CHANGE"));
}

TEST(Parser, AcceptsGlobalOptionsBeforeBetweenAndAfterTheWordsOfAVerb) {
    for (const Words& words :
         {Words{"--json", "-C", "audit", "audit", "query"}, Words{"audit", "--json", "-Caudit", "query"},
          Words{"audit", "query", "--json", "--directory=audit"}}) {
        const Parsed parsed(words);
        EXPECT_EQ(parsed.call.verb->words, "audit query");
        EXPECT_TRUE(parsed.arguments.flag("json"));
        EXPECT_EQ(parsed.arguments.value("directory"), "audit");
    }
}

TEST(Parser, HandsTheWordsAfterTheDashesToACommandUntouched) {
    const Words command = {"--json", "-h", "--", "", "--keep=x", "audit"};
    Words words = {"try", "--keep", "--"};
    words.insert(words.end(), command.begin(), command.end());
    const Parsed parsed(words);
    EXPECT_EQ(parsed.call.verb->words, "try");
    EXPECT_EQ(parsed.arguments.command(), command);
    EXPECT_FALSE(parsed.arguments.flag("json"));
}

RC_GTEST_PROP(Parser, NeverChangesAnythingAfterTheDashes, (const Words& command)) {
    RC_PRE(!command.empty());
    Words words = {"try", "--"};
    words.insert(words.end(), command.begin(), command.end());
    RC_ASSERT(Parsed(words).arguments.command() == command);
}

RC_GTEST_PROP(Parser, AnswersAnyWordsWithAVerbOrAUsageError, ()) {
    const auto word =
        rc::gen::element<std::string>("audit", "query", "try", "--", "-", "", "--json", "--json=", "-C", "-Cx",
                                      "--limit", "-n", "-fq", "help", "--help", "lint", "policy", "=", "--=");
    const Words words = *rc::gen::container<Words>(word);
    try {
        const Parsed parsed(words);
        RC_ASSERT(parsed.call.verb != nullptr);
    } catch (const Error& error) {
        RC_ASSERT(error.code() == ErrorCode::kUsage);
    }
}

TEST(Parser, TakesWordsAfterTheDashesAsPositionalsWhereThereIsNoCommand) {
    const Parsed parsed({"lint", "policy", "a", "--", "-x", "--json"});
    EXPECT_EQ(parsed.arguments.positionals("FILE"), (Words{"a", "-x", "--json"}));
}

TEST(Parser, MakesHelpOfAnIncompleteOrHelpSeekingCall) {
    struct Row {
        Words words;
        Words helpOn;
    };
    const std::vector<Row> rows = {{{}, {}},
                                   {{"--json"}, {}},
                                   {{"audit"}, {"audit"}},
                                   {{"-h"}, {}},
                                   {{"audit", "--help"}, {"audit"}},
                                   {{"--help", "audit", "query"}, {"audit", "query"}},
                                   {{"audit", "query", "--nonsense", "-h"}, {"audit", "query"}},
                                   {{"--nonsense", "-h", "version"}, {"version"}},
                                   {{"try", "-h", "--", "x"}, {"try"}},
                                   {{"help", "audit", "query"}, {"audit", "query"}}};
    for (const Row& row : rows) {
        const Parsed parsed(row.words);
        EXPECT_EQ(parsed.call.verb->words, "help") << testing::PrintToString(row.words);
        EXPECT_EQ(parsed.arguments.positionals("VERB"), row.helpOn) << testing::PrintToString(row.words);
    }
}

TEST(Parser, KnowsVersionAsAnOptionToo) {
    EXPECT_EQ(Parsed({"--version"}).call.verb->words, "version");
    EXPECT_EQ(Parsed({"-V", "--json"}).call.verb->words, "version");
    EXPECT_TRUE(Parsed({"-V", "--json"}).arguments.flag("json"));
}

TEST(Arguments, ReadsWholeNumbersInARange) {
    EXPECT_EQ(Parsed({"audit", "query", "--limit=0"}).arguments.number("limit", 0, 10), 0);
    EXPECT_EQ(Parsed({"audit", "query", "--limit=-3"}).arguments.number("limit", -5, 10), -3);
    EXPECT_EQ(Parsed({"audit", "query"}).arguments.number("limit", 1, 10), std::nullopt);
    for (const std::string text : {"11", "0", "-1", "1.5", "5x", "0x5", " 5", "+5", "99999999999999999999", "five"}) {
        const Parsed parsed({"audit", "query", "--limit=" + text});
        EXPECT_THROW(parsed.arguments.number("limit", 1, 10), Error) << text;
    }
}

TEST(Arguments, TreatsANameThatIsNotInTheRowAsABug) {
    const Parsed parsed({"audit", "query"});
    EXPECT_THROW(parsed.arguments.flag("sinse"), std::logic_error);
    EXPECT_THROW(parsed.arguments.positional("FILE"), std::logic_error);
}

}  // namespace

}  // namespace gradus
