// submit, ls, show, diff, export and rebase with the program itself and real git.
#include "tests/pipeline/end_to_end/program.h"
#include "tests/stages/changes/git_program.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

class ChangesProgram : public ProgramTest {
  protected:
    void SetUp() override {
        if (!hasGit()) GTEST_SKIP() << "there is no git";
        writeBytes(project / "poem", "one\ntwo\nthree\nfour\nfive\nsix\n");
        writeBytes(project / "other", "x\n");
        git("git init -q -b main . && git add -A && git commit -qm first");
    }
    std::string git(const std::string& command) { return shell(project, command); }
    void edit(const std::string& text) { writeBytes(project / "poem", text); }
    Json submit(Words words) {
        words.insert(words.begin(), "submit");
        const Json answer = runJson(words);
        EXPECT_TRUE(answer.value("ok", false)) << answer.dump();
        return answer["data"];
    }
};

TEST_F(ChangesProgram, SubmitsWhatDiffersFromTheCommit) {
    edit("one\nTWO\nthree\nfour\nfive\nsix\n");
    writeBytes(project / "new", "new\n");
    const Json data = submit({"--worktree", "--title", "Shout", "--label", "poetry", "--sponsor", "ann"});
    EXPECT_EQ(data["change"]["id"], "c1");
    EXPECT_EQ(data["change"]["title"], "Shout");
    EXPECT_EQ(data["changes"].size(), 2U);
    EXPECT_EQ(data["base"]["commit"].get<std::string>() + "\n", git("git rev-parse HEAD"));
    const Json shown = runJson({"show", "@"})["data"]["change"];
    EXPECT_EQ(shown["labels"], Json::array({"poetry"}));
    EXPECT_EQ(shown["sponsor"], "ann");
    EXPECT_EQ(runJson({"ls"})["data"]["changes"][0]["revision"], "c1.1");
}

TEST_F(ChangesProgram, AnswersToEveryFormOfAHandle) {
    edit("changed\n");
    const std::string digest = submit({"--worktree"})["change"]["digest"];
    for (const std::string& word : {std::string("c1"), std::string("c1.1"), std::string("@"), digest.substr(0, 8)})
        EXPECT_EQ(runJson({"show", word})["data"]["change"]["id"], "c1") << word;
    for (const char* word : {"c2", "c1.2", "abcdef01", "p1"}) EXPECT_EQ(run({"show", word}).exit, 2) << word;
}

TEST_F(ChangesProgram, SubmitsACommitWithItsWords) {
    edit("one\n2\nthree\nfour\nfive\nsix\n");
    git("git commit -qam 'Use digits' -m 'They are shorter.'");
    const Json commit = submit({"--commit", "HEAD"});
    EXPECT_EQ(commit["change"]["title"], "Use digits");
    EXPECT_EQ(commit["change"]["message"], "They are shorter.\n");
    EXPECT_EQ(commit["base"]["commit"].get<std::string>() + "\n", git("git rev-parse HEAD~1"));
    EXPECT_EQ(submit({"--range", "HEAD~1..HEAD"})["change"]["digest"], commit["change"]["digest"]);
    EXPECT_EQ(submit({"--commit", "HEAD~1"})["changes"].size(), 2U);
    EXPECT_EQ(run({"submit", "--commit", "nothing"}).exit, 2);
    EXPECT_EQ(run({"submit", "--range", "HEAD"}).exit, 2);
}

TEST_F(ChangesProgram, ExportsWhatGitAppliesToTheSameBytes) {
    GRADUS_CASES("CA15");
    edit("one\ntwo\nthree\nfour\nfive\nsix");
    writeBytes(project / "bin", std::string("\0\1\2\r\n\xff", 6));
    fs::create_symlink("poem", project / "link");
    fs::permissions(project / "other", fs::perms(0755));
    submit({"--worktree"});
    const std::string wanted = git("git add -A && git write-tree");
    const Ended exported = run({"export", "c1", "--patch", "--output", (scratch / "p").native()});
    EXPECT_EQ(exported.exit, 0) << exported.err;
    EXPECT_EQ(run({"diff", "c1"}).out, bytesOf(scratch / "p"));
    git("git reset -q --hard");
    EXPECT_EQ(git("git apply --index '" + (scratch / "p").native() + "' 2>&1; git write-tree"), wanted);
    git("git reset -q --hard");
    const Json again = submit({"--patch", (scratch / "p").native(), "--dry-run"});
    EXPECT_EQ(again.contains("change"), false);
    EXPECT_EQ(again["changes"].size(), 4U);
}

TEST_F(ChangesProgram, MakesACommitOnABranchOfItsOwn) {
    git("git checkout -q -b topic && git rm -q other && mkdir deep && echo '#!/bin/sh' > deep/run && chmod 755 "
        "deep/run");
    edit("one\ntwo\nthree\n");
    git("git add -A && git commit -qm 'As it is' -m 'And why.'");
    submit({"--commit", "topic"});
    git("git checkout -q main");
    writeBytes(project / "mine", "untouched\n");
    EXPECT_EQ(run({"export", "c1", "--commit", "--output", (scratch / "nowhere").native()}).exit, 2);
    const Ended made = run({"export", "c1", "--commit", "--json"});
    ASSERT_EQ(made.exit, 0) << made.out << made.err;
    EXPECT_EQ(made.json()["data"]["branch"], "gradus/c1.1");
    EXPECT_EQ(git("git rev-parse gradus/c1.1^{tree} gradus/c1.1^"), git("git rev-parse topic^{tree} topic^"));
    EXPECT_EQ(git("git log -1 --format=%B gradus/c1.1"), "As it is\n\nAnd why.\n\nGradus-Change: c1.1\n\n");
    EXPECT_EQ(git("git status --porcelain"), "?? mine\n");
    EXPECT_EQ(runJson({"export", "c1", "--commit"})["data"]["commit"], made.json()["data"]["commit"]);
    git("git branch -q -f gradus/c1.1 main");
    EXPECT_EQ(run({"export", "c1", "--commit"}).exit, 4) << "a branch is not moved";
}

TEST_F(ChangesProgram, MakesNoCommitOnWhatIsInNone) {
    edit("not committed\n");
    writeBytes(scratch / "l", R"([{"relative_path":"poem","operation":"modify","new_content":"on top\n"}])");
    submit({"--files", (scratch / "l").native()});
    const Ended ended = run({"export", "c1", "--commit"});
    EXPECT_EQ(ended.exit, 4) << ended.out;
    EXPECT_TRUE(has(ended.err, "'poem'")) << ended.err;
    EXPECT_EQ(git("git branch --list 'gradus/*'"), "");
}

TEST_F(ChangesProgram, SubmitsAPatchAndListsAllThatDoesNotFit) {
    const std::string good = "--- a/poem\n+++ b/poem\n@@ -1 +1 @@\n-one\n+uno\n";
    writeBytes(scratch / "good", "Subject: [PATCH] Speak Latin\n\n" + good);
    EXPECT_EQ(submit({"--patch", (scratch / "good").native()})["change"]["title"], "Speak Latin");
    writeBytes(scratch / "bad",
               "--- a/poem\n+++ b/poem\n@@ -1 +1 @@\n-eins\n+uno\n--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-1\n+2\n");
    const Ended ended = run({"submit", "--patch", (scratch / "bad").native(), "--json"});
    EXPECT_EQ(ended.exit, 1);
    EXPECT_EQ(ended.json()["error"]["code"], "does-not-apply");
    EXPECT_EQ(ended.json()["data"]["faults"].size(), 2U);
    EXPECT_EQ(runJson({"ls"})["data"]["changes"].size(), 1U);
}

TEST_F(ChangesProgram, SubmitsAListOfFiles) {
    writeBytes(scratch / "l", R"([{"relative_path":"poem","operation":"modify","new_content":"short\n"},
        {"relative_path":"d/new","operation":"create","new_content":""},{"relative_path":"other","operation":"delete"}])");
    const Json data = submit({"--files", (scratch / "l").native()});
    EXPECT_EQ(data["changes"].size(), 3U);
    writeBytes(scratch / "l", R"([{"relative_path":"../x","operation":"create","new_content":"x"},
        {"relative_path":"poem","operation":"create","new_content":"x"},{"relative_path":"no","operation":"delete"},
        {"relative_path":"poem","operation":"explode"},{"relative_path":".git/config","operation":"create"},7])");
    const Ended ended = run({"submit", "--files", (scratch / "l").native(), "--json"});
    EXPECT_EQ(ended.exit, 1);
    EXPECT_EQ(ended.json()["data"]["faults"].size(), 6U);
    writeBytes(scratch / "l", R"([{"relative_path":"new","operation":"create","new_content":"x","mode":"755"}])");
    const Ended unknown = run({"submit", "--files", (scratch / "l").native(), "--json"});
    EXPECT_EQ(unknown.exit, 1);
    EXPECT_TRUE(has(unknown.out, "the key 'mode' is not known")) << unknown.out;
    writeBytes(scratch / "l", R"([{"relative_path":"new","operation":"create","new_content":"x","new_content":"y"}])");
    const Ended twice = run({"submit", "--files", (scratch / "l").native()});
    EXPECT_EQ(twice.exit, 2);
    EXPECT_TRUE(has(twice.err, "the key 'new_content' twice")) << twice.err;
    for (const std::string& text : {std::string("{}"), std::string("[1"), std::string(200'000, '[')}) {
        writeBytes(scratch / "l", text);
        EXPECT_EQ(run({"submit", "--files", (scratch / "l").native()}).exit, 2);
    }
}

TEST_F(ChangesProgram, TellsAPatchFromAListOnItsInput) {
    const std::string setting = "GRADUS_HOME='" + this->state.native() + "' HOME='" + home.native() + "' ";
    const std::string patch = git("printf -- '--- a/poem\\n+++ b/poem\\n@@ -1 +1 @@\\n-one\\n+uno\\n' | " + setting +
                                  GRADUS_PROGRAM " submit - --json");
    EXPECT_TRUE(Json::parse(patch).value("ok", false)) << patch;
    const std::string list = git("echo '[{\"relative_path\":\"other\",\"operation\":\"delete\"}]' | " + setting +
                                 GRADUS_PROGRAM " submit - --json");
    EXPECT_TRUE(Json::parse(list).value("ok", false)) << list;
}

TEST_F(ChangesProgram, WantsExactlyOneSource) {
    EXPECT_EQ(run({"submit"}).exit, 2);
    EXPECT_EQ(run({"submit", "--worktree", "--commit", "HEAD"}).exit, 2);
    const Ended nothing = run({"submit", "--worktree", "--json"});
    EXPECT_EQ(nothing.exit, 1);
    EXPECT_EQ(nothing.json()["error"]["code"], "empty");
}

TEST_F(ChangesProgram, RebasesOntoWhatMovedAndRefusesConflicts) {
    GRADUS_CASES("ST1", "ST4", "ST6");
    edit("one\ntwo\nthree\nfour\nfive\nSIX\n");
    const std::string patch = submit({"--worktree"})["change"]["patch"];
    git("git checkout -q -f HEAD");
    writeBytes(project / "other", "moved\n");
    EXPECT_EQ(runJson({"rebase", "c1"})["data"]["revised"], false);
    edit("ONE\ntwo\nthree\nfour\nfive\nsix\n");
    EXPECT_EQ(runJson({"rebase", "c1", "--dry-run"})["data"]["revised"], false);
    const Json rebased = runJson({"rebase", "c1"})["data"];
    EXPECT_EQ(rebased["revised"], true);
    EXPECT_EQ(rebased["change"]["revision"], "c1.2");
    EXPECT_EQ(rebased["change"]["patch"], patch);
    EXPECT_EQ(rebased["merged"], Json::array({"poem"}));
    EXPECT_EQ(bytesOf(project / "poem"), "ONE\ntwo\nthree\nfour\nfive\nsix\n");
    edit("one\ntwo\nthree\nfour\nfive\n6\n");
    const Ended conflict = run({"rebase", "c1.1", "--json"});
    EXPECT_EQ(conflict.exit, 1);
    EXPECT_EQ(conflict.json()["data"]["conflicts"][0]["path"], "poem");
    EXPECT_EQ(bytesOf(project / "poem"), "one\ntwo\nthree\nfour\nfive\n6\n");
}

TEST_F(ChangesProgram, KeepsTheContentsOfAChangeFromBeingSwept) {
    edit("changed\n");
    submit({"--worktree"});
    git("git checkout -q -f HEAD");
    EXPECT_EQ(run({"gc"}).exit, 0);
    EXPECT_NE(run({"diff", "c1"}).out.find("+changed"), std::string::npos);
    EXPECT_EQ(run({"store", "check"}).exit, 0);
}

TEST_F(ChangesProgram, KnowsOnlyTheProjectsOwnChanges) {
    edit("changed\n");
    submit({"--worktree"});
    const fs::path elsewhere = scratch / "elsewhere";
    fs::create_directories(elsewhere);
    EXPECT_EQ(run({"-C", elsewhere.native(), "show", "c1"}).exit, 2);
    EXPECT_EQ(run({"-C", elsewhere.native(), "submit", "--worktree"}).exit, 2);
}

}  // namespace
}  // namespace gradus::test
