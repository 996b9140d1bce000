// Software as its authors released it, taken along the whole way and back: tried, submitted, checked, promoted into the
// work tree, undone. `./do test` fetches it (tests/support/packaged_sources.sh).
#include "tests/pipeline/end_to_end/climbing_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::Json;

struct Source {
    const char* name;     ///< of the package
    const char* program;  ///< that its check needs
    const char* work;     ///< what an agent does to it
    const char* check;    ///< holds with that work, and not without
    const char* edited;   ///< a file that was edited
};
// C with make, Python, and Node from npm.
constexpr Source kSources[] = {
    {"bzip2", "make",
     "sed -i 's/define BZ_VERSION .*/define BZ_VERSION \"9.9\"/' bzlib_private.h && rm words2 && chmod 755 words1 && "
     "mkdir steps && echo one > steps/one && ln -s ../README steps/link",
     "make -s bzip2 CFLAGS=-O0 && ./bzip2 --help 2>&1 | grep -q 'Version 9.9'", "bzlib_private.h"},
    {"toolz", "python3",
     "printf '\\nSTEPS = 3\\n' >> toolz/utils.py && printf 'from toolz import take\\nfrom toolz.utils import "
     "STEPS\\n\\n\\n"
     "def steps():\\n    return list(take(STEPS, range(1, 9)))\\n' > toolz/steps.py && rm -r bench",
     "python3 -B -c 'from toolz.steps import steps; assert steps() == [1, 2, 3]'", "toolz/utils.py"},
    {"ms", "node",
     "sed -i 's/\"version\": \".*\"/\"version\": \"9.9.9\"/' package.json && mkdir test && "
     "echo 'require(\"assert\").equal(require(\"..\")(\"2 days\"), 172800000)' > test/days.js && rm readme.md",
     "node test/days.js && grep -q 9.9.9 package.json", "package.json"},
};

class PackagedSources : public ClimbingProgram {
  protected:
    void given(const Source& source) {
        const auto from = std::filesystem::path(GRADUS_SOURCE_DIR) / "build/sources" / source.name;
        if (!std::filesystem::exists(from)) GTEST_SKIP() << from << " is not there: ./do test fetches it";
        if (command({"sh", "-c", std::string("command -v ") + source.program}).exit != 0)
            GTEST_SKIP() << "there is no " << source.program << " here";
        shell(fmt::format("git rm -rqf . && cp -R '{}/.' . && git add -A && git commit -qm 'as released'",
                          from.native()));
        edit("gradus.toml", fmt::format("[pipeline]\nname = \"{}\"\nstages = [\"sandbox\", \"local\"]\n"
                                        "[check.works]\nrun = [\"sh\", \"-c\", {}]\n",
                                        source.name, Json(source.check).dump()));
        commitAll("pipeline");
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.err;
    }
    std::string status() { return shell("git status --porcelain=v1 --untracked-files=all").out; }

    void goThereAndBack(const Source& source) {
        given(source);
        if (IsSkipped() || HasFatalFailure()) return;
        const std::string before = workTree();
        const std::string original = bytesOf(project / source.edited);
        EXPECT_EQ(gradus({"check"}).exit, 1) << "what is checked is the work, not something that always holds";
        const std::string change = changed(source.work);
        EXPECT_EQ(workTree(), before);
        EXPECT_EQ(status(), "");

        const Ended ended = gradus({"promote", change, "--to", "local", "--json"});
        ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
        const Json stages = ended.json()["data"]["stages"];
        for (const Json& stage : stages) EXPECT_EQ(stage["promotion"]["state"], "promoted") << stage.dump(2);
        EXPECT_NE(bytesOf(project / source.edited), original);
        EXPECT_EQ(gradus({"check"}).exit, 0) << "and it holds for what is there now";

        const Ended undone = gradus({"undo", "--json"});
        ASSERT_EQ(undone.exit, 0) << undone.out << undone.err;
        EXPECT_EQ(workTree(), before);
        EXPECT_EQ(status(), "");
        expectWhole();
    }
};
INSTANTIATE_TEST_SUITE_P(Users, PackagedSources, testing::Values(test::As::kSelf, test::As::kOrdinaryUser),
                         test::nameOfUser);

TEST_P(PackagedSources, Bzip2InCWithMakeGoesThereAndBack) { goThereAndBack(kSources[0]); }
TEST_P(PackagedSources, ToolzInPythonGoesThereAndBack) { goThereAndBack(kSources[1]); }
TEST_P(PackagedSources, MsInNodeFromNpmGoesThereAndBack) { goThereAndBack(kSources[2]); }

}  // namespace
}  // namespace gradus
