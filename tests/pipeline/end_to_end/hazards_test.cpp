// What is not what it looks like, with the real program, from every source that a change comes from.
#include "tests/pipeline/end_to_end/climbing_program.h"

namespace gradus {
namespace {

using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;
using test::writeBytes;

class Hazards : public ClimbingProgram {
  protected:
    void begin() {
        given("[check.unit]\nrun = \"true\"\n");
        variables["GRADUS_ACTOR"] = "agent:fixer";
    }
    /// Submitted and promoted by the agent: the gate holds it before anything real.
    void expectStopped(const std::vector<std::string>& submit, const std::string& what) {
        const Json change = gradusJson(submit);
        ASSERT_TRUE(change["ok"] == true) << change.dump(2);
        EXPECT_TRUE(has(change["data"]["notes"].dump(), what)) << change["data"]["notes"].dump(2);
        const std::string id = change["data"]["change"]["id"];
        const std::string before = workTree();
        const Ended ended = gradus({"promote", id, "--to", "local"});
        EXPECT_EQ(ended.exit, 8) << ended.out << ended.err;
        EXPECT_TRUE(has(ended.out + ended.err, what)) << ended.out << ended.err;
        EXPECT_TRUE(has(ended.out + ended.err, "needs a person")) << ended.out << ended.err;
        EXPECT_EQ(workTree(), before);
    }
};
INSTANTIATE_TEST_SUITE_P(Users, Hazards, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Hazards, AnAgentsWaitForAPersonWhereverTheyComeFrom) {
    begin();
    const std::string sandbox = sandboxWith(
        "ln -s /etc/shadow s && mkdir -p v/objects v/refs && touch v/objects/a v/refs/a "
        "&& echo 'ref: refs/heads/x' > v/HEAD && echo '[core]' > v/config");
    expectStopped({"submit", "--from-sandbox", sandbox}, "'s' is a link to '/etc/shadow'");

    writeBytes(scratch / "p.diff",
               "diff --git a/out b/out\nnew file mode 120000\n--- /dev/null\n+++ b/out\n@@ -0,0 +1 @@\n+../../../etc\n"
               "\\ No newline at end of file\n");
    expectStopped({"submit", "--patch", (scratch / "p.diff").native()}, "can lead out of the project");

    writeBytes(scratch / "f.json",
               R"([{"relative_path": "APP.txt", "operation": "create", "new_content": "x"},
                   {"relative_path": "b/HEAD", "operation": "create", "new_content": "ref: refs/heads/x\n"}])");
    expectStopped({"submit", "--files", (scratch / "f.json").native()}, "'APP.txt' and 'app.txt' are one name");

    shell(
        "git checkout -q -b other && printf x > \"$(printf 'a\\342\\200\\256b')\" && git add -A && git commit -q -m x "
        "&& "
        "git checkout -q -");
    expectStopped({"submit", "--commit", "other"}, "hide or reorder text");
}

TEST_P(Hazards, APersonIsWarnedAndAPersonsYesLetsAnAgentsIn) {
    begin();
    writeBytes(scratch / "f.json",
               R"([{"relative_path": "b/HEAD", "operation": "create", "new_content": "ref: refs/h\n"}])");
    const Json change = gradusJson({"submit", "--files", (scratch / "f.json").native()});
    EXPECT_EQ(gradus({"promote", "c1", "--to", "local"}).exit, 8);
    EXPECT_EQ(as("person:ben", {"approve", "c1", "--to", "local"}).exit, 0);
    EXPECT_EQ(gradus({"promote", "c1", "--to", "local"}).exit, 0);

    variables["GRADUS_ACTOR"] = "person:alice";
    const std::string sandbox = sandboxWith("ln -s /etc/hostname h");
    const Ended ended = gradus({"apply", sandbox});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.out + ended.err, "look at this: 'h' is a link to '/etc/hostname', an absolute path"))
        << ended.out << ended.err;
}

TEST_P(Hazards, APolicyCanAllowThem) {
    repository();
    edit("gradus.toml", pipeline() + "hazards = \"allow\"\n");
    commitAll("pipeline");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    variables["GRADUS_ACTOR"] = "agent:fixer";
    writeBytes(scratch / "f.json",
               R"([{"relative_path": "b/HEAD", "operation": "create", "new_content": "ref: refs/h\n"}])");
    gradusJson({"submit", "--files", (scratch / "f.json").native()});
    const Json gates = gradusJson({"plan", "c1", "--to", "production"});
    EXPECT_TRUE(has(gates.dump(), "the policy allows it")) << gates.dump(2);
}

}  // namespace
}  // namespace gradus
