#include <gtest/gtest.h>

#include <chrono>

#include "policies/language/document.h"
#include "tests/policies/language/loading.h"

namespace gradus {
namespace {

std::string repeated(std::string_view piece, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += piece;
    return text;
}

TEST(BadInput, RefusesDeepKeysBeforeTheyAreParsed) {  // PF1: 100k parts overflow the stack of the TOML parser
    for (const std::string& text :
         {repeated("a.", 100'000) + "b = 1\n", "[" + repeated("a.", 100'000) + "b]\n",
          "[[" + repeated("a.", 100'000) + "b]]\n", "x = { " + repeated("a . ", 60'000) + "b = 1 }\n",
          repeated("\"a\".", 50'000) + "b = 1\n", repeated("'a' .\t", 40'000) + "b = 1\n"}) {
        const Diagnostic found = onlyDiagnostic(loadText(text));
        EXPECT_EQ(found.message, "key nesting deeper than 32");
        EXPECT_EQ(found.span.begin.line, 1U);
        EXPECT_GT(found.span.begin.column, 32U);
        EXPECT_FALSE(found.hint.empty());
    }
}

TEST(BadInput, RefusesDeepListsAndTables) {
    for (const std::string& text :
         {"x = " + repeated("[", 100'000), "x = " + repeated("{a=", 80'000), "x = " + repeated("[\n", 100'000)})
        EXPECT_EQ(onlyDiagnostic(loadText(text)).message, "value nesting deeper than 32");
}

TEST(BadInput, DepthIsNotMistakenForTextOrComments) {
    const std::string dots = repeated("a.", 100);
    EXPECT_TRUE(
        loadText(smallFile("# " + dots + "[[[[\n[policy.x]\ndescription = \"" + dots + "\\\"[[[\"\n")).pipeline);
    EXPECT_TRUE(loadText(smallFile("[policy.x]\ndescription = '" + dots + "'\n")).pipeline);
    EXPECT_TRUE(loadText(smallFile("[policy.x]\ndescription = \"\"\"\n" + dots + "\"\"\"\"\"\n")).pipeline);
}

TEST(BadInput, RefusesAFileThatIsTooLarge) {  // PF2
    std::string text;
    for (int i = 0; i < 40'000; ++i) text += "[t" + std::to_string(i) + "]\n";
    const Diagnostic found = onlyDiagnostic(loadText(text));
    EXPECT_EQ(found.code, "too-large");
    EXPECT_EQ(found.message, "the file is larger than 256 KiB");
}

TEST(BadInput, RefusesWhatIsNotPlainUtf8) {
    EXPECT_EQ(onlyDiagnostic(loadText("\xef\xbb\xbf[pipeline]\n")).message, "the file begins with a byte order mark");
    EXPECT_EQ(onlyDiagnostic(loadText(std::string("\xff\xfe[\0", 4))).message, "the file is UTF-16, not UTF-8");
    const Diagnostic invalid = onlyDiagnostic(loadText("[pipeline]\nname = \"\xc3\x28\"\n"));
    EXPECT_EQ(invalid.message, "the file is not UTF-8");
    EXPECT_EQ(invalid.span.begin, (Position{2, 9}));
    const Diagnostic zero = onlyDiagnostic(loadText(std::string("[pipeline]\nna\0me", 16)));
    EXPECT_EQ(zero.message, "the file has a zero byte");
    EXPECT_EQ(zero.span.begin, (Position{2, 3}));
}

TEST(BadInput, TakesWindowsLineEndsAsTheyAre) {
    std::string text;
    for (const char c : smallFile("timout = 1\n")) text += c == '\n' ? std::string("\r\n") : std::string(1, c);
    const Diagnostic found = onlyDiagnostic(loadText(text));
    EXPECT_EQ(found.span.begin, (Position{6, 1}));
    EXPECT_EQ(found.sourceLine, "timout = 1");
}

TEST(BadInput, RefusesAnEmptyFile) {
    for (const char* text : {"", "\n", "# nothing\n"}) {
        const Diagnostic found = onlyDiagnostic(loadText(text));
        EXPECT_EQ(found.message, "the file has no [pipeline]");
        EXPECT_EQ(found.span.begin, (Position{1, 1}));
    }
}

TEST(BadInput, RefusesRulesWithoutAPipelineFile) {
    EXPECT_EQ(onlyDiagnostic(load({}, builtinVocabulary(), {})).code, "missing-file");
}

struct Syntax {
    const char* text;
    Position at;
    const char* message;
};

TEST(BadInput, SaysSyntaxErrorsInItsOwnWords) {
    for (const Syntax& c : {
             Syntax{"a = \"abc\nb = 1\n", {1, 9}, "this text is not closed or holds a control character"},
             Syntax{"a = 'abc\n", {1, 9}, "this text is not closed or holds a control character"},
             Syntax{"a = \"abc", {1, 9}, "this text is not closed"},
             Syntax{"[pipeline]\nname='x'\nstages=['sandbox']\nname='y'\n", {4, 1}, "this key is already set"},
             Syntax{"[a]\n[a]\n", {2, 1}, "this table is already defined"},
             Syntax{"a = \n", {1, 5}, "a value is missing"},
             Syntax{"[x\n", {1, 3}, "this section header is not closed"},
             Syntax{"a = 1 b = 2\n", {1, 7}, "something follows the value"},
             Syntax{"a = 99999999999999999999\n", {1, 25}, "this number is too large"},
             Syntax{"a = tru\n", {1, 8}, "this is neither true nor false"},
             Syntax{"a = \"\\q\"\n", {1, 7}, "this escape does not exist in TOML"},
             Syntax{"a = {b=1\n}\n", {1, 9}, "this inline table is not well formed"},
             Syntax{"a = [1,\n", {1, 8}, "this list is not closed"},
             Syntax{"a\n", {1, 2}, "a key without a value"},
             Syntax{"= 3\n", {1, 1}, "this is not TOML"},
         }) {
        const Diagnostic found = onlyDiagnostic(loadText(c.text));
        EXPECT_EQ(found.message, c.message) << c.text;
        EXPECT_EQ(found.span.begin.line, c.at.line) << c.text;
        EXPECT_EQ(found.span.begin.column, c.at.column) << c.text;
        EXPECT_FALSE(found.hint.empty());
        EXPECT_FALSE(found.reason.empty());
    }
}

TEST(BadInput, ManyWrongNamesDoNotTakeLong) {
    std::string text = smallFile();
    for (int i = 0; text.size() < kLargestRuleFile - 100; ++i)
        text += "[check.a" + std::to_string(i) + "]\nrun='x'\nneeds=['b" + std::to_string(i) + "']\n";
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(loadText(text).pipeline);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(BadInput, ALongChainOfNeedsOrPoliciesIsNotADeepStack) {
    std::string needs = smallFile();
    for (int i = 0; needs.size() < kLargestRuleFile - 100; ++i)
        needs += "[check.a" + std::to_string(i) + "]\nrun='x'\nneeds=['a" + std::to_string(i + 1) + "']\n";
    EXPECT_FALSE(loadText(needs).pipeline);
    std::string policies = smallFile();
    for (int i = 0; policies.size() < kLargestRuleFile - 100; ++i)
        policies += "[policy.a" + std::to_string(i) + "]\nextends='a" + std::to_string(i + 1) + "'\n";
    EXPECT_FALSE(loadText(policies).pipeline);
}

}  // namespace
}  // namespace gradus
