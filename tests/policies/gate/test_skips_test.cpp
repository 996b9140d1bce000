#include "policies/gate/test_skips.h"

#include <gtest/gtest.h>

#include "policies/gate/gate.h"
#include "policies/gate/overrides.h"
#include "policies/language/keys.h"
#include "tests/policies/gate/gate_fixture.h"

namespace gradus {
namespace {

TEST(TestSkips, KnowsTheWordsOfUsualFrameworks) {
    for (const char* line : {"@pytest.mark.skip(reason=\"flaky\")", "it.skip('adds', () => {})", "xit('adds')",
                             "t.Skip()", "#[ignore]", "GTEST_SKIP() << \"later\";", "TEST(Sum, DISABLED_Adds) {",
                             "@Disabled", "@Ignore", "@unittest.skip(\"x\")", "describe.only('sum')"})
        EXPECT_EQ(countSkips(line), 1) << line;
}

TEST(TestSkips, CountsEachPlaceAndNothingElse) {
    EXPECT_EQ(countSkips("@Ignore\nvoid a();\n@Ignore\nvoid b();\n"), 2);
    EXPECT_EQ(countSkips("int skip_lines(int n);\nexit(1);\nassert skipped == 0\n"), 0);
    EXPECT_EQ(countSkips(""), 0);
}

TEST(Overridable, NamesGates) {
    for (const std::string& name : overridableGates()) EXPECT_TRUE(fromName(kGates, name)) << name;
    for (const char* never : {"halt", "quarantine", "veto", "freshness", "evidence"})
        EXPECT_EQ(std::count(overridableGates().begin(), overridableGates().end(), never), 0) << never;
}

TEST(Roles, AreHeldByNameByGroupAndByTheGroupOfThatName) {
    const Pipeline pipeline = test::pipelineWith(
        "[role.sre]\nmembers = [\"anna\"]\ngroups = [\"ops\"]\n[role.wheel]\nmembers = [\"carl\"]\n");
    using Names = std::vector<std::string>;
    EXPECT_EQ(rolesHeld(pipeline, "anna", {}), Names{"sre"});
    EXPECT_EQ(rolesHeld(pipeline, "ben", {"ops", "staff"}), (Names{"ops", "sre", "staff"}));
    EXPECT_EQ(rolesHeld(pipeline, "ben", {"wheel"}), Names{}) << "the section says who holds it, not the group";
    EXPECT_EQ(rolesHeld(pipeline, "zoe", {}), Names{});
}

}  // namespace
}  // namespace gradus
