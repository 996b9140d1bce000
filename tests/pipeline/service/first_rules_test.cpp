#include "pipeline/service/first_rules.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/policies/language/loading.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class FirstRulesTest : public ::testing::Test {
  protected:
    void file(const std::string& name, const std::string& text) {
        fs::create_directories((project_.path() / name).parent_path());
        std::ofstream(project_.path() / name) << text;
    }
    /// The commands that were found, as written in the file.
    std::vector<std::string> found() {
        std::vector<std::string> all;
        for (const FoundCheck& check : findChecks(project_.path())) all.push_back(check.run);
        return all;
    }
    using Found = std::vector<std::string>;

    test::ScratchDirectory project_;
};

TEST_F(FirstRulesTest, FindsEachWayToTest) {
    EXPECT_EQ(found(), Found{});
    file("Makefile", "all:\n\ttrue\ntest: all\n\ttrue\n");
    EXPECT_EQ(found(), Found{"\"make test\""});
    file("package.json", R"({"scripts": {"test": "node --test"}})");
    file("pytest.ini", "");
    file("Cargo.toml", "");
    file("go.mod", "");
    file("CMakeLists.txt", "enable_testing()\n");
    const Found all = found();
    ASSERT_EQ(all.size(), 6U);
    EXPECT_NE(all[1].find("ctest"), std::string::npos);
    EXPECT_EQ(all[2], "\"npm test\"");
    EXPECT_EQ(all[3], "\"python3 -m pytest -q\"");
    EXPECT_EQ(all[4], "\"cargo test --offline\"");
    EXPECT_EQ(all[5], "\"go test ./...\"");
}

TEST_F(FirstRulesTest, IsNotTakenInByWhatTestsNothing) {
    file("Makefile", "all:\n\techo test:\ntests: all\n");
    file("package.json", R"({"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}})");
    file("CMakeLists.txt", "project(x)\n");
    file("pyproject.toml", "[project]\nname = \"x\"\n");
    EXPECT_EQ(found(), Found{});
    file("package.json", "{ not json");
    EXPECT_EQ(found(), Found{});
    file("package.json", R"({"scripts": ["test"]})");
    EXPECT_EQ(found(), Found{});
    file("package.json", "[]");
    EXPECT_EQ(found(), Found{});
}

TEST_F(FirstRulesTest, FindsPythonTestsWithoutAnyConfiguration) {
    file("tests/test_cart.py", "");
    EXPECT_EQ(found(), Found{"\"python3 -m pytest -q\""});
}

TEST_F(FirstRulesTest, UsesTheProjectsOwnPython) {
    file("pytest.ini", "");
    file(".venv/bin/python", "");
    EXPECT_EQ(found(), Found{"\".venv/bin/python -m pytest -q\""});
    EXPECT_NE(findChecks(project_.path())[0].found.find("outputs of a check"), std::string::npos);
}

TEST_F(FirstRulesTest, FindsAutotoolsAndScripts) {
    file("test.sh", "");
    EXPECT_EQ(found(), Found{"\"sh test.sh\""});
    fs::permissions(project_.path() / "test.sh", fs::perms(0755));
    EXPECT_EQ(found(), Found{"\"./test.sh\""});
    file("configure.ac", "");
    ASSERT_EQ(found().size(), 1U) << "a script is for where nothing else is";
    EXPECT_NE(found()[0].find("make check"), std::string::npos);
}

TEST_F(FirstRulesTest, WritesAFileThatLoads) {
    const fs::path odd = project_.path() / "-my shop é";
    const auto loads = [&](const std::vector<FoundCheck>& checks) {
        const LoadResult loaded = loadText(firstPipelineFile(odd, checks));
        EXPECT_TRUE(loaded.diagnostics.empty()) << renderDiagnostics(loaded.diagnostics, false);
        return loaded.pipeline ? loaded.pipeline->checks.size() : 0;
    };
    EXPECT_EQ(loads({}), 0U);
    file("Makefile", "test:\n");
    EXPECT_EQ(loads(findChecks(project_.path())), 1U);
    file("CMakeLists.txt", "include(CTest)\n");
    file("go.mod", "");
    EXPECT_EQ(loads(findChecks(project_.path())), 3U);
}

}  // namespace
}  // namespace gradus
