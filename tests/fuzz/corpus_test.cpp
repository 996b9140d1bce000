// What the fuzzers are given to begin with, and thousands of damaged copies of it, without a fuzzer: the same in every
// build. An input that breaks something ends the test by a signal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/support/effort.h"

extern "C" int loaderInput(const std::uint8_t* data, std::size_t size);
extern "C" int patchInput(const std::uint8_t* data, std::size_t size);

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

using Fuzzer = int (*)(const std::uint8_t*, std::size_t);

std::vector<std::string> corpusIn(const fs::path& directory) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(directory)) files.push_back(entry.path());
    std::ranges::sort(files);
    std::vector<std::string> inputs;
    for (const fs::path& file : files) {
        std::ifstream in(file, std::ios::binary);
        inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    return inputs;
}

/// A few bytes changed, a piece left out, repeated, or taken from another input.
std::string damaged(std::string input, const std::vector<std::string>& corpus, std::mt19937& chance) {
    const auto below = [&](std::size_t end) { return end == 0 ? 0 : chance() % end; };
    const std::size_t at = below(input.size());
    const std::size_t length = below(std::min<std::size_t>(input.size() - at, 64) + 1);
    const std::string& other = corpus[below(corpus.size())];
    switch (chance() % 5) {
        case 0:
            for (std::size_t i = 0; i <= below(4) && !input.empty(); ++i)
                input[below(input.size())] = static_cast<char>(chance());
            return input;
        case 1:
            return input.erase(at, length);
        case 2:
            return input.insert(at, input.substr(at, length));
        case 3:
            return input.insert(at, other.substr(below(other.size()), length));
        default:
            return input.substr(0, at);
    }
}

void feed(Fuzzer fuzzer, const std::string& folder) {
    const std::vector<std::string> corpus = corpusIn(fs::path(GRADUS_SOURCE_DIR) / "tests/fuzz" / folder);
    ASSERT_GE(corpus.size(), 4U);
    std::mt19937 chance(20261118);
    const auto give = [&](const std::string& input) {
        EXPECT_EQ(fuzzer(reinterpret_cast<const std::uint8_t*>(input.data()), input.size()), 0);
    };
    for (const std::string& input : corpus) {
        give(input);
        for (int round = 0; round < (isLong() ? 10'000 : 300); ++round) {
            std::string bad = damaged(input, corpus, chance);
            give(bad);
            give(damaged(std::move(bad), corpus, chance));
        }
    }
}

TEST(FuzzCorpus, TheLoaderOfRulesHasAnAnswerToEachInputAndItsDamagedCopies) { feed(loaderInput, "corpus"); }

TEST(FuzzCorpus, TheReaderOfPatchesHasAnAnswerToEachInputAndItsDamagedCopies) { feed(patchInput, "patches"); }

}  // namespace
}  // namespace gradus::test
