// Kept sandboxes as people use them.

#include "tests/pipeline/end_to_end/sandbox_program.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

class KeptSandbox : public SandboxProgramTest {
  protected:
    std::string made(Words words = {}) {
        words.insert(words.begin(), {"sandbox", "new"});
        const Json answer = gradusJson(words);
        return answer["data"]["sandbox"].value("id", answer.dump());
    }
    Ended exec(const std::string& sandbox, const std::string& script) {
        return gradus({"sandbox", "exec", sandbox, "--", "sh", "-c", script});
    }
    std::map<std::string, std::string> diff(const std::string& sandbox) {
        return kindsOf(gradusJson({"sandbox", "diff", sandbox})["data"]);
    }
};
INSTANTIATE_TEST_SUITE_P(Users, KeptSandbox, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

TEST_P(KeptSandbox, GoesOnWhereTheLastCommandLeftIt) {
    GRADUS_CASES("OV32", "TX2");
    const std::string before = fingerprint();
    const std::string sandbox = made({"--name", "fix"});
    EXPECT_EQ(exec(sandbox, "echo one > f; rm README.md").exit, 0);
    EXPECT_EQ(exec("fix", "cat f; test ! -e README.md").out, "one\n");
    EXPECT_EQ(diff("@"), (std::map<std::string, std::string>{{"f", "added"}, {"README.md", "deleted"}}));
    EXPECT_EQ(fingerprint(), before);
    EXPECT_EQ(gradus({"sandbox", "rm", "fix"}).exit, 0);
    EXPECT_EQ(exec(sandbox, "true").exit, 2) << "gone";
}

TEST_P(KeptSandbox, OneUnknownNameRemovesNone) {
    const std::string sandbox = made();
    EXPECT_EQ(gradus({"sandbox", "rm", sandbox, "typo"}).exit, 2);
    EXPECT_EQ(exec(sandbox, "true").exit, 0) << "still there";
    EXPECT_EQ(gradus({"sandbox", "new", "--lifetime", "0s"}).exit, 2);
}

TEST_P(KeptSandbox, SnapshotAndRestoreBringEverythingBack) {
    GRADUS_CASES("L8");
    const std::string sandbox = made();
    exec(sandbox, "echo one > f; chmod 600 f; ln -s f l; rm run.sh");
    EXPECT_EQ(gradus({"sandbox", "snapshot", sandbox, "good"}).exit, 0);
    const auto atSnapshot = diff(sandbox);
    exec(sandbox, "echo two > f; chmod 644 f; rm l; echo back > run.sh; rm -rf src; mkdir src");
    EXPECT_NE(diff(sandbox), atSnapshot);
    EXPECT_EQ(gradus({"sandbox", "restore", sandbox, "good"}).exit, 0);
    EXPECT_EQ(diff(sandbox), atSnapshot);
    EXPECT_EQ(exec(sandbox, "cat f; stat -c %a f; readlink l; ls src; test ! -e run.sh").out, "one\n600\nf\nmain.c\n");
}

TEST_P(KeptSandbox, ForksStartAlikeAndGoTheirOwnWays) {
    const std::string sandbox = made();
    exec(sandbox, "echo shared > f");
    const Json forks = gradusJson({"sandbox", "fork", sandbox, "-n", "8", "--name", "way"})["data"]["sandboxes"];
    ASSERT_EQ(forks.size(), 8);
    for (int i = 1; i <= 8; ++i)
        EXPECT_EQ(exec("way-" + std::to_string(i), "cat f; echo " + std::to_string(i) + " > f").out, "shared\n");
    EXPECT_EQ(exec("way-3", "cat f").out, "3\n");
    EXPECT_EQ(exec(sandbox, "cat f").out, "shared\n");
    EXPECT_EQ(gradus({"sandbox", "rm", sandbox}).exit, 0);
    EXPECT_EQ(exec("way-5", "cat f").out, "5\n") << "its origin is gone, it is not";
}

TEST_P(KeptSandbox, ASecondCommandIsToldThatItIsBusyOrWaits) {
    GRADUS_CASES("R10");
    const std::string sandbox = made();
    auto running = startCommand({GRADUS_PROGRAM, "sandbox", "exec", sandbox, "--", "sh", "-c", "echo up; sleep 1"});
    waitForUp(*running);
    const Ended busy = exec(sandbox, "true");
    EXPECT_EQ(busy.exit, 7) << busy.err;
    EXPECT_EQ(gradusJson({"sandbox", "exec", sandbox, "--", "true"})["error"]["code"], "busy");
    EXPECT_EQ(gradus({"sandbox", "exec", "--wait", "20s", sandbox, "--", "true"}).exit, 0);
    EXPECT_EQ(running->wait().exit, 0);
}

TEST_P(KeptSandbox, IsMadeOfACommitWhateverTheDirectoryHolds) {
    const std::string sandbox = made({"--commit", "HEAD"});
    shell("echo changed > README.md; echo new > untracked");
    EXPECT_EQ(exec(sandbox, "cat README.md; ls").out, "# Shop\nREADME.md\nlink\nrun.sh\nsrc\n");
    EXPECT_EQ(diff(sandbox), (std::map<std::string, std::string>{}));
}

TEST_P(KeptSandbox, IsSubmittedWithBothSidesOfWhatItChanged) {
    GRADUS_CASES("ST14");
    const std::string before = fingerprint();
    const std::string sandbox = made();
    exec(sandbox, "echo more >> README.md; rm src/main.c; echo new > f; git commit -qam inside");
    const Json data = gradusJson({"submit", "--from-sandbox", sandbox, "--title", "Tidy up"})["data"];
    EXPECT_EQ(data["change"].value("id", data.dump()), "c1");
    EXPECT_EQ(kindsOf(data), kindsOf(gradusJson({"sandbox", "diff", sandbox})["data"]));
    const std::string patch = gradus({"diff", "c1"}).out;
    EXPECT_NE(patch.find("+more\n"), std::string::npos) << patch;
    EXPECT_NE(patch.find("-int main(void)"), std::string::npos) << patch;
    EXPECT_EQ(gradus({"diff", sandbox}).out, patch);
    exec(sandbox, "echo later > f");
    gradus({"sandbox", "rm", sandbox});
    EXPECT_EQ(gradus({"diff", "c1"}).out, patch) << "frozen";
    EXPECT_EQ(fingerprint(), before);
}

TEST_P(KeptSandbox, IsSubmittedWithTheWordsOfTheNewestCommitInside) {
    const std::string sandbox = made();
    exec(sandbox,
         "echo one >> README.md; git commit -qam first; echo two >> README.md; "
         "git commit -qam 'Say two' -m 'It was one.' -m 'Now it is two.'");
    const Json change = gradusJson({"submit", "--from-sandbox", sandbox})["data"]["change"];
    EXPECT_EQ(change["title"], "Say two");
    EXPECT_EQ(gradusJson({"show", "c1"})["data"]["change"]["message"], "It was one.\n\nNow it is two.");
    EXPECT_EQ(gradusJson({"submit", "--from-sandbox", sandbox, "--title", "Mine"})["data"]["change"]["title"], "Mine");
    const std::string plain = made();
    exec(plain, "echo one >> README.md; git add README.md");
    EXPECT_EQ(gradusJson({"submit", "--from-sandbox", plain})["data"]["change"]["title"], "Change README.md");
}

TEST_P(KeptSandbox, OfACommitIsSubmittedAgainstThatCommit) {
    const std::string sandbox = made({"--commit", "HEAD"});
    writeBytes(project / "README.md", "edited outside\n");
    exec(sandbox, "echo inside >> README.md");
    const std::string patch = gradus({"diff", sandbox}).out;
    EXPECT_NE(patch.find(" # Shop\n+inside\n"), std::string::npos) << patch;
}

TEST_P(KeptSandbox, AreListedAndCollected) {
    const std::string sandbox = made({"--lifetime", "1m"});
    EXPECT_TRUE(has(gradus({"sandbox", "list"}).out, sandbox));
    EXPECT_TRUE(has(gradus({"sandbox", "show", sandbox}).out, "at rest"));
    EXPECT_EQ(gradus({"gc"}).exit, 0);
    EXPECT_TRUE(has(gradus({"sandbox", "list"}).out, sandbox)) << "still within its lifetime";
    EXPECT_EQ(gradusJson({"audit", "verify"})["data"]["kind"], "ok");
}

TEST_P(KeptSandbox, MistakesAreAnsweredInWords) {
    const std::string sandbox = made({"--name", "fix"});
    for (const Words& words : std::vector<Words>{{"sandbox", "exec", "s99", "--", "true"},
                                                 {"sandbox", "restore", sandbox, "never-taken"},
                                                 {"sandbox", "new", "--name", "fix"},
                                                 {"sandbox", "new", "--name", "s7"},
                                                 {"sandbox", "new", "--name", ""},
                                                 {"sandbox", "new", "--commit", "no-such-commit"},
                                                 {"sandbox", "new", "--lifetime", "soon"},
                                                 {"sandbox", "fork", sandbox, "-n", "0"},
                                                 {"sandbox", "snapshot", sandbox, ""}}) {
        const Ended ended = gradus(words);
        EXPECT_NE(ended.exit, 0) << words[1] << ' ' << words.back();
        EXPECT_TRUE(has(ended.err, "error: ")) << words[1] << ' ' << words.back() << ended.err;
    }
}

}  // namespace
}  // namespace gradus::test
