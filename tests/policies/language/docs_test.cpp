#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "policies/language/reference.h"
#include "policies/language/schema.h"
#include "tests/policies/language/loading.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

std::string readAll(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

/// The page as generated; GRADUS_UPDATE=1 writes it instead of comparing.
void expectGenerated(const fs::path& path, const std::string& generated) {
    if (std::getenv("GRADUS_UPDATE") != nullptr) std::ofstream(path, std::ios::binary) << generated;
    EXPECT_TRUE(readAll(path) == generated) << path << " is out of date; run this test with GRADUS_UPDATE=1";
}

TEST(ReferencePage, IsTheGeneratedOne) {
    expectGenerated(fs::path(GRADUS_SOURCE_DIR) / "docs/reference/pipeline-file.md",
                    referenceMarkdown(builtinVocabulary()));
}

TEST(ReferencePage, TheSchemaIsTheGeneratedOne) {
    expectGenerated(fs::path(GRADUS_SOURCE_DIR) / "docs/gradus.schema.json", schemaJson(builtinVocabulary()));
}

struct Example {
    std::string kind;  // what follows ```toml: nothing, "fragment" or "policy"
    std::string text;
};

std::vector<Example> examplesIn(const fs::path& path) {
    std::ifstream file(path);
    std::vector<Example> examples;
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        if (!inside && line.starts_with("```toml")) {
            inside = true;
            examples.push_back({line.substr(std::min<std::size_t>(line.size(), 8)), ""});
        } else if (line == "```") {
            inside = false;
        } else if (inside) {
            examples.back().text += line + "\n";
        }
    }
    return examples;
}

TEST(PipelineFilePage, EveryExampleLoadsWithoutComplaint) {
    const auto examples = examplesIn(fs::path(GRADUS_SOURCE_DIR) / "docs/pipeline-file.md");
    EXPECT_GE(examples.size(), 5U);
    const std::string frame =
        "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"local\", \"production\"]\n[check.unit]\nrun = \"make "
        "test\"\n"
        "[stage.production]\ndriver = \"release-directory\"\npath = \"/srv/shop\"\n";
    for (const Example& example : examples) {
        const RuleFiles files = example.kind == "policy"     ? withPolicy(frame, "example", example.text)
                                : example.kind == "fragment" ? pipelineOf(frame + example.text)
                                                             : pipelineOf(example.text);
        const bool ceiling = example.kind == "ceiling";
        const LoadResult result = ceiling ? loadText(frame, {"/etc/gradus/ceiling.toml", example.text})
                                          : load(files, builtinVocabulary(), {});
        EXPECT_TRUE(result.diagnostics.empty()) << example.text << renderDiagnostics(result.diagnostics, false);
    }
}

}  // namespace
}  // namespace gradus
