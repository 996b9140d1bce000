#include "policies/language/diagnostic.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/policies/language/loading.h"

namespace gradus {
namespace {

TEST(Diagnostic, IsShownInTheMannerOfRustc) {
    const LoadResult result = loadText(smallFile("timout = \"90s\"\n"));
    EXPECT_EQ(renderDiagnostics(result.diagnostics, false),
              "error: unknown key 'timout' in [check.unit]\n"
              " --> gradus.toml:6:1\n"
              "  |\n"
              "6 | timout = \"90s\"\n"
              "  | ^^^^^^ not a key of it\n"
              "  = help: did you mean 'timeout'?\n"
              "\n"
              "1 error\n");
}

std::string caretLine(const std::string& rendered) {
    const std::size_t at = rendered.find('^');
    const std::size_t start = rendered.rfind('\n', at) + 1;
    return rendered.substr(start, rendered.find('\n', at) - start);
}

TEST(Diagnostic, PutsTheCaretRightBehindTabsAndWideCharacters) {
    const std::string tab = renderDiagnostics(loadText(smallFile("\ttimout = 1\n")).diagnostics, false);
    EXPECT_EQ(caretLine(tab), "  |     ^^^^^^ not a key of it");
    const std::string wide = renderDiagnostics(loadText(smallFile("env = [\"日本=1\", 7]\n")).diagnostics, false);
    EXPECT_NE(wide.find("  |        ^^^^^^^^ does not"), std::string::npos) << wide;
    EXPECT_NE(wide.find("  |                  ^ must be a text"), std::string::npos) << wide;
}

TEST(Diagnostic, ShowsAWindowOfALongLine) {
    const std::string text =
        renderDiagnostics(loadText(smallFile("timeout = \"" + std::string(5000, 'x') + "\"\n")).diagnostics, false);
    EXPECT_LT(text.size(), 1500U);
    EXPECT_NE(text.find("…"), std::string::npos);
}

TEST(Diagnostic, EscapesWhatATerminalWouldObey) {
    const LoadResult result = loadText(smallFile("\"\\u001b[31m\" = 1 # \u202e\n"));
    const std::string text = renderDiagnostics(result.diagnostics, false);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_NE(text.find("unknown key '\\x1b[31m'"), std::string::npos) << text;
    EXPECT_NE(text.find("\\u{202e}"), std::string::npos);
}

TEST(Diagnostic, UsesColourOnlyWhenAsked) {
    const auto diagnostics = loadText(smallFile("timout = 1\n")).diagnostics;
    EXPECT_EQ(renderDiagnostics(diagnostics, false).find('\x1b'), std::string::npos);
    EXPECT_NE(renderDiagnostics(diagnostics, true).find("\x1b[1;31m"), std::string::npos);
}

TEST(Diagnostic, HasAJsonForm) {
    const auto json = nlohmann::json::parse(diagnosticsJson(loadText(smallFile("timout = 1\n")).diagnostics));
    ASSERT_EQ(json.size(), 1U);
    EXPECT_EQ(json[0]["code"], "unknown-key");
    EXPECT_EQ(json[0]["file"], "gradus.toml");
    EXPECT_EQ(json[0]["line"], 6);
    EXPECT_EQ(json[0]["column"], 1);
    EXPECT_EQ(json[0]["endColumn"], 7);
    EXPECT_EQ(json[0]["hint"], "did you mean 'timeout'?");
}

TEST(Diagnostic, StopsCountingAloudAfterManyAndSaysHowManyMore) {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += "zzz" + std::to_string(i) + " = 1\n";
    const auto diagnostics = loadText(smallFile(text)).diagnostics;
    EXPECT_EQ(diagnostics.size(), 201U);
    EXPECT_EQ(diagnostics.back().message, "800 more problems are not shown");
}

}  // namespace
}  // namespace gradus
