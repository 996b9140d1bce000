// What a change brings that is not what it looks like.
#include "stages/changes/hazards.h"

#include <gtest/gtest.h>

#include "store/model/name_fold.h"
#include "tests/stages/changes/change_rig.h"

namespace gradus {
namespace {

using Found = std::vector<std::string>;

struct HazardsTest : testing::Test, test::ChangeRig {
    Found of(std::vector<PathChange> changes, bool looks = true) {
        const DirectoryReader there = reader();
        return hazardsOf(ChangeSet(std::move(changes)), objects, looks ? &there : nullptr);
    }
    PathChange added(const std::string& path, const Entry& entry) { return {path, std::nullopt, entry}; }
    PathChange text(const std::string& path, const std::string& bytes = "x\n") { return added(path, file(bytes)); }
    PathChange link(const std::string& path, const std::string& to) { return added(path, ChangeRig::link(to)); }
};

TEST_F(HazardsTest, AnOrdinaryChangeHasNone) {
    put("src/a.c", "1");
    put("HEAD", "of the class");
    EXPECT_EQ(of({text("src/b.c"), text("config", "[core]\n"), text("docs/HEAD", "the head of a page"),
                  link("src/c.c", "../src/a.c"), text("objects/a"), text("refs/b"), text("naïve.txt")}),
              Found());
}

TEST_F(HazardsTest, ALinkThatLeadsOutIsOne) {
    EXPECT_EQ(of({link("a", "/etc/shadow")}), Found({"'a' is a link to '/etc/shadow', an absolute path"}));
    EXPECT_EQ(of({link("b/c", "../../../etc")}),
              Found({"'b/c' is a link to '../../../etc', which can lead out of the project"}));
    EXPECT_EQ(of({link("d", "down/../../etc")}).size(), 1U) << "'down' may be a link itself";
    EXPECT_EQ(of({link("e", ".git/hooks/pre-commit")}),
              Found({"'e' is a link to '.git/hooks/pre-commit', inside of a git repository"}));
    EXPECT_EQ(of({link("f", "b\x1b[2J/../../x")}).at(0).find('\x1b'), std::string::npos) << "safe to show";
}

TEST_F(HazardsTest, ALinkThatLedThereBeforeIsNone) {
    Entry was = ChangeRig::link("/opt/tool");
    EXPECT_EQ(of({{"a", was, was}}), Found());
    EXPECT_EQ(of({{"a", was, ChangeRig::link("/etc/shadow")}}).size(), 1U);
    EXPECT_EQ(of({{"a", was, std::nullopt}}), Found()) << "it goes";
}

TEST_F(HazardsTest, ARepositoryInsideTheRepositoryIsOne) {
    const Found found = of({text("vendor/HEAD", "ref: refs/heads/main\n"),
                            text("vendor/config", "[core]\n\tfsmonitor = touch /tmp/x\n"),
                            text("vendor/objects/keep", ""), text("vendor/refs/keep", "")});
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0], "'vendor/HEAD' makes git take 'vendor' for a repository and obey its configuration");
    EXPECT_EQ(of({text("HEAD", "ref: \trefs/x\n")}).size(), 1U) << "in a plain directory the top is one as well";
    EXPECT_EQ(of({text("v/HEAD", "0123456789abcdef0123456789abcdef01234567\n")}).size(), 1U);
    EXPECT_EQ(of({link("v/HEAD", "refs/heads/main")}).size(), 1U);
}

TEST_F(HazardsTest, ARepositoryThatComesInPartsIsOne) {
    EXPECT_EQ(of({text("v/config", "[core]\n"), text("v/objects/a"), text("v/refs/a")}), Found());
    put("v/HEAD", "ref: refs/heads/main\n");
    objects.put("ref: refs/heads/main\n");
    EXPECT_EQ(of({text("v/config", "[core]\n")}).size(), 1U) << "HEAD is there";
    EXPECT_EQ(of({text("v/hooks/post-checkout", "#!/bin/sh\n")}).size(), 1U);
    EXPECT_EQ(of({text("v/description", "mine")}), Found());
}

TEST_F(HazardsTest, NamesThatAreOneElsewhereAreOne) {
    put("README.md", "1");
    put("src/a.c", "1");
    put("caf\u00e9.txt", "1");
    EXPECT_EQ(of({text("readme.md")}),
              Found({"'README.md' and 'readme.md' are one name where case or Unicode form is not told apart"}));
    EXPECT_EQ(of({text("Src/b.c")}).size(), 1U) << "a directory";
    EXPECT_EQ(of({text("cafe\u0301.txt")}).size(), 1U) << "composed or not";
    EXPECT_EQ(of({text("x/A"), text("x/a")}).size(), 1U) << "both are new";
    EXPECT_EQ(of({text("x/A"), text("x/a")}, false).size(), 1U) << "no tree is known";
}

TEST_F(HazardsTest, ANameThatOnlyChangesItsCaseIsNone) {
    put("README.md", "1");
    put("Src/a.c", "1");
    const Entry was = file("1");
    EXPECT_EQ(of({{"README.md", was, std::nullopt}, text("readme.md", "1")}), Found());
    EXPECT_EQ(of({{"Src/a.c", was, std::nullopt}, text("src/a.c", "1")}), Found());
}

TEST_F(HazardsTest, ANameThatReordersTextIsOne) {
    const Found found = of({text("gpj.\u202etxt.exe"), text("a\u200bb")});
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[1], "the name 'gpj.\\u{202e}txt.exe' has characters that hide or reorder text");
}

TEST(NameFold, TakesCaseAndFormsOfALetterForOne) {
    EXPECT_EQ(foldedName("ÀÉ"), foldedName("a\u0300e\u0301"));
    EXPECT_EQ(foldedName("ЙЖ"), foldedName("и\u0306ж"));
    EXPECT_EQ(foldedName("ΣΩ"), foldedName("σω"));
    EXPECT_EQ(foldedName("\u212b"), foldedName("å")) << "the sign of a unit";
    EXPECT_EQ(foldedName("각"), foldedName("\u1100\u1161\u11a8"));
    EXPECT_EQ(foldedName("ệ"), foldedName("e\u0302\u0323")) << "in whatever order marks come";
    EXPECT_NE(foldedName("a"), foldedName("b"));
    EXPECT_NE(foldedName("\xff"), foldedName("\xfe"));
}

}  // namespace
}  // namespace gradus
