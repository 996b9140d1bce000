// Git inside works, and nothing of it reaches the real repository.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/model/error.h"
#include "tests/stages/sandbox/clone_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class CloneGit : public CloneTest {
  protected:
    void SetUp() override {
        CloneTest::SetUp();
        if (::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "git is not installed";
    }

    /// On the host, as the home's owner.
    static std::string git(const FakeHome& home, const fs::path& directory, const std::string& script) {
        return onHost({"PATH=/usr/bin:/bin", "HOME=" + home.path().native(), "GIT_CONFIG_NOSYSTEM=1"}, directory,
                      "exec 2>&1; " + script, someone());
    }
    static void makeRepository(const FakeHome& home, const fs::path& directory) {
        git(home, directory, "git init -q -b main . && git add -A && git commit -qm first");
    }
    static void name(const FakeHome& home) {
        home.write(".gitconfig",
                   "[user]\n\tname = Ann\n\temail = ann@example.org\n[commit]\n\tgpgsign = true\n"
                   "[gpg]\n\tprogram = /no/such\n");
        // On the host the made-up person cannot sign either.
    }
    static std::string state(const FakeHome& home, const fs::path& directory) {
        return git(home, directory, "git for-each-ref; git status --porcelain; cat $(git rev-parse --git-dir)/HEAD");
    }
};

const char* const kWork =
    "git status --porcelain && echo inside >> README.md && git add -A && git commit -qm inside && git log "
    "--format=%an:%s "
    "&& git branch made-inside && git stash list && git worktree list | wc -l && git config made.inside yes";

TEST_F(CloneGit, CommitsInsideAndLeavesNothingOutside) {
    GRADUS_CASES("OV48", "NS26", "ST12");
    const FakeHome home(someone());
    home.write(".gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.org\n");
    makeRepository(home, home.project());
    const std::string before = state(home, home.project());
    EXPECT_NE(before.find("refs/heads/main"), std::string::npos) << before;
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(output(plan, kWork), "Ann:inside\nAnn:first\n1\n");
    EXPECT_EQ(
        output(
            plan,
            "rm -rf .git && git init -q fresh && cd fresh && git commit -q --allow-empty -m x && git log --format=%s"),
        "x\n");
    EXPECT_EQ(state(home, home.project()), before);
    EXPECT_TRUE(plan.notes.empty()) << joined(plan.notes);
    EXPECT_TRUE(plan.alsoKept.empty());
}

TEST_F(CloneGit, WorksInALinkedWorktreeAndLeavesTheRepositoryAlone) {
    const FakeHome home(someone());
    home.write(".gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.org\n");
    makeRepository(home, home.project());
    git(home, home.project(), "git worktree add -q ../linked -b topic");
    CloneRequest request = home.request();
    request.project = request.directory = home.path() / "code/linked";
    const std::string before = state(home, home.project()) + state(home, request.project);
    const ClonePlan plan = planClone(request);
    EXPECT_EQ(output(plan, kWork), "Ann:inside\nAnn:first\n2\n") << joined(plan.notes);
    EXPECT_EQ(output(plan, "ls -A ../shop"), ".git\n") << "of the main work tree only the repository is shown";
    EXPECT_EQ(state(home, home.project()) + state(home, request.project), before);
    EXPECT_EQ(plan.alsoKept, std::vector<std::size_t>{1});
    EXPECT_TRUE(plan.notes.empty()) << joined(plan.notes);
}

TEST_F(CloneGit, WorksInASubmoduleAndInARepositoryKeptElsewhere) {
    const FakeHome home(someone());
    home.write(".gitconfig",
               "[user]\n\tname = Ann\n\temail = ann@example.org\n[protocol \"file\"]\n\tallow = always\n");
    makeRepository(home, home.project());
    home.write("code/super/file", "x\n");
    makeRepository(home, home.path() / "code/super");
    git(home, home.path() / "code/super", "git submodule -q add ../shop sub && git commit -qm sub");
    CloneRequest request = home.request();
    request.project = request.directory = home.path() / "code/super/sub";
    ClonePlan plan = planClone(request);
    EXPECT_EQ(output(plan, kWork), "Ann:inside\nAnn:first\n1\n") << joined(plan.notes);
    // The repository around it, with the submodule in it.
    request.project = request.directory = home.path() / "code/super";
    plan = planClone(request);
    EXPECT_EQ(output(plan, "cd sub && git log --format=%s; cd .. && git submodule status | wc -l"), "first\n1\n");
}

// A file that came with an archive must not have any other repository shown.
TEST_F(CloneGit, AGitFileThatDoesNotLeadBackShowsNothing) {
    GRADUS_CASES("CA14", "NS26");
    const FakeHome home(someone());
    home.write(".gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.org\n");
    home.write("private/repo/file", "CANARY\n");
    makeRepository(home, home.path() / "private/repo");
    git(home, home.path() / "private/repo", "git worktree add -q ../linked");
    for (const char* target : {"../../private/repo/.git", "../../private/repo/.git/worktrees/linked", "/etc",
                               "/no/such", "../../.ssh", "/proc/self/root", ""}) {
        home.write("code/shop/.git", std::string("gitdir: ") + target + "\n");
        const ClonePlan plan = planClone(home.request());
        EXPECT_TRUE(mentions(plan.notes, "git does not work inside")) << target;
        EXPECT_EQ(output(plan, "ls ~/private 2>/dev/null; git status 2>/dev/null; echo done"), "done\n") << target;
        EXPECT_EQ(plan.workspace.overlays.size(), 1U) << target;
    }
    fs::remove(home.project() / ".git");
    home.link("code/shop/.git", "../../private/repo/.git");
    EXPECT_EQ(output(planClone(home.request()), "ls ~/private 2>/dev/null; echo done"), "done\n");
}

TEST_F(CloneGit, ARepositoryOfSomebodyElseIsNotShownWritable) {
    if (!isRoot()) GTEST_SKIP() << "only root can make files of another user";
    const FakeHome home(someone());
    const FakeHome other(Identity{41299, 41299});
    other.write("repo/.git/HEAD", "ref: refs/heads/main\n");
    other.write("repo/.git/objects/x", "");
    other.write("repo/.git/refs/x", "");
    other.write("repo/.git/config", fmt::format("[core]\n\tworktree = {}\n", home.project().native()));
    home.write("code/shop/.git", "gitdir: " + (other.path() / "repo/.git").native() + "\n");
    const ClonePlan plan = planClone(home.request());
    EXPECT_TRUE(mentions(plan.notes, "belongs to somebody else")) << joined(plan.notes);
    EXPECT_EQ(plan.workspace.overlays.size(), 1U);
}

TEST_F(CloneGit, BorrowedObjectsAreThere) {
    const FakeHome home(someone());
    home.write(".gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.org\n");
    makeRepository(home, home.project());
    git(home, home.path() / "code", "git clone -q --shared shop borrowed");
    CloneRequest request = home.request();
    request.project = request.directory = home.path() / "code/borrowed";
    EXPECT_EQ(output(planClone(request), "git log --format=%s && cat README.md"), "first\nhello\n");
    // Not everything that calls itself a store of objects is one.
    home.write(".ssh/objects/pack/x", "CANARY\n");
    home.write("letters/objects/x", "CANARY\n");
    home.write("code/borrowed/.git/objects/info/alternates", "../../../../.ssh/objects\n../../../../letters/objects\n");
    EXPECT_EQ(output(planClone(request), "ls -A ~/.ssh ~/letters 2>/dev/null; echo done"), "done\n");
}

TEST_F(CloneGit, AProjectThatIsAPartOfARepositorySeesIt) {
    const FakeHome home(someone());
    home.write(".gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.org\n");
    home.write("code/shop/api/main.c", "x\n");
    home.write("code/shop/private.txt", "CANARY\n");
    makeRepository(home, home.project());
    CloneRequest request = home.request();
    request.project = request.directory = home.project() / "api";
    const ClonePlan plan = planClone(request);
    EXPECT_EQ(output(plan, "git log --format=%s && git status --porcelain . && ls -A .."), "first\n.git\napi\n");
    EXPECT_TRUE(mentions(plan.notes, "a part of the repository")) << joined(plan.notes);
}

TEST_F(CloneGit, SaysThatAPasswordIsInView) {
    const FakeHome home(someone());
    home.write(".gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.org\n");
    makeRepository(home, home.project());
    git(home, home.project(), "git remote add origin https://ann:hunter2@example.org/shop");
    const ClonePlan plan = planClone(home.request());
    EXPECT_TRUE(mentions(plan.notes, "remote.url")) << joined(plan.notes);
    EXPECT_FALSE(mentions(plan.notes, "hunter2"));
}

// The person is the same inside, whatever way the configuration is spread over files.
TEST_F(CloneGit, ThePersonIsTheSameInside) {
    FakeHome home(someone());
    home.write(".gitconfig",
               "[user]\n\tname = Ann \\\"A\\\" Other\n[include]\n\tpath = .gitconfig-more\n[includeIf "
               "\"gitdir:~/code/\"]\n\tpath = "
               "~/.work/gitconfig\n[core]\n\texcludesFile = ~/.ignored\n\tpager = cat\n");
    home.write(".gitconfig-more", "[alias]\n\tst = status -s\n[http]\n\textraheader = CANARY\n");
    home.write(".work/gitconfig", "[user]\n\temail = ann@work.example\n[github]\n\ttoken = CANARY\n");
    home.write(".config/git/config", "[init]\n\tdefaultBranch = trunk\n[user]\n\tname = overridden\n");
    home.write(".ignored", "*.log\n");
    makeRepository(home, home.project());
    home.write("code/shop/x.log", "ignored by the person\n");
    const ClonePlan plan = planClone(home.request());
    const std::string questions =
        "git config user.name; git config user.email; git config alias.st; git config init.defaultBranch; git st";
    const std::string outside = onHost(plan.environment, home.project(), questions, plan.identity);
    EXPECT_EQ(outside, "Ann \"A\" Other\nann@work.example\nstatus -s\ntrunk\n");
    EXPECT_EQ(output(plan, questions), outside);
    EXPECT_EQ(output(plan, "grep -rl CANARY ~ 2>/dev/null; git config --global user.name Bob && git config user.name"),
              "Bob\n");
    home.variables["GIT_CONFIG_GLOBAL"] = (home.path() / ".work/gitconfig").native();
    EXPECT_EQ(output(planClone(home.request()), "git config user.email"), "ann@work.example\n");
}

// Nobody can sign inside: there is no key.
TEST_F(CloneGit, CommitsAreNotSigned) {
    const FakeHome home(someone());
    name(home);
    git(home, home.project(), "git init -q -b main .");
    EXPECT_EQ(output(planClone(home.request()), "git add -A && git commit -qm unsigned && git log --format=%s"),
              "unsigned\n");
}

}  // namespace
}  // namespace gradus
