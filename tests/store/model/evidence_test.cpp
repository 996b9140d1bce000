#include "store/model/evidence.h"
#include "tests/support/case.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace gradus {
namespace {

constexpr std::array kParts{&Evidence::tree,  &Evidence::change, &Evidence::base,
                            &Evidence::rules, &Evidence::check,  &Evidence::environment};

Evidence sampleEvidence() {
    Evidence evidence;
    for (std::size_t i = 0; i < kParts.size(); ++i) evidence.*kParts.at(i) = sha256("part " + std::to_string(i));
    return evidence;
}

TEST(EvidenceTest, CountsOnlyForExactlyWhatItWasTakenOn) {
    GRADUS_CASES("I8");
    std::set<std::string> seen{sampleEvidence().fingerprint().hex()};
    for (const auto part : kParts) {
        Evidence other = sampleEvidence();
        other.*part = sha256("something else");
        EXPECT_TRUE(seen.insert(other.fingerprint().hex()).second);
    }
    EXPECT_EQ(sampleEvidence().fingerprint(), sampleEvidence().fingerprint());
}

TEST(EvidenceTest, DoesNotConfuseOnePartWithAnother) {
    for (std::size_t i = 0; i + 1 < kParts.size(); ++i) {
        Evidence swapped = sampleEvidence();
        std::swap(swapped.*kParts.at(i), swapped.*kParts.at(i + 1));
        EXPECT_NE(swapped.fingerprint(), sampleEvidence().fingerprint()) << i;
    }
}

}  // namespace
}  // namespace gradus
