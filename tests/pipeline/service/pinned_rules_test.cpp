#include "pipeline/service/pinned_rules.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "store/model/error.h"

namespace gradus {
namespace {

RuleFiles sample() { return {{{".gradus/policies/strict.toml", "x = 1\n"}, {"gradus.toml", std::string("a\0b", 3)}}}; }

TEST(PinnedRules, ComeBackAsTheyWere) {
    EXPECT_EQ(decodeRuleFiles(encodeRuleFiles(sample())), sample());
    EXPECT_EQ(decodeRuleFiles(encodeRuleFiles({})), RuleFiles{});
}

TEST(PinnedRules, CutAnywhereAreDamaged) {
    const std::string bytes = encodeRuleFiles(sample());
    for (std::size_t size = 0; size < bytes.size(); ++size)
        EXPECT_THROW(decodeRuleFiles(bytes.substr(0, size)), Error) << size;
    EXPECT_THROW(decodeRuleFiles(bytes + "x"), Error);
}

TEST(PinnedRules, WithAnyByteEditedAreOthersOrDamaged) {
    const std::string bytes = encodeRuleFiles(sample());
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        std::string edited = bytes;
        edited[at] = static_cast<char>(edited[at] ^ 1);
        try {
            EXPECT_NE(decodeRuleFiles(edited), sample()) << at;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::kDamaged);
        }
    }
}

RC_GTEST_PROP(PinnedRulesProperty, ComeBackAsTheyWere,
              (const std::vector<std::pair<std::string, std::string>>& pairs)) {
    RuleFiles files;
    for (const auto& [path, bytes] : pairs) files.files.push_back({path, bytes});
    RC_ASSERT(decodeRuleFiles(encodeRuleFiles(files)) == files);
}

}  // namespace
}  // namespace gradus
