#include "stages/changes/patch.h"

#include <gtest/gtest.h>

#include "stages/changes/patch_identity.h"
#include "stages/changes/patch_writer.h"
#include "store/model/error.h"
#include "tests/stages/changes/change_rig.h"
#include "tests/stages/changes/git_program.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::ChangeRig;
using Paths = std::vector<std::string>;

struct PatchTest : testing::Test {
    ChangeRig rig;

    PatchedChange apply(const std::string& text) {
        kept = text;
        return applyPatch(parsePatch(kept), rig.reader(), rig.objects);
    }
    /// The one fault's words; all of them, where there are more.
    std::string refusal(const std::string& text) {
        std::string all;
        const PatchedChange patched = apply(text);
        EXPECT_TRUE(patched.changes.empty());
        for (const PatchFault& fault : patched.faults) all += (all.empty() ? "" : "\n") + fault.text();
        return all;
    }
    std::string after(const PatchedChange& patched, std::size_t number = 0) {
        return rig.text(patched.changes.changes().at(number).after);
    }
    static std::string file(const std::string& name, const std::string& hunks) {
        return "--- a/" + name + "\n+++ b/" + name + "\n" + hunks;
    }
    std::string kept;
};

TEST_F(PatchTest, EditsExactlyTheLinesItNames) {
    rig.put("a", "1\n2\n3\n4\n5\n");
    const auto patched = apply(file("a", "@@ -1,3 +1,4 @@\n 1\n-2\n+two\n+2.5\n 3\n@@ -5 +6 @@\n-5\n+five\n"));
    ASSERT_TRUE(patched.faults.empty()) << patched.faults[0].text();
    EXPECT_EQ(after(patched), "1\ntwo\n2.5\n3\n4\nfive\n");
    EXPECT_EQ(patched.changes.changes()[0].before, rig.reader().at("a"));
    EXPECT_TRUE(rig.objects.contains(patched.changes.changes()[0].before->digest));
}

TEST_F(PatchTest, TakesNoFuzzAndAnOffsetOnlyToTheOnlyPlace) {
    GRADUS_CASES("CA7");
    rig.put("a", "0\n1\n2\n");
    const auto moved = apply(file("a", "@@ -1,2 +1,2 @@\n 1\n-2\n+two\n"));
    ASSERT_TRUE(moved.faults.empty());
    EXPECT_EQ(after(moved), "0\n1\ntwo\n");
    EXPECT_EQ(moved.notes, Paths({"a: hunk 1 fits at line 2, 1 line further down than the patch says"}));
    rig.put("a", "0\n1\n2\n1\n2\n");
    EXPECT_EQ(refusal(file("a", "@@ -1,2 +1,2 @@\n 1\n-2\n+two\n")),
              "patch line 3: a, hunk 1: its lines are in the file more than once, at lines 2 and 4");
    EXPECT_EQ(after(apply(file("a", "@@ -2,2 +2,2 @@\n 1\n-2\n+two\n"))), "0\n1\ntwo\n1\n2\n") << "where it says";
    EXPECT_EQ(refusal(file("a", "@@ -1 +1 @@\n-2\n+two\n")), "patch line 4: a, hunk 1: line 1 of the file is another")
        << "without context there is nothing to find it by";
    rig.put("a", "0\n1\n2\n");
    EXPECT_EQ(refusal(file("a", "@@ -2,2 +2,2 @@\n 1 \n-2\n+two\n")),
              "patch line 4: a, hunk 1: line 2 of the file is another");
}

TEST_F(PatchTest, AfterAHunkThatMovedWhereTheNextOneSaysIsNoBetter) {
    rig.put("a", "new\n1\n2\nx\n}\nx\n}\n");
    const std::string first = "@@ -1,2 +1,2 @@\n 1\n-2\n+two\n";
    EXPECT_NE(refusal(file("a", first + "@@ -4,2 +4,2 @@\n x\n-}\n+]\n")).find("more than once"), std::string::npos);
    rig.put("a", "new\n1\n2\nx\n}\n");
    const auto both = apply(file("a", first + "@@ -3,2 +3,2 @@\n x\n-}\n+]\n"));
    ASSERT_TRUE(both.faults.empty());
    EXPECT_EQ(after(both), "new\n1\ntwo\nx\n]\n");
    EXPECT_EQ(both.notes.size(), 2U);
}

TEST_F(PatchTest, TakesNamesWithoutPrefixAsTheyAre) {
    rig.put("src/a.c", "1\n");
    rig.put("a.c", "1\n");
    rig.put("top", "1\n");
    const std::string hunk = "@@ -1 +1 @@\n-1\n+one\n";
    const auto paths = [&](const std::string& text) {
        const PatchedChange patched = apply(text);
        Paths found;
        for (const PatchFault& fault : patched.faults) found.push_back(fault.text());
        for (const PathChange& change : patched.changes.changes()) found.push_back(change.path);
        return found;
    };
    EXPECT_EQ(paths("diff --git src/a.c src/a.c\nindex 1..2 100644\n--- src/a.c\n+++ src/a.c\n" + hunk),
              Paths({"src/a.c"}));
    EXPECT_EQ(apply("--- top\n+++ top\n" + hunk).notes,
              Paths({"the patch has names without a/ and b/: they are taken as they are"}));
    EXPECT_EQ(paths("--- src/a.c\t2026-01-01\n+++ src/a.c\t2026-01-02\n" + hunk), Paths({"src/a.c"}));
    EXPECT_EQ(paths("diff --git x/new x/new\nnew file mode 100644\n--- /dev/null\n+++ x/new\n@@ -0,0 +1 @@\n+1\n"),
              Paths({"x/new"}));
    EXPECT_EQ(paths("diff --git src/a.c src/a.c\nold mode 100644\nnew mode 100755\n"), Paths({"src/a.c"}));
    EXPECT_EQ(paths("diff --git a/src/a.c b/src/a.c\n--- a/src/a.c\n+++ b/src/a.c\n" + hunk), Paths({"src/a.c"}));
    EXPECT_EQ(paths("--- old/src/a.c\n+++ new/src/a.c\n" + hunk), Paths({"src/a.c"}));
    EXPECT_EQ(paths("--- a/a.c\n+++ a/a.c\n" + hunk), Paths({"a.c"})) << "a prefix that tools write";
}

TEST_F(PatchTest, ANameThatCannotBeReadIsToldOnce) {
    const std::string said = refusal("--- \"a/q\n+++ \"b/q\n@@ -1 +1 @@\n-1\n+2\n");
    EXPECT_FALSE(said.empty());
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
}

TEST_F(PatchTest, ListsEveryFaultAndMakesNothing) {
    GRADUS_CASES("CA7");
    rig.put("a", "1\n");
    rig.put("b", "1\n");
    const std::string text =
        file("a", "@@ -1 +1 @@\n-1\n+2\n") + file("b", "@@ -1 +1 @@\n-x\n+2\n") + file("c", "@@ -1 +1 @@\n-1\n+2\n");
    EXPECT_EQ(refusal(text),
              "patch line 9: b, hunk 1: line 1 of the file is another\n"
              "patch line 11: c: it is not there");
}

TEST_F(PatchTest, KeepsCarriageReturnsAndMissingNewlines) {
    GRADUS_CASES("CA15");
    rig.put("dos", "1\r\n2\r\n");
    rig.put("open", "1\n2");
    const auto patched = apply(file("dos", "@@ -1,2 +1,2 @@\n 1\r\n-2\r\n+two\r\n") +
                               file("open", "@@ -1,2 +1,2 @@\n 1\n-2\n\\ No newline at end of file\n+two\n"));
    ASSERT_TRUE(patched.faults.empty()) << patched.faults[0].text();
    EXPECT_EQ(after(patched, 0), "1\r\ntwo\r\n");
    EXPECT_EQ(after(patched, 1), "1\ntwo\n");
    EXPECT_EQ(refusal(file("open", "@@ -1,2 +1,2 @@\n 1\n-2\n+two\n")),
              "patch line 5: open, hunk 1: line 2 of the file does not end in a newline");
}

TEST_F(PatchTest, MakesRemovesRenamesCopiesAndChangesModes) {
    GRADUS_CASES("CA15", "CA9");
    rig.put("gone", "x\n");
    rig.put("old", "1\n2\n");
    rig.put("script", "s\n", 0664);
    const auto patched = apply(
        "diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+to\n"
        "\\ No newline at end of file\n"
        "diff --git a/old b/new name\nsimilarity index 50%\nrename from old\nrename to new name\n"
        "--- a/old\n+++ b/new name\t\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n"
        "diff --git a/script b/script\nold mode 100644\nnew mode 100755\n"
        "diff --git a/old b/twin\ncopy from old\ncopy to twin\n");
    ASSERT_TRUE(patched.faults.empty()) << patched.faults[0].text();
    const auto& all = patched.changes.changes();
    ASSERT_EQ(all.size(), 7U);
    EXPECT_EQ(all[0].after, rig.file(""));
    EXPECT_EQ(all[1].after, std::nullopt);
    EXPECT_EQ(all[2].after, rig.link("to"));
    EXPECT_EQ(all[3].after, rig.file("1\ntwo\n"));
    EXPECT_EQ(all[4].after, std::nullopt);
    EXPECT_EQ(all[5].after, rig.file("s\n", 0775));
    EXPECT_EQ(all[6].after, rig.file("1\n2\n"));
}

TEST_F(PatchTest, RenamesALinkAsItIs) {
    std::filesystem::create_symlink("to", rig.tree / "link");
    const std::string names = "diff --git a/link b/new\nsimilarity index 100%\nrename from link\nrename to new\n";
    const auto patched = apply(names);
    ASSERT_TRUE(patched.faults.empty()) << patched.faults[0].text();
    ASSERT_EQ(patched.changes.changes().size(), 2U);
    EXPECT_EQ(patched.changes.changes()[0].after, std::nullopt);
    EXPECT_EQ(patched.changes.changes()[1].after, rig.link("to"));
    EXPECT_FALSE(apply(names + "--- a/link\n+++ b/new\n@@ -1 +1 @@\n-to\n+elsewhere\n").faults.empty());
}

TEST_F(PatchTest, ReadsPlainDiffsAndMails) {
    rig.put("a", "1\n");
    const Patch mail = parsePatch(
        "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\n"
        "Subject: [PATCH 1/2] Fix it\n for good\n\nWords.\n---\n a | 2 +-\n\n"
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n-- \n2.39.5\n\n"
        "From 1123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\nSubject: [PATCH 2/2] More\n\n"
        "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-2\n+3\n-- \n2.39.5\n");
    EXPECT_EQ(mail.title, "Fix it for good");
    const auto patched = applyPatch(mail, rig.reader(), rig.objects);
    ASSERT_TRUE(patched.faults.empty()) << patched.faults[0].text();
    EXPECT_EQ(after(patched), "3\n");
    const auto plain = apply("--- x/a\t2026-01-01 00:00:00\n+++ y/a\t2026-01-01 00:00:00\n@@ -1 +1 @@\n-1\n+2\n");
    EXPECT_EQ(after(plain), "2\n");
}

TEST_F(PatchTest, RefusesPathsThatNoChangeMayHave) {
    GRADUS_CASES("CA1");
    for (const char* path : {"../x", "/etc/x", "a//b", "./x", "a/../b", "x.", "x ", "a\\\\b", "x\\nb", "\\303\\050"}) {
        const std::string text = "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ \"b/" +
                                 std::string(path) + "\"\n@@ -0,0 +1 @@\n+x\n";
        EXPECT_NE(refusal(text).find("cannot be part of a change"), std::string::npos) << path;
    }
    const std::string longName(5000, 'x');
    EXPECT_NE(refusal("--- /dev/null\n+++ b/" + longName + "\n@@ -0,0 +1 @@\n+x\n").find("longer"), std::string::npos);
}

TEST_F(PatchTest, RefusesToReachIntoGit) {
    GRADUS_CASES("CA2", "ST15");
    for (const char* path : {".git/hooks/pre-commit", ".GIT/x", "git~1/x", ".g\u200cit/x", "sub/.git/config"})
        EXPECT_NE(refusal("--- /dev/null\n+++ b/" + std::string(path) + "\n@@ -0,0 +1 @@\n+x\n").find("git's own"),
                  std::string::npos)
            << path;
}

TEST_F(PatchTest, RefusesToWriteThroughALink) {
    GRADUS_CASES("CA3");
    fs::create_symlink("/etc", rig.tree / "way");
    EXPECT_NE(refusal("--- /dev/null\n+++ b/way/x\n@@ -0,0 +1 @@\n+x\n").find("symbolic link"), std::string::npos);
    const std::string link =
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n"
        "\\ No newline at end of file\n";
    EXPECT_NE(refusal(link + "diff --git a/l/x b/l/x\nnew file mode 100644\n--- /dev/null\n+++ b/l/x\n"
                             "@@ -0,0 +1 @@\n+x\n")
                  .find("its parent 'l' is a symbolic link"),
              std::string::npos);
}

TEST_F(PatchTest, RefusesToAddWhatIsThere) {
    GRADUS_CASES("CA3");
    rig.put("a", "1\n");
    EXPECT_NE(refusal("--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n").find("it is there already"), std::string::npos);
}

TEST_F(PatchTest, RefusesSubmodules) {
    GRADUS_CASES("CA5", "ST15");
    EXPECT_NE(refusal("diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject "
                      "commit 0123456789012345678901234567890123456789\n")
                  .find("a submodule"),
              std::string::npos);
}

// A carriage return in a name
TEST_F(PatchTest, RefusesACarriageReturnInAName) {
    GRADUS_CASES("CA5");
    EXPECT_NE(refusal("diff --git \"a/x\\r\" \"b/x\\r\"\nnew file mode 100644\n").find("control character"),
              std::string::npos);
}

TEST_F(PatchTest, RefusesModesThatNoChangeCanHave) {
    GRADUS_CASES("CA9");
    for (const char* mode : {"104755", "102755", "101777", "060000", "040000", "777777777777"})
        EXPECT_FALSE(refusal("diff --git a/x b/x\nnew file mode " + std::string(mode) + "\n").empty()) << mode;
}

TEST_F(PatchTest, RefusesABinaryFileWithoutItsBytes) {
    EXPECT_NE(refusal("diff --git a/x b/x\nindex 12..34\nBinary files a/x and b/x differ\n").find("--binary"),
              std::string::npos);
}

TEST_F(PatchTest, RefusesWhatIsNoPatch) {
    EXPECT_EQ(refusal("hello\n"), "patch line 2: there is no diff in it");
    EXPECT_EQ(refusal(""), "patch line 1: there is no diff in it");
}

TEST_F(PatchTest, RefusesNamesWithoutAPartToLeaveOutAndGoesOn) {
    rig.put("a", "1\n");
    EXPECT_EQ(refusal("--- a\n+++ b\n@@ -1 +1 @@\n-1\n+2\n" + file("a", "@@ -1 +1 @@\n-x\n+2\n")),
              "patch line 1: the name 'a' has no part to leave out, as in 'a/a'\n"
              "patch line 9: a, hunk 1: line 1 of the file is another");
}

TEST_F(PatchTest, ListsSoManyFaultsAndNoMore) {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += "--- a\n+++ a\n";
    EXPECT_EQ(parsePatch(text).faults.size(), 1001U);
}

TEST_F(PatchTest, RefusesHunksThatAreCutShort) {
    rig.put("a", "1\n2\n");
    EXPECT_NE(refusal(file("a", "@@ -1,2 +1,2 @@\n 1\n-2\n")).find("ends within a hunk"), std::string::npos);
    EXPECT_NE(refusal(file("a", "@@ -1,2 +1,2 @\n 1\n-2\n+2\n")).find("head of a hunk"), std::string::npos);
    EXPECT_NE(refusal(file("a", "@@ -1,1 +1,1 @@\n*1\n")).find("that no hunk has"), std::string::npos);
    EXPECT_NE(refusal(file("a", "@@ -99999999999999999999 +1 @@\n-1\n+1\n")).find("head of a hunk"), std::string::npos);
}

TEST_F(PatchTest, TakesAwayADirectoryThatItEmpties) {
    rig.put("d/e/a", "1\n");
    rig.put("d/stays", "1\n");
    const auto patched = apply("--- a/d/e/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n");
    ASSERT_EQ(patched.changes.changes().size(), 2U);
    EXPECT_EQ(patched.changes.changes()[0].path, "d/e");
    EXPECT_EQ(patched.changes.changes()[0].after, std::nullopt);
}

TEST_F(PatchTest, MakesADirectoryOfAFileAndTheReverse) {
    rig.put("a", "1\n");
    rig.put("d/x", "1\n");
    const auto patched = apply(
        "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"
        "diff --git a/a/b b/a/b\nnew file mode 100644\n--- /dev/null\n+++ b/a/b\n@@ -0,0 +1 @@\n+2\n"
        "diff --git a/d b/d\nnew file mode 100644\n--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+3\n"
        "diff --git a/d/x b/d/x\ndeleted file mode 100644\n--- a/d/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n");
    ASSERT_TRUE(patched.faults.empty()) << patched.faults[0].text();
    EXPECT_EQ(patched.changes.changes().at(0).after, ChangeRig::directory());
    EXPECT_EQ(patched.changes.changes().at(2).after, rig.file("3\n"));
}

TEST_F(PatchTest, IdentityStaysWhenTheLinesAroundItMove) {
    const auto identity = [&](const std::string& before, const std::string& after) {
        return patchIdentity(ChangeSet({{"a", rig.file(before), rig.file(after)}}), rig.objects);
    };
    EXPECT_EQ(identity("1\n2\n3\n", "1\ntwo\n3\n"), identity("0\n0\n1\n2\nx\n", "0\n0\n1\ntwo\nx\n"));
    EXPECT_NE(identity("1\n2\n3\n", "1\ntwo\n3\n"), identity("1\n2\n3\n", "1\nzwei\n3\n"));
    EXPECT_NE(identity("1\n", "2\n"), identity("1\n", "2"));
}

TEST_F(PatchTest, SaysWhatAPatchCannotSay) {
    const auto written = writePatch(ChangeSet({{"a", rig.file("x", 0644), rig.file("x", 0600)}}), rig.objects);
    EXPECT_TRUE(written.text.empty());
    EXPECT_EQ(written.notes.size(), 1U);
    EXPECT_THROW(writePatch(ChangeSet({{"a", std::nullopt, rig.file("x"), false}}), rig.objects), Error);
}

}  // namespace
}  // namespace gradus
