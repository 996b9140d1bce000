// What people and builds do to a release directory beside us: it is seen, and nothing is built on it in silence.
#include "tests/pipeline/end_to_end/troubled_program.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::bytesOf;
using test::Ended;
using test::has;
using test::Json;

class ByHand : public test::TroubledProgram {
  protected:
    void switchTo(const std::string& release) {
        shell(fmt::format("ln -sfn '{}' '{}'", release, (production / "current").native()));
    }
};
INSTANTIATE_TEST_SUITE_P(Users, ByHand, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(ByHand, AReleaseThatIsWrittenIntoWhileItSoaksGoesBack) {
    const fs::path looks = scratch / "looks";
    rules("\"sandbox\", \"local\", \"production\"",
          release("checks = [\"after\"]\nsoak = \"1s\"\n") +
              afterCheck(fmt::format("grep -q v3 app.txt || exit 0; echo x >> {0}; "
                                     "test $(wc -l < {0}) -lt 3 || echo more >> lib/util.txt",
                                     looks.native())) +
              "interval = \"100ms\"\n");
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const Ended ended = gradus({"promote", changed("echo v3 > app.txt"), "--json"});
    EXPECT_EQ(ended.exit, 5) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out, "what is there is not what was checked: lib/util.txt")) << ended.out;
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n");
    expectWhole();
}

TEST_P(ByHand, ACurrentThatWasSwitchedIsSaidAndNothingIsBuiltOnIt) {
    rules("\"sandbox\", \"production\"", release(""));
    ASSERT_EQ(gradus({"promote", changed("echo one > one")}).exit, 0);
    const std::string first = target(production);
    ASSERT_EQ(gradus({"promote", changed("echo two > two")}).exit, 0);
    const std::string second = target(production);
    switchTo(first);

    const Json status = gradusJson({"status"});
    EXPECT_TRUE(has(status["data"]["stages"].dump(), "another tree is there")) << status.dump(2);
    EXPECT_TRUE(has(gradus({"status"}).out, "not what is on record")) << gradus({"status"}).out;
    const Ended blame = gradus({"blame", "production", "two"});
    EXPECT_EQ(blame.exit, 4) << blame.out << blame.err;
    EXPECT_TRUE(has(blame.err, "gradus adopt production")) << blame.err;
    const std::string change = changed("echo three > three");
    EXPECT_TRUE(has(gradus({"plan", change}).out, "another tree is there")) << gradus({"plan", change}).out;
    const Ended refused = gradus({"promote", change});
    EXPECT_EQ(refused.exit, 1) << refused.out << refused.err;
    EXPECT_TRUE(has(refused.err, "gradus adopt production")) << refused.err;
    EXPECT_EQ(target(production), first) << "nothing was touched";

    switchTo(second);
    EXPECT_EQ(gradus({"promote", change}).exit, 0) << "put back, it goes on";
    EXPECT_EQ(bytesOf(production / "current/two"), "two\n");

    switchTo(first);
    EXPECT_EQ(gradus({"adopt", "production"}).exit, 0);
    EXPECT_EQ(gradus({"promote", changed("echo four > four")}).exit, 0)
        << "taken for what the stage holds, it does too";
    EXPECT_FALSE(fs::exists(production / "current/two"));
    expectWhole();
}

constexpr const char* kBuild =
    "[check.build]\nrun = [\"sh\", \"-c\", \"mkdir -p dist; cat app.txt > dist/out\"]\noutputs = [\"dist/**\"]\n";

TEST_P(ByHand, AChangeMayUseADirectoryThatOnlyABuildMadeSoFar) {
    rules("\"production\"", release("checks = [\"build\"]\n") + kBuild);
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    EXPECT_EQ(bytesOf(production / "current/dist/out"), "v2\n");
    const Ended own = gradus({"promote", changed("mkdir dist; echo own > dist/own")});
    EXPECT_EQ(own.exit, 0) << own.out << own.err;
    EXPECT_EQ(bytesOf(production / "current/dist/own"), "own\n");
    EXPECT_EQ(bytesOf(production / "current/dist/out"), "v2\n");
    shell("mkdir dist; echo own > dist/own");
    commitAll("as production has it");
    const Ended gone = gradus({"promote", changed("rm -r dist")});
    EXPECT_EQ(gone.exit, 0) << gone.out << gone.err;
    EXPECT_FALSE(fs::exists(production / "current/dist/own"));
    EXPECT_EQ(bytesOf(production / "current/dist/out"), "v2\n");
    const std::string before = target(production);
    ASSERT_EQ(gradus({"rollback", "production"}).exit, 0);
    EXPECT_NE(target(production), before);
    EXPECT_EQ(bytesOf(production / "current/dist/own"), "own\n");
    expectWhole();
}

}  // namespace
}  // namespace gradus
