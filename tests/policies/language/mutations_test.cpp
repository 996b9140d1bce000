#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "policies/language/schema.h"
#include "tests/policies/language/loading.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> corpus() {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(fs::path(GRADUS_SOURCE_DIR) / "tests/fuzz/corpus"))
        paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<std::string> texts;
    for (const fs::path& path : paths) {
        std::ostringstream text;
        text << std::ifstream(path, std::ios::binary).rdbuf();
        texts.push_back(text.str());
    }
    return texts;
}

/// Whatever the bytes are: an answer, never a fault; and every error tells the way out.
void expectAnAnswer(const std::string& text, const Vocabulary& vocabulary) {
    const LoadResult result = load(pipelineOf(text), vocabulary, {"/etc/gradus/ceiling.toml", "network = \"none\"\n"});
    ASSERT_NE(result.pipeline.has_value(), hasErrors(result.diagnostics));
    for (const Diagnostic& d : result.diagnostics) {
        ASSERT_FALSE(d.hint.empty()) << d.message << "\n" << text;
        ASSERT_FALSE(d.message.empty());
    }
    renderDiagnostics(result.diagnostics, true);
    diagnosticsJson(result.diagnostics);
    if (result.pipeline) rulesDigest(*result.pipeline), effectiveRules(*result.pipeline);
}

TEST(Mutations, TheCorpusIsAnswered) {
    const Vocabulary vocabulary = builtinVocabulary();
    ASSERT_GE(corpus().size(), 5U);
    for (const std::string& text : corpus()) expectAnAnswer(text, vocabulary);
}

class Mutator {
  public:
    explicit Mutator(std::vector<std::string> texts) : texts_(std::move(texts)) {}

    std::string next() {
        std::string text = pick(texts_);
        for (std::size_t i = 0, edits = 1 + below(4); i < edits; ++i) edit(text);
        return text;
    }

  private:
    std::size_t below(std::size_t bound) { return random_() % bound; }
    const std::string& pick(const std::vector<std::string>& from) { return from[below(from.size())]; }

    void edit(std::string& text) {
        static const std::vector<std::string> pieces{"\"",
                                                     "'",
                                                     "[",
                                                     "]",
                                                     "{",
                                                     "}",
                                                     "=",
                                                     ".",
                                                     "\n",
                                                     "#",
                                                     "\\",
                                                     "\"\"\"",
                                                     "-",
                                                     "99999999999999999999",
                                                     "nan",
                                                     "true",
                                                     "[[",
                                                     "]]",
                                                     "a = 1\n",
                                                     "\xff",
                                                     std::string(1, '\0'),
                                                     "\t",
                                                     "\r",
                                                     "extends = \"x\"\n",
                                                     "日",
                                                     "1979-05-27"};
        const std::size_t at = below(text.size() + 1);
        const std::size_t length = below(20);
        switch (below(4)) {
            case 0:
                text.insert(at, pick(pieces));
                break;
            case 1:
                text.erase(at, length);
                break;
            case 2:
                text.replace(at, std::min(length, text.size() - at), pick(pieces));
                break;
            default: {
                const std::string& other = pick(texts_);
                const std::size_t from = below(other.size() + 1);
                text.insert(at, other.substr(from, below(80)));
            }
        }
    }

    std::vector<std::string> texts_;
    std::mt19937 random_{20260301};
};

TEST(Mutations, ThousandsOfDamagedFilesAreAnswered) {
    const Vocabulary vocabulary = builtinVocabulary();
    Mutator mutator(corpus());
    for (int i = 0; i < 3000; ++i) {
        expectAnAnswer(mutator.next(), vocabulary);
        if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace gradus
