#include "pipeline/cli/completion.h"

#include <gtest/gtest.h>

#include "tests/pipeline/cli/sample_verbs.h"

namespace gradus {

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Completion, KnowsEveryWordAndOptionInEveryShell) {
    const VerbTable verbs = sampleVerbs();
    for (const std::string& script : {bashCompletion(verbs), zshCompletion(verbs), fishCompletion(verbs)}) {
        for (const char* word : {"audit", "query", "verify", "completion", "--since", "--follow", "--json", "policy"})
            EXPECT_TRUE(contains(script, word)) << word;
    }
}

TEST(Completion, OffersTheChoicesOfAnOption) {
    EXPECT_TRUE(contains(bashCompletion(sampleVerbs()), "'audit query --format') candidates='table ndjson'"));
    EXPECT_TRUE(contains(zshCompletion(sampleVerbs()), "'audit query --format') candidates=('table' 'ndjson')"));
}

TEST(Completion, QuotesTextForTheShellThatReadsIt) {
    const VerbTable verbs({{.words = "x",
                            .group = Group::kGradus,
                            .summary = "show the store's \\ state; $(rm)",
                            .examples = {},
                            .handler = answerNothing}});
    EXPECT_TRUE(contains(zshCompletion(verbs), "'x:show the store'\\''s \\ state; $(rm)'"));
    EXPECT_TRUE(contains(fishCompletion(verbs), "'show the store\\'s \\\\ state; $(rm)'"));
}

}  // namespace

}  // namespace gradus
