// Repositories as people have them: linked work trees, submodules, files of git LFS, rules among the files, a base that
// moved on, went another way, or is gone.
#include "tests/pipeline/end_to_end/climbing_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::bytesOf;
using test::ClimbingProgram;
using test::Ended;
using test::has;
using test::Json;

class Repositories : public ClimbingProgram {
  protected:
    std::string status() { return shell("git status --porcelain=v1 --untracked-files=all").out; }
    Json groundOf(const std::string& change) { return gradusJson({"show", change})["data"]["change"]["base"]; }
};
INSTANTIATE_TEST_SUITE_P(Users, Repositories, testing::Values(test::As::kSelf, test::As::kOrdinaryUser),
                         test::nameOfUser);

TEST_P(Repositories, ALinkedWorkTreeIsATargetOfItsOwn) {
    given();
    const auto main = project;
    const std::string before = fingerprint();
    shell("git worktree add -q -b topic ../linked");
    project = scratch / "linked";
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const std::string change = changed("echo v2 > app.txt; echo n > new.txt; rm lib/util.txt");
    const auto files = workTree();
    const Ended ended = gradus({"promote", change, "--to", "local", "--json"});
    ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
    EXPECT_TRUE(std::filesystem::exists(main / ".git/worktrees/linked/gradus-target"));
    EXPECT_FALSE(std::filesystem::exists(main / ".git/gradus-target")) << "the main work tree is not locked";
    EXPECT_EQ(bytesOf(main / "app.txt"), "v1\n");
    ASSERT_EQ(gradus({"undo"}).exit, 0);
    EXPECT_EQ(workTree(), files);
    EXPECT_EQ(status(), "");
    expectWhole();
    project = main;
    EXPECT_EQ(status(), "");
}

TEST_P(Repositories, SubmodulesAreLeftAloneAndThatIsSaid) {
    GRADUS_CASES("CA5");
    shell(
        "mkdir ../part && cd ../part && git init -q && git config user.name Ada && git config user.email a@b && "
        "echo p1 > part.txt && git add -A && git commit -qm part");
    shell("git -c protocol.file.allow=always submodule --quiet add ../part part && git commit -qm 'with a part'");
    given();
    // The part is being worked on: that is no part of any change here.
    edit("part/part.txt", "mine\n");
    edit("app.txt", "v2\n");
    const Json submitted = gradusJson({"submit", "--worktree", "--title", "v2"})["data"];
    EXPECT_TRUE(has(submitted["notes"].dump(), "part: a submodule")) << submitted.dump(2);
    ASSERT_EQ(submitted["changes"].size(), 1U) << submitted.dump(2);
    EXPECT_EQ(submitted["changes"][0]["path"], "app.txt");
    shell("git checkout -q app.txt");
    const Ended ended = gradus({"promote", submitted["change"]["id"], "--to", "staging", "--json"});
    ASSERT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_TRUE(has(ended.json()["data"]["stages"].back()["notes"].dump(), "part")) << ended.out;
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
    EXPECT_EQ(bytesOf(project / "part/part.txt"), "mine\n");
    EXPECT_FALSE(std::filesystem::exists(staging / "current/part/part.txt"));
    ASSERT_EQ(gradus({"undo"}).exit, 0);
    EXPECT_EQ(bytesOf(project / "part/part.txt"), "mine\n");
    // And one that leads into it goes nowhere.
    const std::string into = changed("echo theirs > part/part.txt");
    const Ended refused = gradus({"promote", into, "--to", "local", "--json"});
    EXPECT_EQ(refused.exit, 1) << refused.out << refused.err;
    EXPECT_TRUE(has(refused.out, "the repository 'part'")) << refused.out;
    EXPECT_EQ(bytesOf(project / "part/part.txt"), "mine\n");
    expectWhole();
}

TEST_P(Repositories, FilesOfLfsAreLeftAloneAndThatIsSaid) {
    given();
    edit("film.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 10\n");
    commitAll("a film");
    // What git LFS would have put there.
    edit("film.bin", "0123456789");
    edit("app.txt", "v2\n");
    const std::string before = status();
    const Json submitted = gradusJson({"submit", "--worktree", "--title", "v2"})["data"];
    EXPECT_TRUE(has(submitted["notes"].dump(), "film.bin: kept by git LFS, left alone")) << submitted.dump(2);
    ASSERT_EQ(submitted["changes"].size(), 1U) << submitted.dump(2);
    shell("git checkout -q app.txt");
    ASSERT_EQ(gradus({"promote", submitted["change"]["id"], "--to", "local"}).exit, 0);
    EXPECT_EQ(bytesOf(project / "film.bin"), "0123456789");
    EXPECT_EQ(status(), before);
    ASSERT_EQ(gradus({"undo"}).exit, 0);
    EXPECT_EQ(bytesOf(project / "film.bin"), "0123456789");
    EXPECT_EQ(bytesOf(project / "app.txt"), "v1\n");
    expectWhole();
}

// Whatever a change says about the rules, it is judged by those that a person trusted.
TEST_P(Repositories, AChangeOfTheRulesIsJudgedByTheOldOnes) {
    GRADUS_CASES("CA13", "I16");
    given();
    const auto before = workTree();
    const std::string lenient = "printf '[pipeline]\\nname = \"shop\"\\nstages = [\"local\"]\\n' > gradus.toml; ";
    const Ended rejected = gradus({"promote", changed(lenient + "echo no-sandbox > app.txt"), "--json"});
    EXPECT_EQ(rejected.exit, 1) << rejected.out << rejected.err;
    EXPECT_EQ(rejected.json()["data"]["stages"].back()["promotion"]["stage"], "sandbox");
    variables["GRADUS_ACTOR"] = "agent:fixer";
    const std::string change = changed(lenient + "echo v2 > app.txt");
    const Ended waits = gradus({"promote", change, "--to", "local", "--json"});
    EXPECT_EQ(waits.exit, 8) << waits.out << waits.err;
    EXPECT_TRUE(has(waits.out, "gradus.toml")) << waits.out;
    EXPECT_EQ(workTree(), before);
    EXPECT_TRUE(has(gradus({"why", "@"}).out, "waiting"));
}

TEST_P(Repositories, ItIsSaidHowFarTheProjectHasComeSince) {
    GRADUS_CASES("ST1");
    given();
    const std::string change = changed("echo v2 > app.txt");
    EXPECT_EQ(groundOf(change)["ground"], "same");
    for (const char* name : {"one", "two", "three"}) {
        edit("more.txt", name);
        commitAll(name);
    }
    EXPECT_EQ(groundOf(change)["ground"], "ahead");
    EXPECT_EQ(groundOf(change)["ahead"], 3);
    EXPECT_TRUE(has(gradus({"show", change}).out, "HEAD is 3 commits ahead"));
    ASSERT_EQ(gradus({"promote", change, "--to", "local"}).exit, 0);
    EXPECT_EQ(bytesOf(project / "app.txt"), "v2\n");
    EXPECT_EQ(bytesOf(project / "more.txt"), "three");
}

TEST_P(Repositories, ItIsSaidThatTheProjectWentAnotherWay) {
    GRADUS_CASES("ST2");
    given();
    edit("more.txt", "left\n");
    commitAll("left");
    const std::string change = changed("echo v2 > app.txt");
    shell("git reset -q --hard HEAD^");
    edit("other.txt", "right\n");
    commitAll("right");
    EXPECT_EQ(groundOf(change)["ground"], "diverged");
    EXPECT_EQ(groundOf(change)["ahead"], 1);
    EXPECT_EQ(groundOf(change)["behind"], 1);
    EXPECT_TRUE(has(gradus({"show", change}).out, "HEAD went another way: 1 commit ahead, 1 commit behind"));
    // Its files are as they were, so it fits all the same.
    EXPECT_EQ(gradus({"promote", change, "--to", "local"}).exit, 0);
}

TEST_P(Repositories, ItIsSaidThatWhatItWasMadeOnIsGone) {
    GRADUS_CASES("ST3");
    given();
    edit("more.txt", "left\n");
    commitAll("left");
    const std::string change = changed("echo v2 > app.txt");
    shell("git reset -q --hard HEAD^ && git reflog expire --expire=now --all && git gc -q --prune=now");
    EXPECT_EQ(groundOf(change)["ground"], "gone");
    EXPECT_TRUE(has(gradus({"show", change}).out, "not in this repository any more"));
    // An empty stage would have to begin as that.
    ASSERT_EQ(gradus({"promote", change, "--to", "local"}).exit, 0);
    const Ended ended = gradus({"promote", change, "--to", "staging", "--json"});
    EXPECT_NE(ended.exit, 0) << ended.out << ended.err;
    EXPECT_FALSE(std::filesystem::exists(staging / "current"));
    expectWhole();
}

}  // namespace
}  // namespace gradus
