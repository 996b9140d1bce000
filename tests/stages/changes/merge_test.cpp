#include "stages/changes/merge.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/model/error.h"
#include "tests/stages/changes/change_rig.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using test::ChangeRig;
using Kind = MergeConflictKind;
namespace fs = std::filesystem;

constexpr const char* kPoem = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n";

struct Merge : testing::Test {
    ChangeRig rig;

    MergeResult onto(std::vector<PathChange> changes) {
        return mergeOnto(ChangeSet(std::move(changes)), rig.reader(), rig.objects);
    }
    std::vector<Kind> kinds(std::vector<PathChange> changes) {
        std::vector<Kind> kinds;
        for (const MergeConflict& conflict : onto(std::move(changes)).conflicts) kinds.push_back(conflict.kind);
        return kinds;
    }
};

TEST_F(Merge, LeavesAChangeAsItIsWhereNothingMoved) {
    rig.put("a", "old");
    const ChangeSet change({{"a", rig.file("old"), rig.file("new")}, {"b", std::nullopt, rig.file("b")}});
    const MergeResult result = mergeOnto(change, rig.reader(), rig.objects);
    EXPECT_TRUE(result.conflicts.empty());
    EXPECT_FALSE(result.moved);
    EXPECT_EQ(result.merged, change);
}

TEST_F(Merge, LandsBesideFilesThatOthersChanged) {
    GRADUS_CASES("ST4");
    rig.put("a", "old");
    rig.put("other", "edited by somebody");
    EXPECT_FALSE(onto({{"a", rig.file("old"), rig.file("new")}}).moved);
}

TEST_F(Merge, LeavesOutWhatIsThereAlready) {
    GRADUS_CASES("ST9");
    rig.put("a", "new");
    rig.put("both", "same", 0664);
    const MergeResult result = onto({{"a", rig.file("old"), rig.file("new")},
                                     {"both", std::nullopt, rig.file("same")},
                                     {"gone", rig.file("x"), std::nullopt}});
    EXPECT_TRUE(result.conflicts.empty());
    EXPECT_TRUE(result.merged.empty());
    EXPECT_TRUE(result.moved);
}

// One tree has a part of it already. The next one may not: there it is still all of the change.
TEST_F(Merge, TheWholeChangeGoesOnToTheNextTree) {
    rig.put("a", "new");
    rig.put("poem", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
    const PathChange there{"a", rig.file("old"), rig.file("new")};
    const MergeResult result =
        onto({there, {"poem", rig.file(kPoem), rig.file("one\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n")}});
    ASSERT_EQ(result.merged.changes().size(), 1U);
    ASSERT_EQ(result.whole.changes().size(), 2U);
    EXPECT_EQ(result.whole.changes()[0], there);
    EXPECT_EQ(result.whole.changes()[1], result.merged.changes()[0]);
}

TEST_F(Merge, LinesThatAreThereAlreadyAreNoMerge) {
    rig.put("poem", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n");
    const ChangeSet change({{"poem", rig.file(kPoem), rig.file("one\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n")}});
    const MergeResult result = mergeOnto(change, rig.reader(), rig.objects);
    EXPECT_TRUE(result.merged.empty());
    EXPECT_TRUE(result.mergedPaths.empty());
    EXPECT_EQ(result.whole, change);
}

// Its author went on from what is there: that is no edit of somebody else.
TEST_F(Merge, WhatItsAuthorHadInBetweenIsReplaced) {
    rig.put("a", "v2\n");
    rig.put("new", "first\n");
    rig.put("poem", "uno\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n");
    const ChangeSet change({{"a", rig.file("v1\n"), rig.file("v3\n")},
                            {"new", std::nullopt, rig.file("second\n")},
                            {"poem", rig.file(kPoem), rig.file("eins\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n")}});
    EXPECT_EQ(mergeOnto(change, rig.reader(), rig.objects).conflicts.size(), 3U);
    const EarlierStates earlier{{"a", {rig.file("v2\n")}},
                                {"new", {rig.file("first\n")}},
                                {"poem", {std::nullopt, rig.file("uno\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n")}}};
    const MergeResult result = mergeOnto(change, rig.reader(), rig.objects, earlier);
    ASSERT_TRUE(result.conflicts.empty());
    EXPECT_EQ(rig.text(result.merged.changes().at(0).after), "v3\n");
    EXPECT_EQ(rig.text(result.merged.changes().at(1).after), "second\n");
    EXPECT_EQ(rig.text(result.merged.changes().at(2).after), "eins\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n");
}

// A draft that nobody ever put there: over it, the change's first line would count as there and be lost.
TEST_F(Merge, WhatTheChangeWantsIsNotLostOverADraftThatIsNotThere) {
    rig.put("poem", "uno\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
    const ChangeSet change({{"poem", rig.file(kPoem), rig.file("eins\ntwo\nthree\nfour\nfive\nsix\nseven\nacht\n")}});
    const EarlierStates draft{{"poem", {rig.file("eins\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n")}}};
    const MergeResult result = mergeOnto(change, rig.reader(), rig.objects, draft);
    ASSERT_EQ(result.conflicts.size(), 1U);
    EXPECT_EQ(result.conflicts.front().kind, MergeConflictKind::kContent);
}

TEST_F(Merge, MakesOneOfEditsToDifferentLines) {
    rig.put("poem", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n");
    const MergeResult result =
        onto({{"poem", rig.file(kPoem), rig.file("one\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n")}});
    ASSERT_TRUE(result.conflicts.empty());
    EXPECT_EQ(rig.text(result.merged.changes().at(0).after), "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\nEIGHT\n");
    EXPECT_EQ(result.merged.changes().at(0).before, rig.reader().at("poem"));
    EXPECT_EQ(result.mergedPaths, std::vector<std::string>{"poem"});
}

TEST_F(Merge, RefusesEditsToTheSameLinesAndLeavesNoMarkers) {
    GRADUS_CASES("ST6");
    rig.put("poem", "ONE\ntwo\n");
    const MergeResult result = onto({{"poem", rig.file("one\ntwo\n"), rig.file("uno\ntwo\n")}});
    ASSERT_EQ(result.conflicts.size(), 1U);
    EXPECT_EQ(result.conflicts[0].kind, Kind::kContent);
    EXPECT_EQ(result.conflicts[0].path, "poem");
    EXPECT_TRUE(result.merged.empty());
    EXPECT_EQ(test::readText(rig.tree / "poem"), "ONE\ntwo\n");
}

TEST_F(Merge, KeepsCarriageReturnsAndAMissingLastNewline) {
    rig.put("dos", "ONE\r\ntwo\r\nthree\r\nfour\r\nfive");
    const MergeResult result = onto(
        {{"dos", rig.file("one\r\ntwo\r\nthree\r\nfour\r\nfive"), rig.file("one\r\ntwo\r\nthree\r\nfour\r\nFIVE")}});
    ASSERT_TRUE(result.conflicts.empty());
    EXPECT_EQ(rig.text(result.merged.changes().at(0).after), "ONE\r\ntwo\r\nthree\r\nfour\r\nFIVE");
}

TEST_F(Merge, RefusesToMergeWhatIsNoText) {
    rig.put("b", std::string("a\0b\n", 4));
    EXPECT_EQ(kinds({{"b", rig.file("x\n"), rig.file("y\n")}}), std::vector{Kind::kBinary});
}

TEST_F(Merge, RefusesWhatBothSidesAdded) {
    rig.put("new", "theirs");
    rig.put("thing", "a file");
    EXPECT_EQ(kinds({{"new", std::nullopt, rig.file("ours")}, {"thing", std::nullopt, rig.link("x")}}),
              (std::vector{Kind::kBothAdded, Kind::kType}));
}

TEST_F(Merge, RefusesAnEditOfWhatIsGoneAndADeletionOfWhatWasEdited) {
    rig.put("edited", "by somebody");
    EXPECT_EQ(kinds({{"edited", rig.file("was"), std::nullopt}, {"gone", rig.file("was"), rig.file("is")}}),
              (std::vector{Kind::kEditedHere, Kind::kDeletedHere}));
}

TEST_F(Merge, RefusesWhatBecameSomethingElse) {
    rig.put("dir/file", "x");
    rig.put("edited", "edited");
    EXPECT_EQ(kinds({{"dir", rig.file("was a file"), rig.file("is")}, {"edited", rig.file("was"), rig.link("x")}}),
              (std::vector{Kind::kType, Kind::kType}));
}

TEST_F(Merge, NeverWritesWhereWhatWasThereIsUnknown) {
    rig.put("a", "whatever");
    rig.put("b", "the same");
    EXPECT_EQ(kinds({{"a", std::nullopt, rig.file("new"), false}, {"b", std::nullopt, rig.file("the same"), false}}),
              std::vector{Kind::kUnknownBefore});
}

TEST_F(Merge, AddsWhereNothingIsWhateverWasThere) {
    const MergeResult result =
        onto({{"gone", std::nullopt, std::nullopt, false}, {"new", std::nullopt, rig.file("new"), false}});
    EXPECT_TRUE(result.conflicts.empty());
    EXPECT_EQ(result.merged, ChangeSet({{"new", std::nullopt, rig.file("new")}}));
}

TEST_F(Merge, PutsADirectoryWithDirectoriesInPlaceOfALink) {
    fs::create_symlink("nowhere", rig.tree / "h");
    const ChangeSet change({{"h", rig.link("nowhere"), rig.directory()},
                            {"h/e", std::nullopt, rig.directory()},
                            {"h/e/f", std::nullopt, rig.file("1")}});
    const MergeResult result = mergeOnto(change, rig.reader(), rig.objects);
    EXPECT_TRUE(result.conflicts.empty()) << result.conflicts.front().detail;
    EXPECT_EQ(result.merged, change);
}

TEST_F(Merge, SaysThatTheAncestorIsNotStored) {
    rig.put("a", "theirs\n");
    const Entry lost{EntryType::kFile, 0644, sha256("lost\n"), 5};
    EXPECT_EQ(kinds({{"a", lost, rig.file("ours\n")}}), std::vector{Kind::kNoAncestor});
}

TEST_F(Merge, LeavesPermissionsAloneThatTheChangeDoesNotSpeakOf) {
    GRADUS_CASES("CA9");
    rig.put("script", "old", 0664);
    rig.put("tool", "x", 0664);
    const MergeResult result =
        onto({{"script", rig.file("old"), rig.file("new")}, {"tool", rig.file("x"), rig.file("x", 0755)}});
    ASSERT_TRUE(result.conflicts.empty());
    EXPECT_EQ(result.merged.changes().at(0).before->mode, 0664U);
    EXPECT_EQ(result.merged.changes().at(0).after->mode, 0664U);
    EXPECT_EQ(result.merged.changes().at(1).after->mode, 0775U);
}

TEST_F(Merge, RefusesTwoDifferentChangesOfPermissions) {
    rig.put("a", "x", 0600);
    rig.put("b", "x", 0755);
    EXPECT_EQ(kinds({{"a", rig.file("x", 0644), rig.file("x", 0640)}, {"b", std::nullopt, rig.file("x", 0644)}}),
              (std::vector{Kind::kMode, Kind::kMode}));
}

TEST_F(Merge, RefusesToReachThroughALink) {
    GRADUS_CASES("CA3");
    fs::create_directory(rig.scratch / "outside");
    fs::create_symlink(rig.scratch / "outside", rig.tree / "way");
    rig.put("plain", "a file");
    const MergeResult result = onto({{"plain/x", std::nullopt, rig.file("x")}, {"way/x", std::nullopt, rig.file("x")}});
    ASSERT_EQ(result.conflicts.size(), 2U);
    EXPECT_EQ(result.conflicts[0].detail, "'plain' is a file there");
    EXPECT_EQ(result.conflicts[1].kind, Kind::kType);
    EXPECT_NE(result.conflicts[1].detail.find("symbolic link"), std::string::npos);
}

TEST_F(Merge, RefusesToWriteBelowALinkThatTheChangeItselfMakes) {
    EXPECT_EQ(kinds({{"way", std::nullopt, rig.link("/etc")}, {"way/x", std::nullopt, rig.file("x")}}),
              std::vector{Kind::kType});
}

TEST_F(Merge, KeepsADirectoryInWhichSomebodyHasMore) {
    rig.put("d/a", "a");
    rig.put("d/theirs", "x");
    const MergeResult result = onto({{"d", rig.directory(), std::nullopt}, {"d/a", rig.file("a"), std::nullopt}});
    EXPECT_TRUE(result.conflicts.empty());
    ASSERT_EQ(result.merged.changes().size(), 1U);
    EXPECT_EQ(result.merged.changes()[0].path, "d/a");
}

TEST_F(Merge, TakesADirectoryAwayWithAllThatItHolds) {
    rig.put("d/e/a", "a");
    const ChangeSet change({{"d", rig.directory(), std::nullopt},
                            {"d/e", rig.directory(), std::nullopt},
                            {"d/e/a", rig.file("a"), std::nullopt}});
    EXPECT_EQ(mergeOnto(change, rig.reader(), rig.objects).merged, change);
}

TEST_F(Merge, RefusesToReplaceADirectoryInWhichSomebodyHasMore) {
    rig.put("d/a", "a");
    rig.put("d/theirs", "x");
    EXPECT_EQ(kinds({{"d", rig.directory(), rig.file("now a file")}, {"d/a", rig.file("a"), std::nullopt}}),
              std::vector{Kind::kType});
}

TEST_F(Merge, RefusesLinksThatBothSidesMoved) {
    fs::create_symlink("theirs", rig.tree / "l");
    EXPECT_EQ(kinds({{"l", rig.link("was"), rig.link("ours")}}), std::vector{Kind::kContent});
}

TEST_F(Merge, RefusesASocketInTheWay) {
    ASSERT_EQ(::mkfifo((rig.tree / "pipe").c_str(), 0644), 0);
    EXPECT_EQ(kinds({{"pipe", std::nullopt, rig.file("x")}}), std::vector{Kind::kType});
}

TEST(DirectoryReader, ReadsFilesLinksAndDirectories) {
    ChangeRig rig;
    rig.put("d/script", "#!", 0750);
    fs::create_symlink("nowhere", rig.tree / "l");
    const DirectoryReader reader = rig.reader();
    EXPECT_EQ(reader.at("d/script"), rig.file("#!", 0750));
    EXPECT_EQ(reader.at("l"), rig.link("nowhere"));
    EXPECT_EQ(reader.at("d"), ChangeRig::directory());
    EXPECT_EQ(reader.at("absent"), std::nullopt);
    EXPECT_EQ(reader.at("d/script/below"), std::nullopt);
    EXPECT_EQ(reader.names(""), (std::vector<std::string>{"d", "l"}));
    EXPECT_EQ(reader.names("absent"), std::vector<std::string>{});
}

TEST(DirectoryReader, KeepsTheContent) {
    ChangeRig rig;
    rig.put("big", std::string(300'000, 'x'));
    const auto entry = rig.reader().keep("big", rig.objects);
    EXPECT_EQ(rig.text(entry), std::string(300'000, 'x'));
}

TEST(DirectoryReader, RefusesWhatNoChangeCanHold) {
    GRADUS_CASES("CA1", "CA9");
    ChangeRig rig;
    rig.put("suid", "x");
    ASSERT_EQ(::chmod((rig.tree / "suid").c_str(), 04755), 0);
    EXPECT_THROW(static_cast<void>(rig.reader().at("suid")), Error);
    EXPECT_THROW(static_cast<void>(rig.reader().at("../x")), Error);
    EXPECT_THROW(static_cast<void>(rig.reader().at(".git/config")), Error);
}

}  // namespace
}  // namespace gradus
