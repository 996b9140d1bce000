// A change does not climb alone: others promote at the same time, hold the stage, or edit what it touches.
#include "tests/pipeline/end_to_end/climbing_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;

/// Long enough for two that start at once to be checked at the same time.
constexpr std::string_view kSlowCheck = R"(
[check.unit]
run = ["sh", "-c", "sleep 1; cat *.txt"]
)";

class Together : public ClimbingProgram {
  protected:
    std::unique_ptr<Running> promoting(const std::string& change, const std::string& to) {
        return startCommand({GRADUS_PROGRAM, "promote", change, "--to", to, "--wait", "--json"});
    }
    static Json lastOf(const Ended& ended) {
        const Json data = ended.json()["data"];
        return data.contains("stages") ? data["stages"].back()["promotion"] : Json::object();
    }
    /// Every promotion of that stage stands at an end.
    void expectEnded(const std::string& stage) {
        const Json unfinished = gradusJson({"status"})["data"]["unfinished"];
        for (const Json& one : unfinished) EXPECT_NE(one["stage"], stage) << one.dump(2);
    }
    static bool isEnd(const Json& promotion) {
        for (const char* state : {"promoted", "stale", "rejected", "rolled-back", "cancelled"})
            if (promotion.value("state", "") == state) return true;
        return false;
    }
};
INSTANTIATE_TEST_SUITE_P(Users, Together, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Together, OfTwoThatWantTheSameLinesOneLandsAndTheOtherSaysWhy) {
    GRADUS_CASES("TX5", "I3", "ST6");
    given(kSlowCheck);
    const std::string red = changed("echo red > app.txt; echo red > red.txt");
    const std::string blue = changed("echo blue > app.txt; echo blue > blue.txt");
    for (const std::string& change : {red, blue}) ASSERT_EQ(gradus({"promote", change, "--to", "sandbox"}).exit, 0);
    const auto first = promoting(red, "local");
    const auto second = promoting(blue, "local");
    const std::map<std::string, Ended> ended{{"red", first->wait()}, {"blue", second->wait()}};
    const std::string winner = ended.at("red").exit == 0 ? "red" : "blue";
    const std::string loser = winner == "red" ? "blue" : "red";
    EXPECT_EQ(ended.at(winner).exit, 0) << ended.at(winner).out << ended.at(winner).err;
    EXPECT_EQ(ended.at(loser).exit, 1) << ended.at(loser).out << ended.at(loser).err;
    EXPECT_EQ(lastOf(ended.at(winner))["state"], "promoted");
    EXPECT_EQ(lastOf(ended.at(loser))["state"], "stale");
    EXPECT_TRUE(has(ended.at(loser).out, "app.txt"));
    EXPECT_EQ(bytesOf(project / "app.txt"), winner + "\n");
    EXPECT_EQ(bytesOf(project / (winner + ".txt")), winner + "\n");
    EXPECT_FALSE(std::filesystem::exists(project / (loser + ".txt"))) << "nothing of the other";
    expectEnded("local");
    expectWhole();
}

TEST_P(Together, OfTwoThatDoNotTouchEachOtherTheSecondIsCheckedOnTopOfTheFirst) {
    GRADUS_CASES("TX5", "I8");
    given(kSlowCheck);
    const std::string red = changed("echo red > red.txt");
    const std::string blue = changed("echo blue > blue.txt");
    for (const std::string& change : {red, blue}) ASSERT_EQ(gradus({"promote", change, "--to", "local"}).exit, 0);
    const auto first = promoting(red, "staging");
    const auto second = promoting(blue, "staging");
    const Ended ends[] = {first->wait(), second->wait()};
    for (const Ended& ended : ends) {
        EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
        EXPECT_TRUE(isEnd(lastOf(ended)));
    }
    EXPECT_EQ(bytesOf(staging / "current/red.txt"), "red\n");
    EXPECT_EQ(bytesOf(staging / "current/blue.txt"), "blue\n");
    // Whoever came second was looked at with the first below it.
    const std::string holder = gradusJson({"status"})["data"]["stages"][2]["promotion"];
    const std::string log = gradus({"logs", holder}).out;
    EXPECT_TRUE(has(log, "red")) << log;
    EXPECT_TRUE(has(log, "blue")) << log;
    expectEnded("staging");
    expectWhole();
}

TEST_P(Together, AStageThatHoldsAnotherChangeIsCheckedWithBoth) {
    GRADUS_CASES("I8", "ST4");
    given(kSlowCheck);
    const std::string mine = changed("echo mine > mine.txt");
    ASSERT_EQ(gradus({"promote", changed("echo theirs > theirs.txt"), "--to", "staging"}).exit, 0);
    const Ended ended = gradus({"promote", mine, "--to", "staging", "--json"});
    ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    const std::string log = gradus({"logs", lastOf(ended)["id"]}).out;
    EXPECT_TRUE(has(log, "theirs")) << log;
    EXPECT_TRUE(has(log, "mine")) << log;
    EXPECT_EQ(bytesOf(staging / "current/theirs.txt"), "theirs\n");
    EXPECT_EQ(bytesOf(staging / "current/mine.txt"), "mine\n");
    // Out again in the order in which they came.
    ASSERT_EQ(gradus({"rollback", "staging"}).exit, 0);
    EXPECT_FALSE(std::filesystem::exists(staging / "current/mine.txt"));
    EXPECT_EQ(bytesOf(staging / "current/theirs.txt"), "theirs\n");
    expectWhole();
}

TEST_P(Together, AnEditWhileItIsCheckedIsKept) {
    GRADUS_CASES("CA11", "CA12");
    given(kSlowCheck);
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change, "--to", "sandbox"}).exit, 0);
    const auto running = promoting(change, "local");
    awaitState("p2", "checking");
    edit("app.txt", "mine\n");
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 1) << ended.out << ended.err;
    EXPECT_EQ(lastOf(ended)["state"], "stale");
    EXPECT_TRUE(has(ended.out, "app.txt"));
    EXPECT_EQ(bytesOf(project / "app.txt"), "mine\n");
    expectWhole();
}

TEST_P(Together, AnEditElsewhereWhileItIsCheckedStays) {
    GRADUS_CASES("ST4", "ST8");
    given(kSlowCheck);
    const std::string change = changed("echo v2 > app.txt");
    ASSERT_EQ(gradus({"promote", change, "--to", "sandbox"}).exit, 0);
    const auto running = promoting(change, "local");
    awaitState("p2", "checking");
    edit("lib/util.txt", "mine\n");
    const Ended ended = running->wait();
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
    EXPECT_EQ(bytesOf(project / "lib/util.txt"), "mine\n");
    ASSERT_EQ(gradus({"undo"}).exit, 0);
    EXPECT_EQ(bytesOf(project / "app.txt"), "v1\n");
    EXPECT_EQ(bytesOf(project / "lib/util.txt"), "mine\n");
    expectWhole();
}

// The last of very many files is edited as soon as the first temporary is seen.
TEST_P(Together, AnEditWhileItIsWrittenIsNeverLost) {
    GRADUS_CASES("CA12", "DL1");
    given(R"(
[check.unit]
run = "true"
)");
    constexpr int kFiles = 200;
    shell(fmt::format("mkdir many; for i in $(seq {}); do echo old > many/$i; done; echo old > many/zz", kFiles));
    commitAll("many files");
    const std::string change = changed("for f in many/*; do echo new > $f; done");
    const std::string script =
        "i=0; while [ $i -lt 20000 ] && ! ls -d .gradus-* >/dev/null 2>&1; do i=$((i+1)); done; echo mine > many/zz";
    const auto editor = startCommand({"sh", "-c", script});
    const Ended ended = promoting(change, "local")->wait();
    EXPECT_EQ(editor->wait().exit, 0);
    EXPECT_EQ(bytesOf(project / "many/zz"), "mine\n");
    const std::string end = lastOf(ended).value("state", "");
    EXPECT_TRUE(end == "promoted" || end == "rolled-back" || end == "stale") << ended.out << ended.err;
    const std::string all = end == "promoted" ? "new\n" : "old\n";
    for (int i = 1; i <= kFiles; ++i) ASSERT_EQ(bytesOf(project / "many" / std::to_string(i)), all) << i << end;
    EXPECT_TRUE(shell("ls -d .gradus-* 2>/dev/null || true").out.empty());
    expectWhole();
}

}  // namespace
}  // namespace gradus
