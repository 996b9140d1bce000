// The differences of a work tree held against git's own word for them, over random histories and edits.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

#include "stages/changes/work_tree.h"
#include "tests/stages/changes/change_rig.h"
#include "tests/stages/changes/git_program.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::shell;

const std::vector<std::string> kPaths{"a", "b.o", "d/a", "d/b.o", "d/e/f", "sp ace", "d/.gitignore", "ü", "-x"};

void edit(const fs::path& project, const std::string& name) {
    const fs::path path = project / name;
    std::error_code ignored;
    switch (*rc::gen::inRange(0, 7)) {
        case 0:
            fs::remove_all(path, ignored);
            break;
        case 1:
            if (fs::is_regular_file(fs::symlink_status(path))) fs::permissions(path, fs::perms(0755), ignored);
            break;
        case 2:
            fs::remove_all(path, ignored);
            fs::create_directories(path.parent_path(), ignored);
            // Not to a name that may be a link itself: git gives up half way where one leads in a circle.
            fs::create_symlink("nowhere", path, ignored);
            break;
        case 3:
            // Now and then a directory where a file was, or a file where a directory was.
            fs::remove_all(path, ignored);
            fs::create_directories(path, ignored);
            if (fs::is_directory(path)) test::writeText(path / "inside", "x");
            break;
        default:
            if (!fs::is_directory(fs::symlink_status(path.parent_path()))) fs::remove_all(path.parent_path(), ignored);
            fs::remove_all(path, ignored);
            test::writeText(path, *rc::gen::element<std::string>("one\n", "two\n", "*.o\n", ""));
    }
}

std::vector<std::string> words(const std::string& text) {
    std::vector<std::string> words;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\0', begin);
        words.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

// What git would commit if everything were added now; and what was taken out of the index and is ignored since: git
// calls it deleted, while it is there, and we compare it. The copy is as old as the index: git doubts files that are
// not older than that.
std::map<std::string, char> gitSays(const fs::path& project) {
    const std::string text =
        shell(project,
              "cp -p .git/index .git/copy; export GIT_INDEX_FILE=.git/copy; git add -A 2>/dev/null; "
              "git diff --cached --no-renames --name-status -z HEAD; printf '=\\0'; "
              "git ls-files -z --others --ignored --exclude-standard");
    std::map<std::string, char> said;
    const std::vector<std::string> all = words(text);
    std::size_t i = 0;
    for (; all.at(i) != "="; i += 2) said[all.at(i + 1)] = all[i][0];
    for (++i; i < all.size(); ++i)
        if (said.contains(all[i])) said[all[i]] = '?';
    return said;
}

bool agree(const std::map<std::string, char>& ours, std::map<std::string, char> theirs) {
    auto mine = ours;
    for (auto it = theirs.begin(); it != theirs.end();) {
        if (it->second == '?') mine.erase(it->first);
        it = it->second == '?' ? theirs.erase(it) : std::next(it);
    }
    return mine == theirs;
}

std::map<std::string, char> weSay(const WorkTree& tree) {
    std::map<std::string, char> said;
    for (const PathChange& change : tree.differences.changes()) {
        const bool was = change.before && change.before->type != EntryType::kDirectory;
        const bool is = change.after && change.after->type != EntryType::kDirectory;
        if (!was && !is) continue;
        said[change.path] = !was ? 'A' : !is ? 'D' : change.before->type != change.after->type ? 'T' : 'M';
    }
    return said;
}

TEST(WorkTreeProperty, DiffersFromTheCommitAsGitSays) {
    if (!test::hasGit()) GTEST_SKIP() << "there is no git";
    std::size_t differences = 0;
    const bool held = rc::check("as git status", [&] {
        const test::ScratchDirectory scratch;
        const fs::path project = fs::canonical(scratch.path()) / "p";
        fs::create_directory(project);
        for (const std::string& name : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(kPaths)))
            edit(project, name);
        test::writeText(project / ".gitignore", *rc::gen::element<std::string>("", "*.o\n", "d/\n", "*.o\n!b.o\n"));
        shell(project,
              "git init -q . && git add -A && git add -f b.o d/b.o 2>/dev/null; git commit -q --allow-empty -m x");
        const int rounds = *rc::gen::inRange(1, 3);
        for (int round = 0; round < rounds; ++round) {
            for (const std::string& name : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(kPaths)))
                edit(project, name);
            if (*rc::gen::arbitrary<bool>()) shell(project, "git add -A");
            const WorkTree tree = readWorkTree({.project = project, .cache = scratch / "cache"});
            const auto theirs = gitSays(project);
            RC_LOG() << rc::toString(weSay(tree)) << " against " << rc::toString(theirs);
            RC_ASSERT(agree(weSay(tree), theirs));
            differences += tree.differences.changes().size();
        }
    });
    EXPECT_TRUE(held);
    EXPECT_GT(differences, 0U);
}

}  // namespace
}  // namespace gradus
