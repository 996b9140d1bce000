// Stages that are a branch and a command, with the real program, real git and a script that deploys.
#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus {
namespace {

using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::Json;
using test::writeBytes;

constexpr const char* kDeploy = R"(#!/bin/sh
set -e
case "$GRADUS_ACTION" in
apply | rollback)
    rm -rf "$LIVE"
    if [ -n "$GRADUS_TREE" ]; then cp -a "$GRADUS_TREE" "$LIVE"; fi
    printf %s "$GRADUS_TREE_DIGEST" > "$LIVE.digest" ;;
status) cat "$LIVE.digest" ;;
health) ! grep -q unhealthy "$LIVE/app.txt" ;;
esac
)";

class PromoteElsewhere : public ClimbingProgram {
  protected:
    std::filesystem::path bare = scratch / "shop.git";
    std::filesystem::path live = scratch / "live";

    void given() {
        repository();
        writeBytes(scratch / "deploy", kDeploy);
        std::filesystem::permissions(scratch / "deploy", std::filesystem::perms(0755));
        shell("git init -q --bare '" + bare.native() + "'");
        std::string text =
            "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"local\", \"staging\", \"production\"]\n";
        text += "[check.unit]\nrun = \"test -s app.txt\"\n";
        text += fmt::format("[stage.staging]\ndriver = \"branch\"\nrepository = \"{}\"\nbranch = \"staging\"\n",
                            bare.native());
        text += "[stage.production]\ndriver = \"command\"\n";
        for (const char* action : {"apply", "rollback", "status", "health"})
            text += fmt::format("{} = [\"env\", \"LIVE={}\", \"{}\"]\n", action, live.native(),
                                (scratch / "deploy").native());
        for (const char* policy : {"local", "staging", "production"})
            text += fmt::format("[policy.{}]\nextends = \"none\"\nalone = [\"person\", \"agent\"]\n", policy);
        edit("gradus.toml", text);
        commitAll("pipeline");
        const Ended ended = gradus({"trust", "--yes"});
        ASSERT_EQ(ended.exit, 0) << ended.err;
    }
    std::string inBare(const std::string& words) { return shell("git -C '" + bare.native() + "' " + words).out; }
};
INSTANTIATE_TEST_SUITE_P(Users, PromoteElsewhere, testing::Values(test::As::kSelf, test::As::kOrdinaryUser),
                         test::nameOfUser);

TEST_P(PromoteElsewhere, AChangeBecomesACommitAndIsDeployedAndTakenBack) {
    given();
    const Ended up = gradus({"promote", changed("echo v2 > app.txt"), "--json"});
    ASSERT_EQ(up.exit, 0) << up.out << up.err;
    EXPECT_EQ(inBare("show staging:app.txt"), "v2\n");
    EXPECT_EQ(bytesOf(live / "app.txt"), "v2\n");
    const std::string first = inBare("rev-parse staging");

    const Ended again = gradus({"promote", changed("echo v3 > app.txt"), "--json"});
    ASSERT_EQ(again.exit, 0) << again.out << again.err;
    EXPECT_EQ(inBare("rev-parse staging~"), first);
    EXPECT_EQ(bytesOf(live / "app.txt"), "v3\n");
    for (const char* stage : {"staging", "production"}) {
        const Ended back = gradus({"rollback", stage, "--json"});
        EXPECT_EQ(back.exit, 0) << back.out << back.err;
    }
    EXPECT_EQ(inBare("rev-parse staging"), first);
    EXPECT_EQ(bytesOf(live / "app.txt"), "v2\n");
    expectWhole();
}

TEST_P(PromoteElsewhere, ADeploymentThatIsUnwellIsTakenBackByItself) {
    given();
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt")}).exit, 0);
    const std::string change = changed("echo unhealthy > app.txt");
    const Ended ended = gradus({"promote", change, "--json"});
    EXPECT_EQ(ended.exit, 5) << ended.out << ended.err;
    const Json last = ended.json()["data"]["stages"].back();
    EXPECT_EQ(last["promotion"]["stage"], "production");
    EXPECT_EQ(last["promotion"]["state"], "rolled-back");
    EXPECT_EQ(bytesOf(live / "app.txt"), "v2\n");
    expectWhole();
}

TEST_P(PromoteElsewhere, ABranchThatMovedIsMergedOntoAndNothingIsLost) {
    given();
    ASSERT_EQ(gradus({"promote", changed("echo v2 > app.txt"), "--to", "staging"}).exit, 0);
    shell("git clone -q -b staging '" + bare.native() +
          "' ../clone && cd ../clone && echo t > theirs && git add -A && "
          "git -c user.name=b -c user.email=b@c commit -q -m theirs && git push -q origin staging");
    const Ended ended = gradus({"promote", changed("echo u2 > lib/util.txt"), "--to", "staging", "--json"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(inBare("show staging:theirs"), "t\n");
    EXPECT_EQ(inBare("show staging:lib/util.txt"), "u2\n");
    EXPECT_EQ(inBare("log --format=%an staging~1 -1"), "b\n");
}

}  // namespace
}  // namespace gradus
