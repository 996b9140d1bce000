#include "stages/sandbox/clone_commit.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>

#include "store/file.h"
#include "store/model/error.h"
#include "tests/stages/sandbox/clone_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class CloneCommit : public CloneTest {
  protected:
    void SetUp() override {
        CloneTest::SetUp();
        if (::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "git is not installed";
    }

    static std::string git(const FakeHome& home, const std::string& script) {
        return onHost({"PATH=/usr/bin:/bin", "HOME=" + home.path().native(), "GIT_CONFIG_NOSYSTEM=1"}, home.project(),
                      "exec 2>&1; " + script, someone());
    }
    static void start(const FakeHome& home) {
        home.write(".gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.org\n");
        git(home, "git init -q -b main .");
    }
    static fs::path cacheOf(const FakeHome& home) { return home.path() / "cache/commits"; }
    static std::string trimmed(std::string text) {
        while (text.ends_with('\n')) text.pop_back();
        return text;
    }
    /// What git would say about that directory.
    static std::string listing(const fs::path& tree) {
        return onHost({"PATH=/usr/bin:/bin"}, tree,
                      "find . -mindepth 1 -printf '%m %y %p %l\\n' | LC_ALL=C sort; find . -type f -exec sha1sum {} + "
                      "| LC_ALL=C sort",
                      {::geteuid(), ::getegid()});
    }
    static std::string refusal(const fs::path& project, const std::string& commit, const fs::path& cache) {
        try {
            materialise(project, commit, cache);
        } catch (const Error& error) {
            return std::string(error.what()) + " | " + error.hint();
        }
        return "accepted";
    }
};

// Modes, links, odd names, empty files; no attribute, filter or hook has a say.
TEST_F(CloneCommit, IsExactlyTheTreeOfTheCommit) {
    const FakeHome home(someone());
    start(home);
    home.program("code/shop/bin/run", "#!/bin/sh\n");
    home.write("code/shop/dir/a b\n\xff.txt", "odd\n");
    home.write("code/shop/empty", "");
    home.write("code/shop/crlf.txt", "one\r\ntwo\r\n");
    home.write("code/shop/.gitattributes",
               "*.txt text eol=lf ident\n*.md filter=evil export-ignore\nREADME.md export-subst\n");
    home.link("code/shop/link", "/etc/passwd");
    git(home, "git -c core.autocrlf=false add -A && git commit -qm first");
    git(home, "git config filter.evil.smudge 'touch ../canary' && git config core.fsmonitor 'touch ../canary'");
    home.write("code/shop/.git/hooks/post-checkout", "#!/bin/sh\ntouch ../canary\n");
    home.write("code/shop/README.md", "edited since\n");
    const MaterialisedCommit made = materialise(home.project(), "main", cacheOf(home));
    EXPECT_EQ(made.commit, trimmed(git(home, "git rev-parse main")));
    EXPECT_EQ(listing(made.tree),
              onHost({"PATH=/usr/bin:/bin", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}, home.project(),
                     "umask 022; d=$(mktemp -d); cp -r .git $d/r; cd $d; mkdir t; rm -f r/hooks/* r/index; printf "
                     "'[core]\\nbare=false\\nautocrlf=false\\n' > r/config; "
                     "mkdir -p r/info; printf '* -text -ident -filter\\n' > r/info/attributes; "
                     "git --git-dir=r --work-tree=t checkout -q -f main -- . 2>&1; cd t; find . -mindepth 1 -printf "
                     "'%m %y %p %l\\n' | LC_ALL=C sort; "
                     "find . -type f -exec sha1sum {} + | LC_ALL=C sort; rm -rf $d",
                     someone()));
    EXPECT_FALSE(fs::exists(home.path() / "code/canary"));
    struct stat info {};
    ASSERT_EQ(::lstat((made.tree / "README.md").c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, someone().uid) << "the command must be able to change its copy";
    EXPECT_TRUE(made.notes.empty()) << joined(made.notes);
}

TEST_F(CloneCommit, IsWrittenOnceWhateverItIsCalled) {
    const FakeHome home(someone());
    start(home);
    git(home, "git add -A && git commit -qm first && git tag -a v1 -m v1");
    const MaterialisedCommit first = materialise(home.project(), "HEAD", cacheOf(home));
    struct stat before {};
    ASSERT_EQ(::stat(first.tree.c_str(), &before), 0);
    for (const std::string& name : {std::string("main"), std::string("v1"), first.commit, first.commit.substr(0, 8)}) {
        const MaterialisedCommit again = materialise(home.project(), name, cacheOf(home));
        EXPECT_EQ(again.tree, first.tree) << name;
        struct stat info {};
        ASSERT_EQ(::stat(again.tree.c_str(), &info), 0);
        EXPECT_EQ(info.st_ino, before.st_ino) << name;
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(cacheOf(home)), fs::directory_iterator()), 1);
}

TEST_F(CloneCommit, RunsInsideAsTheProjectWasThen) {
    const FakeHome home(someone());
    start(home);
    git(home, "git add -A && git commit -qm first");
    home.write("code/shop/README.md", "edited since\n");
    home.write("code/shop/untracked", "x\n");
    CloneRequest request = home.request();
    request.lowers = {materialise(home.project(), "HEAD", cacheOf(home)).tree};
    request.hiddenPaths = {home.path() / "cache"};
    const ClonePlan plan = planClone(request);
    EXPECT_EQ(
        output(plan,
               "ls; cat README.md; git log --format=%s; git status --porcelain; echo x > README.md && cat README.md"),
        "README.md\nhello\nfirst\nx\n")
        << joined(plan.notes);
    EXPECT_EQ(plan.notOurs, std::vector<std::string>{".git"});
    EXPECT_EQ(materialise(home.project(), "HEAD", cacheOf(home)).tree, request.lowers[0]);
    std::ifstream file(request.lowers[0] / "README.md");
    std::string text;
    std::getline(file, text);
    EXPECT_EQ(text, "hello") << "the cache is never written";
}

TEST_F(CloneCommit, TakesThePartThatTheProjectIs) {
    const FakeHome home(someone());
    start(home);
    home.write("code/shop/api/main.c", "x\n");
    git(home, "git add -A && git commit -qm first");
    const MaterialisedCommit part = materialise(home.project() / "api", "main", cacheOf(home));
    EXPECT_EQ(listing(part.tree).substr(0, 20), "644 f ./main.c \n6fcf");
    EXPECT_NE(part.tree, materialise(home.project(), "main", cacheOf(home)).tree);
}

TEST_F(CloneCommit, LeavesSubmodulesEmptyAndSaysSo) {
    const FakeHome home(someone());
    start(home);
    git(home,
        "git add -A && git commit -qm first && git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub && "
        "git commit -qm sub");
    home.write("code/shop/big.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    git(home, "git add big.bin && git commit -qm lfs");
    for (int round = 0; round < 2; ++round) {
        const MaterialisedCommit made = materialise(home.project(), "main", cacheOf(home));
        EXPECT_TRUE(fs::is_empty(made.tree / "sub"));
        EXPECT_EQ(made.notes.size(), 2U) << joined(made.notes);
        EXPECT_TRUE(mentions(made.notes, "submodule sub"));
        EXPECT_TRUE(mentions(made.notes, "git LFS"));
    }
}

// A tree that git itself would never check out.
TEST_F(CloneCommit, RefusesATreeThatReachesOutside) {
    GRADUS_CASES("CA1", "CA2");
    const FakeHome home(someone());
    start(home);
    const std::string make =
        "b=$(echo CANARY | git hash-object -w --stdin); t=$(printf '100644 blob %s\\tevil\\n' $b | git mktree); ";
    const auto commitOf = [&](const std::string& tree) {
        return trimmed(git(home, make + "git commit-tree -m x $(" + tree + ")"));
    };
    // mktree checks little; hash-object --literally checks nothing.
    const std::string raw = "git hash-object -t tree -w --literally --stdin";
    const auto entry = [&](const std::string& mode, const std::string& path, const std::string& id) {
        return "printf '" + mode + " " + path + "\\0'; printf %s " + id + " | xxd -r -p; ";
    };
    if (::system("command -v xxd >/dev/null") != 0) {
        EXPECT_NE(refusal(home.project(), commitOf("printf '100644 blob %s\\t.git\\n' $b | git mktree"), cacheOf(home))
                      .find("no work tree may have"),
                  std::string::npos);
        return;
    }
    for (const std::string path : {"..", ".git", ".GIT", "."}) {
        const std::string commit = commitOf("{ " + entry("40000", path, "$t") + "} | " + raw);
        const std::string answer = refusal(home.project(), commit, cacheOf(home));
        EXPECT_NE(answer, "accepted") << path;
    }
    // A link, and then a file through it.
    const std::string twice = commitOf("{ l=$(printf /tmp | git hash-object -w --stdin); " +
                                       entry("120000", "a", "$l") + entry("40000", "a", "$t") + "} | " + raw);
    EXPECT_NE(refusal(home.project(), twice, cacheOf(home)), "accepted");
    EXPECT_FALSE(fs::exists("/tmp/evil"));
    EXPECT_TRUE(fs::is_empty(cacheOf(home))) << "nothing half-made stays";
}

TEST_F(CloneCommit, RefusesWhatItCannotOrMayNotRead) {
    GRADUS_CASES("CA14");
    const FakeHome home(someone());
    EXPECT_NE(refusal(home.project(), "HEAD", cacheOf(home)).find("no git repository"), std::string::npos);
    start(home);
    git(home, "git add -A && git commit -qm first");
    for (const char* name :
         {"no-such", "", "--all", "HEAD:README.md", "a\nb", "ffffffffffffffffffffffffffffffffffffffff"})
        EXPECT_NE(refusal(home.project(), name, cacheOf(home)).find("has no commit"), std::string::npos) << name;
    if (!isRoot()) return;
    ASSERT_EQ(::chown((home.project() / ".git").c_str(), 41299, 41299), 0);
    EXPECT_NE(refusal(home.project(), "HEAD", cacheOf(home)).find("belongs to uid 41299"), std::string::npos);
}

TEST_F(CloneCommit, SaysWhichContentIsMissing) {
    const FakeHome home(someone());
    start(home);
    git(home, "git add -A && git commit -qm first");
    const std::string id = trimmed(git(home, "git rev-parse HEAD:README.md"));
    fs::remove(home.project() / ".git/objects" / id.substr(0, 2) / id.substr(2));
    EXPECT_NE(refusal(home.project(), "HEAD", cacheOf(home)).find("README.md"), std::string::npos);
    EXPECT_TRUE(fs::is_empty(cacheOf(home)));
}

TEST_F(CloneCommit, ManyAtOnceMakeOneAndTheDeadLeaveNone) {
    const FakeHome home(someone());
    start(home);
    for (int i = 0; i < 300; ++i)
        home.write("code/shop/d" + std::to_string(i % 7) + "/f" + std::to_string(i), "text " + std::to_string(i));
    git(home, "git add -A && git commit -qm first");
    // Killed at any time: what is there afterwards is whole or nothing.
    for (int round = 0; round < 8; ++round) {
        const pid_t child = ::fork();
        if (child == 0) {
            materialise(home.project(), "HEAD", cacheOf(home));
            ::_exit(0);
        }
        ::usleep(static_cast<useconds_t>(round * 4000));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
    std::vector<std::thread> threads;
    std::vector<fs::path> trees(6);
    for (std::size_t i = 0; i < trees.size(); ++i)
        threads.emplace_back([&, i] { trees[i] = materialise(home.project(), "HEAD", cacheOf(home)).tree; });
    for (std::thread& thread : threads) thread.join();
    for (const fs::path& tree : trees) EXPECT_EQ(tree, trees[0]);
    EXPECT_EQ(std::distance(fs::recursive_directory_iterator(trees[0]), fs::recursive_directory_iterator()), 308);
    // Only a call that has something to write looks for what the dead left.
    home.write("code/shop/more", "x");
    git(home, "git add -A && git commit -qm second");
    materialise(home.project(), "HEAD", cacheOf(home));
    EXPECT_EQ(std::distance(fs::directory_iterator(cacheOf(home)), fs::directory_iterator()), 2);
}

// Old, and nobody's: only then it goes; and whoever comes at that very moment has a whole tree all the same.
TEST_F(CloneCommit, OnlyATreeThatIsOldAndNobodysIsCollected) {
    const FakeHome home(someone());
    start(home);
    git(home, "git add -A && git commit -qm first");
    const fs::path trash = home.path() / "trash";
    fs::create_directory(trash);
    const Time now = SystemClock().now();
    bool needed = false;
    std::string asked;
    const auto collect = [&](Time before) {
        return collectCommits(
            cacheOf(home), before,
            [&](const std::string& commit) {
                asked = commit;
                return needed;
            },
            trash);
    };
    std::optional<MaterialisedCommit> made = materialise(home.project(), "HEAD", cacheOf(home));
    EXPECT_EQ(collect(now + std::chrono::hours(1)), 0U) << "it is held";
    EXPECT_EQ(asked, "");
    const std::string commit = made->commit;
    made.reset();
    EXPECT_EQ(collect(now - std::chrono::hours(1)), 0U) << "it is young";
    needed = true;
    EXPECT_EQ(collect(now + std::chrono::hours(1)), 0U) << "something stands on it";
    EXPECT_EQ(asked, commit);
    needed = false;
    EXPECT_EQ(collect(now + std::chrono::hours(1)), 1U);
    EXPECT_EQ(std::distance(fs::directory_iterator(trash), fs::directory_iterator()), 1);
    made = materialise(home.project(), "HEAD", cacheOf(home));
    EXPECT_TRUE(fs::exists(made->tree / "README.md"));
}

TEST_F(CloneCommit, CollectingBesideUsersNeverTakesATreeFromUnderOne) {
    const FakeHome home(someone());
    start(home);
    git(home, "git add -A && git commit -qm first");
    const fs::path trash = home.path() / "trash";
    fs::create_directory(trash);
    std::atomic<bool> done{false};
    std::thread collector([&] {
        while (!done)
            collectCommits(
                cacheOf(home), SystemClock().now() + std::chrono::hours(1), [](const std::string&) { return false; },
                trash);
    });
    std::vector<std::thread> users;
    std::atomic<int> lost{0};
    for (int i = 0; i < 3; ++i)
        users.emplace_back([&] {
            for (int round = 0; round < 10; ++round) {
                const MaterialisedCommit made = materialise(home.project(), "HEAD", cacheOf(home));
                if (!fs::exists(made.tree / "README.md")) ++lost;
            }
        });
    for (std::thread& user : users) user.join();
    done = true;
    collector.join();
    EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace gradus
