// Patches against git itself, over random trees: what git writes we apply, what we write git applies, byte for byte.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

#include "stages/changes/patch.h"
#include "stages/changes/patch_identity.h"
#include "stages/changes/patch_writer.h"
#include "tests/stages/changes/change_rig.h"
#include "tests/stages/changes/git_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::shell;

const std::vector<std::string> kNames{"a", "b", "d/a", "d/e/f", "sp ace", "q\"uote", "ü", "-x"};

std::string someText() {
    const auto lines = *rc::gen::container<std::vector<std::string>>(
        rc::gen::element<std::string>("one", "two", "three", "", "-- dash", "+++ b/x", "@@ -1 +1 @@", "dos\r"));
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    if (*rc::gen::inRange(0, 3) == 0 && !text.empty()) text.pop_back();
    if (*rc::gen::inRange(0, 4) == 0) text += std::string("\0bin", 4) + *rc::gen::arbitrary<std::string>();
    return text;
}

// Each name a file, a script, a link or nothing.
void scatter(const fs::path& tree) {
    for (const std::string& name : kNames) {
        if (*rc::gen::inRange(0, 3) == 0) continue;
        std::error_code ignored;
        fs::create_directories((tree / name).parent_path(), ignored);
        fs::remove_all(tree / name, ignored);
        const int kind = *rc::gen::inRange(0, 6);
        if (kind == 0)
            fs::create_symlink("to " + name, tree / name);
        else
            test::writeText(tree / name, someText(), kind == 1 ? 0755 : 0644);
    }
}

std::map<std::string, std::string> listed(const fs::path& tree) {
    std::map<std::string, std::string> all;
    for (auto it = fs::recursive_directory_iterator(tree); it != fs::recursive_directory_iterator(); ++it) {
        if (it->path().filename() == ".git") {
            it.disable_recursion_pending();
            continue;
        }
        const std::string path = it->path().lexically_relative(tree);
        const fs::file_status status = it->symlink_status();
        if (fs::is_symlink(status)) all[path] = "link " + fs::read_symlink(it->path()).native();
        if (fs::is_regular_file(status))
            all[path] = ((status.permissions() & fs::perms::owner_exec) != fs::perms::none ? "x " : "- ") +
                        test::readText(it->path());
    }
    return all;
}

// What a change makes of a listed tree.
std::map<std::string, std::string> after(std::map<std::string, std::string> tree, const ChangeSet& changes,
                                         const Objects& objects) {
    for (const PathChange& change : changes.changes()) {
        tree.erase(change.path);
        if (!change.after || change.after->type == EntryType::kDirectory) continue;
        const std::string text = objects.readAll(change.after->digest, 1U << 20);
        tree[change.path] = change.after->type == EntryType::kSymlink ? "link " + text
                            : (change.after->mode & 0100) != 0        ? "x " + text
                                                                      : "- " + text;
    }
    return tree;
}

TEST(PatchProperty, AppliesWhatGitWritesAndWritesWhatGitApplies) {
    GRADUS_CASES("CA15");
    if (!test::hasGit()) GTEST_SKIP() << "there is no git";
    test::ChangeRig rig;
    const fs::path project = rig.tree;
    const bool held = rc::check("both ways", [&] {
        fs::remove_all(project);
        fs::create_directories(project);
        scatter(project);
        shell(project, "git init -q . && git add -A && git commit -q --allow-empty -m old");
        const auto old = listed(project);
        scatter(project);
        for (const std::string& name : kNames)
            if (*rc::gen::inRange(0, 5) == 0) fs::remove_all(project / name);
        const auto wanted = listed(project);
        const std::string how =
            *rc::gen::element<std::string>("", "-M", "-M -C --find-copies-harder", "-M10% -B", "-U0",
                                           "-U99 --no-prefix --src-prefix=x/ --dst-prefix=y/");
        const std::string text =
            shell(project, "git add -A && git diff --cached --binary " + how + " HEAD; git stash -q; git clean -qfd");
        RC_ASSERT(listed(project) == old);
        if (old == wanted) return;
        const PatchedChange patched = applyPatch(parsePatch(text), rig.reader(), rig.objects);
        for (const PatchFault& fault : patched.faults) RC_LOG() << fault.text() << "\n";
        if (!patched.faults.empty()) {
            // With -B git writes some that it does not take back itself.
            test::writeText(rig.scratch / "patch", text);
            RC_ASSERT(how.find("-B") != std::string::npos);
            RC_ASSERT(shell(project, "git apply --check '" + (rig.scratch / "patch").native() + "' 2>&1") != "");
            return;
        }
        RC_ASSERT(after(old, patched.changes, rig.objects) == wanted);

        const WrittenPatch written = writePatch(patched.changes, rig.objects);
        test::writeText(rig.scratch / "patch", written.text);
        const std::string said =
            shell(project, "git apply --whitespace=nowarn '" + (rig.scratch / "patch").native() + "' 2>&1");
        RC_ASSERT(said == "");
        RC_ASSERT(listed(project) == wanted);

        shell(project, "git checkout -q -f HEAD; git clean -qfd");
        const PatchedChange again = applyPatch(parsePatch(written.text), rig.reader(), rig.objects);
        RC_ASSERT(again.faults.empty());
        RC_ASSERT(again.changes == patched.changes);
    });
    EXPECT_TRUE(held);
}

}  // namespace
}  // namespace gradus
