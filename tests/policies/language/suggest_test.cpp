#include "policies/language/suggest.h"

#include <gtest/gtest.h>

namespace gradus {
namespace {

TEST(Suggest, FindsTheNearestWord) {
    EXPECT_EQ(suggest("timout", {"timeout", "retries"}), "timeout");
    EXPECT_EQ(suggest("stagnig", {"staging", "sandbox"}), "staging");
}

TEST(Suggest, KeepsQuietWhereNothingIsNear) {
    EXPECT_FALSE(suggest("banana", {"timeout", "retries"}));
    EXPECT_FALSE(suggest("", {"a"}));
    EXPECT_FALSE(suggest(std::string(1000, 'a'), {"a"}));
}

}  // namespace
}  // namespace gradus
