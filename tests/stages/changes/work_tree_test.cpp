#include "stages/changes/work_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "stages/changes/stat_cache.h"
#include "store/model/error.h"
#include "tests/stages/changes/change_rig.h"
#include "tests/stages/changes/git_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::ChangeRig;
using test::shell;

// The stamp of a file that was written this long ago is beyond doubt older than now.
void letTheClockTick() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

struct WorkTreeTest : testing::Test {
    ChangeRig rig;
    fs::path project = fs::canonical(rig.tree);

    void SetUp() override {
        if (!test::hasGit()) GTEST_SKIP() << "there is no git";
    }
    void commit(const std::string& options = "") {
        shell(project, "git init -q " + options + " . && git add -A && git commit -qm first");
    }
    WorkTree read(bool keep = false) {
        return readWorkTree(
            {.project = project, .cache = rig.scratch / "cache", .keep = keep ? &rig.objects : nullptr});
    }
    std::vector<std::string> paths(const WorkTree& tree) {
        std::vector<std::string> paths;
        for (const PathChange& change : tree.differences.changes())
            paths.push_back(std::string(nameOf(kChangeKinds, kindOf(change))) + " " + change.path);
        return paths;
    }
    using Paths = std::vector<std::string>;
};

TEST_F(WorkTreeTest, HasNoDifferencesAfterACommit) {
    rig.put("a", "a");
    rig.put("d/b", "b", 0755);
    fs::create_symlink("a", project / "l");
    commit();
    const WorkTree tree = read();
    EXPECT_TRUE(tree.differences.empty());
    EXPECT_EQ(tree.fingerprint.commit + "\n", shell(project, "git rev-parse HEAD"));
    EXPECT_EQ(tree.fingerprint.tree, ChangeSet().digest());
}

TEST_F(WorkTreeTest, TemporariesOfTheWriterAreNoPartOfIt) {
    rig.put("a", "a");
    rig.put("d/b", "b");
    commit();
    rig.put(".gradus-staging-0123456789abcdef/0", "what came out");
    rig.put("d/.gradus-staging-0123456789abcdef/0", "what came out");
    EXPECT_EQ(paths(read()), Paths{});
    rig.put("new", "new");
    EXPECT_EQ(paths(read()), Paths{"added new"});
}

TEST_F(WorkTreeTest, TellsWhatDiffersFromTheCommit) {
    for (const char* name : {"edited", "gone", "mode", "type", "d/deep"}) rig.put(name, "was\n");
    rig.put(".gitignore", "*.o\n");
    commit();
    rig.put("edited", "is\n");
    fs::remove(project / "gone");
    fs::permissions(project / "mode", fs::perms(0755));
    fs::remove(project / "type");
    fs::create_symlink("x", project / "type");
    fs::remove_all(project / "d");
    rig.put("new", "new");
    rig.put("ignored.o", "x");
    const WorkTree tree = read(true);
    EXPECT_EQ(paths(tree), (Paths{"deleted d", "deleted d/deep", "modified edited", "deleted gone", "mode-changed mode",
                                  "added new", "type-changed type"}));
    for (const PathChange& change : tree.differences.changes())
        for (const auto& side : {change.before, change.after})
            EXPECT_TRUE(!side || side->type == EntryType::kDirectory || rig.objects.contains(side->digest));
    EXPECT_EQ(rig.text(tree.differences.changes()[2].before), "was\n");
    EXPECT_EQ(rig.text(tree.differences.changes()[2].after), "is\n");
}

TEST_F(WorkTreeTest, TakesPermissionsAsGitDoes) {
    rig.put("a", "a", 0664);
    rig.put("b", "b", 0600);
    commit();
    EXPECT_TRUE(read().differences.empty());
    rig.put("new", "new", 0660);
    EXPECT_EQ(read().differences.changes().at(0).after->mode, 0644U);
}

TEST_F(WorkTreeTest, TellsAFileThatBecameADirectoryAndTheReverse) {
    rig.put("a", "a");
    rig.put("d/x", "x");
    commit();
    fs::remove(project / "a");
    rig.put("a/b", "b");
    fs::remove_all(project / "d");
    rig.put("d", "a file");
    const WorkTree tree = read();
    EXPECT_EQ(paths(tree), (Paths{"type-changed a", "added a/b", "type-changed d", "deleted d/x"}));
    EXPECT_EQ(tree.differences.changes()[0].after, ChangeRig::directory());
    EXPECT_EQ(tree.differences.changes()[2].before, ChangeRig::directory());
}

TEST_F(WorkTreeTest, SeesStagedForcedAndUnstagedFilesAlike) {
    rig.put(".gitignore", "*.log\n");
    rig.put("a", "a");
    commit();
    rig.put("forced.log", "x");
    rig.put("staged", "x");
    shell(project, "git add -f forced.log && git add staged && git rm -q --cached a");
    EXPECT_EQ(paths(read()), (Paths{"added forced.log", "added staged"}));
}

TEST_F(WorkTreeTest, ReadsAnUnchangedFileOnlyOnce) {
    rig.put("a", "a");
    commit();
    letTheClockTick();
    read();
    // The same inode, size and times with another content: only who reads it would know.
    struct stat info {};
    ASSERT_EQ(::stat((project / "a").c_str(), &info), 0);
    StatCache cache(rig.scratch / "cache");
    EXPECT_TRUE(cache.directory("").find("a", info, BlobNaming::kSha1));
    info.st_ctim.tv_nsec ^= 1;
    EXPECT_FALSE(cache.directory("").find("a", info, BlobNaming::kSha1));
}

// Enough directories for several threads: what they find is what one would.
TEST_F(WorkTreeTest, TellsTheSameOfALargeTreeWhetherItIsKnownOrNot) {
    constexpr int kDirectories = 200;
    for (int i = 0; i < 5 * kDirectories; ++i)
        rig.put(fmt::format("d{}/e/f{}", i % kDirectories, i), std::to_string(i));
    commit();
    for (int i = 0; i < kDirectories; i += 7) rig.put(fmt::format("d{}/e/f{}", i, i), "edited");
    fs::remove(project / "d3/e/f3");
    rig.put("d5/e/new", "new");
    letTheClockTick();
    const WorkTree first = read();
    EXPECT_EQ(first.differences.changes().size(), 31U);
    EXPECT_EQ(read().differences.digest(), first.differences.digest());
    // Names that come in another order than the last time, and one that went.
    fs::rename(project / "d9/e/f9", project / "d9/e/a9");
    fs::rename(project / "d9/e/a9", project / "d9/e/f9");
    fs::remove(project / "d10/e/f10");
    const WorkTree known = read();
    fs::remove(rig.scratch / "cache");
    EXPECT_EQ(read().differences.digest(), known.differences.digest());
    EXPECT_EQ(known.differences.changes().size(), 32U);
}

TEST_F(WorkTreeTest, WritesTheCacheOnlyWhereThatSavesMore) {
    for (int i = 0; i < 200; ++i) rig.put(fmt::format("d{}/f{}", i % 10, i), std::to_string(i));
    commit();
    letTheClockTick();
    read();
    const auto written = fs::last_write_time(rig.scratch / "cache");
    rig.put("d1/one", "one");
    letTheClockTick();
    read();
    EXPECT_EQ(fs::last_write_time(rig.scratch / "cache"), written);
    for (int i = 0; i < 50; ++i) rig.put(fmt::format("d2/more{}", i), "more");
    letTheClockTick();
    read();
    EXPECT_NE(fs::last_write_time(rig.scratch / "cache"), written);
}

TEST_F(WorkTreeTest, ReadsARacilyCleanFileAgain) {
    rig.put("a", "one");
    commit();
    for (int round = 0; round < 20; ++round) {
        // Without a pause: often within one tick of the clock that stamps files.
        const std::string text = round % 2 == 0 ? "two" : "six";
        const int fd = ::open((project / "a").c_str(), O_WRONLY);
        ASSERT_EQ(::pwrite(fd, text.data(), text.size(), 0), 3);
        ::close(fd);
        ASSERT_EQ(read().differences.changes().at(0).after->digest, sha256(text));
    }
}

TEST_F(WorkTreeTest, NoticesAnEditThatKeepsSizeAndModificationTime) {
    rig.put("a", "one");
    commit();
    letTheClockTick();
    EXPECT_TRUE(read().differences.empty());
    const auto time = fs::last_write_time(project / "a");
    const int fd = ::open((project / "a").c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(fd, "two", 3, 0), 3);
    ::close(fd);
    fs::last_write_time(project / "a", time);
    EXPECT_EQ(paths(read()), Paths{"modified a"});
}

TEST_F(WorkTreeTest, TakesADamagedCacheForAnEmptyOne) {
    rig.put("a", "one");
    commit();
    letTheClockTick();
    read();
    std::string bytes = test::readText(rig.scratch / "cache");
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    test::writeText(rig.scratch / "cache", bytes);
    rig.put("a", "two");
    EXPECT_EQ(paths(read()), Paths{"modified a"});
    test::writeText(rig.scratch / "cache", bytes.substr(0, 10));
    EXPECT_EQ(paths(read()), Paths{"modified a"});
}

TEST_F(WorkTreeTest, LeavesSubmodulesAloneAndSaysSo) {
    GRADUS_CASES("CA5");
    rig.put("a", "a");
    fs::create_directories(rig.scratch / "other");
    test::writeText(rig.scratch / "other/x", "x");
    shell(rig.scratch / "other", "git init -q . && git add -A && git commit -qm x");
    commit();
    shell(project, "git -c protocol.file.allow=always submodule --quiet add '" + (rig.scratch / "other").native() +
                       "' sub && git commit -qm sub");
    rig.put("sub/x", "edited");
    rig.put("nested/.git/HEAD", "ref: refs/heads/main\n");
    rig.put("nested/file", "x");
    const WorkTree tree = read();
    EXPECT_TRUE(tree.differences.empty());
    EXPECT_EQ(tree.notes, (Paths{"nested: a repository of its own, left alone", "sub: a submodule, left alone"}));
}

TEST_F(WorkTreeTest, LeavesFilesOfLfsAloneAndSaysSo) {
    rig.put("big", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
    commit();
    rig.put("big", "bytes");
    const WorkTree tree = read();
    EXPECT_TRUE(tree.differences.empty());
    EXPECT_EQ(tree.notes, Paths{"big: kept by git LFS, left alone"});
}

TEST_F(WorkTreeTest, ReadsALinkedWorkTree) {
    rig.put("a", "a");
    commit();
    shell(project, "git worktree add -q '" + (rig.scratch / "linked").native() + "' -b other");
    test::writeText(rig.scratch / "linked/new", "new");
    const WorkTree tree = readWorkTree({.project = fs::canonical(rig.scratch / "linked")});
    EXPECT_EQ(paths(tree), Paths{"added new"});
    EXPECT_EQ(tree.fingerprint.commit, read().fingerprint.commit);
}

TEST_F(WorkTreeTest, RefusesAFileThatNamesSomebodysRepository) {
    GRADUS_CASES("CA14");
    rig.put("a", "a");
    commit();
    shell(project, "git worktree add -q '" + (rig.scratch / "linked").native() + "' -b other");
    fs::create_directory(rig.scratch / "thief");
    fs::copy_file(rig.scratch / "linked/.git", rig.scratch / "thief/.git");
    EXPECT_THROW(readWorkTree({.project = fs::canonical(rig.scratch / "thief")}), Error);
}

TEST_F(WorkTreeTest, MissesNothingInASparseCheckout) {
    rig.put("in/a", "a");
    rig.put("out/b", "b");
    rig.put("out/deep/c", "c");
    commit();
    for (const char* how : {"--cone", "--cone --sparse-index", "--no-cone"}) {
        shell(project, std::string("git sparse-checkout set ") + how + " in");
        ASSERT_FALSE(fs::exists(project / "out/deep")) << how;
        EXPECT_TRUE(read().differences.empty()) << how;
        rig.put("in/a", "edited");
        EXPECT_EQ(paths(read()), Paths{"modified in/a"}) << how;
        rig.put("in/a", "a");
    }
}

TEST_F(WorkTreeTest, ReadsThePartOfARepositoryThatIsTheProject) {
    rig.put("part/a", "a");
    rig.put("other/b", "b");
    commit();
    rig.put("part/new", "new");
    rig.put("other/b", "edited");
    EXPECT_EQ(paths(readWorkTree({.project = project / "part"})), Paths{"added new"});
}

TEST_F(WorkTreeTest, ReadsARepositoryOfLongerNames) {
    rig.put("a", "a");
    commit("--object-format=sha256");
    ASSERT_EQ(read().fingerprint.commit.size(), 64U);
    EXPECT_TRUE(read().differences.empty());
    rig.put("a", "b");
    EXPECT_EQ(paths(read()), Paths{"modified a"});
}

TEST_F(WorkTreeTest, TakesARepositoryWithoutACommitForADirectory) {
    rig.put("a", "a");
    rig.put(".gitignore", "b\n");
    rig.put("b", "b");
    shell(project, "git init -q .");
    const WorkTree tree = read();
    EXPECT_TRUE(tree.fingerprint.commit.empty());
    EXPECT_EQ(tree.manifest.items().size(), 2U);
}

TEST_F(WorkTreeTest, RunsNothingThatTheRepositoryNames) {
    GRADUS_CASES("CA16");
    rig.put("a", "a");
    rig.put(".gitattributes", "* filter=x\n");
    commit();
    const std::string canary = (rig.scratch / "canary").native();
    shell(project, "git config core.fsmonitor 'touch " + canary + "'; git config filter.x.clean 'touch " + canary +
                       "; cat'; git config core.hooksPath .; git config core.pager 'touch " + canary + "'");
    rig.put("a", "b");
    EXPECT_EQ(paths(read(true)), Paths{"modified a"});
    EXPECT_FALSE(fs::exists(canary));
}

TEST(PlainDirectory, IsItsManifest) {
    ChangeRig rig;
    rig.put("a", "a", 0640);
    rig.put("d/b", "b");
    fs::create_symlink("a", rig.tree / "l");
    ASSERT_EQ(::mkfifo((rig.tree / "pipe").c_str(), 0600), 0);
    const WorkTree tree = readWorkTree({.project = fs::canonical(rig.tree)});
    EXPECT_EQ(
        tree.manifest,
        Manifest(
            {{"a", rig.file("a", 0640)}, {"d", ChangeRig::directory()}, {"d/b", rig.file("b")}, {"l", rig.link("a")}}));
    EXPECT_EQ(tree.fingerprint.tree, tree.manifest.digest());
    EXPECT_TRUE(tree.differences.empty());
}

TEST(PlainDirectory, ChangesItsFingerprintWithItsFiles) {
    ChangeRig rig;
    rig.put("a", "a");
    const WorkTreeRequest request{.project = fs::canonical(rig.tree), .cache = rig.scratch / "cache"};
    const Digest before = readWorkTree(request).fingerprint.tree;
    EXPECT_EQ(readWorkTree(request).fingerprint.tree, before);
    rig.put("a", "b");
    EXPECT_NE(readWorkTree(request).fingerprint.tree, before);
}

}  // namespace
}  // namespace gradus
