// What the writer refuses, and whose work it leaves alone.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "stages/changes/tree_writer.h"
#include "store/model/error.h"
#include "tests/stages/changes/tree_rig.h"
#include "tests/store/own_mounts.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;
using Kind = ConflictKind;

class TreeWriterConflict : public testing::Test {
  protected:
    /// Plans it, and sees to it that it is refused for exactly these reasons with nothing touched.
    void expectRefused(const ChangeSet& change, const std::vector<std::pair<Kind, std::string>>& reasons) {
        const Tree before = rig_.now();
        const Plan plan = rig_.writer().plan(change);
        std::vector<std::pair<Kind, std::string>> found;
        for (const Conflict& conflict : plan.conflicts) found.emplace_back(conflict.kind, conflict.path);
        EXPECT_EQ(found, reasons) << (plan.isClear() ? "no conflict" : describe(plan.conflicts.front()));
        EXPECT_THROW(rig_.writer().seal(plan), Error);
        EXPECT_EQ(difference(rig_.now(), before), "");
    }

    Entry stored(const Node& node) {
        if (node.type != EntryType::kDirectory) rig_.objects().put(node.bytes);
        return entryOf(node);
    }
    PathChange adds(const std::string& path, const Node& node) { return {path, std::nullopt, stored(node), true}; }
    PathChange turns(const std::string& path, const Node& from, const Node& to) {
        return {path, entryOf(from), stored(to), true};
    }
    static PathChange removes(const std::string& path, const Node& node) {
        return {path, entryOf(node), std::nullopt, true};
    }
    void write(const std::string& path, const std::string& bytes) { std::ofstream(rig_.root() / path) << bytes; }

    TreeRig rig_;
};

// Such a path never becomes part of a change set, so no plan ever sees it.
TEST_F(TreeWriterConflict, CannotBeGivenAPathThatIsNotPlain) {
    GRADUS_CASES("CA1", "CA2");
    const std::vector<std::string> paths = {"../x",
                                            "/etc/x",
                                            "a//b",
                                            "./",
                                            "",
                                            "a/..",
                                            std::string(5000, 'n'),
                                            std::string("a\0b", 3),
                                            "a\nb",
                                            "\xff",
                                            "a\\b",
                                            "a.",
                                            "a ",
                                            ".git/hooks/pre-commit",
                                            ".GIT/config",
                                            "git~1/config",
                                            ".g\u200cit/config",
                                            "sub/.git/config"};
    for (const std::string& path : paths) {
        try {
            const ChangeSet change({adds(path, file("x"))});
            ADD_FAILURE() << path;
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error.what()).find_first_of(std::string("\n\0\xff", 3)), std::string::npos);
        }
    }
}

TEST_F(TreeWriterConflict, TouchesProtectedPathsOnlyWithAGrant) {
    GRADUS_CASES("CA2");
    for (const std::string path : {".gitmodules", "sub/.gitattributes", ".LFSconfig"}) {
        const ChangeSet change({adds(path, file("x"))});
        expectRefused(change, {{Kind::kProtected, path}});
        EXPECT_TRUE(rig_.writer().plan(change, {{path}}).isClear());
    }
}

TEST_F(TreeWriterConflict, NeverWritesThroughALink) {
    GRADUS_CASES("CA3");
    build(rig_.outside(), {{"f", file("canary")}});
    const Tree canary = readTree(rig_.outside());
    fs::create_directory_symlink(rig_.outside(), rig_.root() / "link");
    expectRefused(ChangeSet({adds("link/new", file("x"))}), {{Kind::kParentIsLink, "link/new"}});
    expectRefused(ChangeSet({turns("link/f", file("canary"), file("x"))}), {{Kind::kParentIsLink, "link/f"}});
    expectRefused(ChangeSet({removes("link/f", file("canary"))}), {{Kind::kParentIsLink, "link/f"}});
    // In one change: the link and what would go through it.
    expectRefused(ChangeSet({adds("l", link(rig_.outside())), adds("l/f", file("x"))}), {{Kind::kParentIsLink, "l/f"}});
    expectRefused(ChangeSet({adds("l", file("no directory")), adds("l/f", file("x"))}),
                  {{Kind::kParentMissing, "l/f"}});
    EXPECT_EQ(readTree(rig_.outside()), canary);
}

// One of many is enough, and all of them are named.
TEST_F(TreeWriterConflict, WritesNothingWhenOneOfManyDoesNotFit) {
    GRADUS_CASES("CA3", "CA7", "CA12", "ST8");
    std::vector<PathChange> changes;
    for (int i = 0; i < 9; ++i) {
        const std::string path = fmt::format("f{}", i);
        write(path, "old");
        changes.push_back(turns(path, file("old"), file("new")));
    }
    changes.push_back(adds("untracked", file("new")));
    changes.push_back(removes("vanished", file("old")));
    write("f7", "the user's");
    write("untracked", "in the way");
    expectRefused(ChangeSet(changes),
                  {{Kind::kEdited, "f7"}, {Kind::kInTheWay, "untracked"}, {Kind::kGone, "vanished"}});
    const Conflict conflict = rig_.writer().plan(ChangeSet(changes)).conflicts.front();
    EXPECT_EQ(conflict.owner, ::geteuid());
    EXPECT_EQ(describe(conflict),
              fmt::format("'f7': it is not what the change expects; expected a file of 3 bytes, mode "
                          "644, {}; found a file of 10 bytes, mode 644 of user {}",
                          sha256("old").brief(), ::geteuid()));
}

TEST_F(TreeWriterConflict, ComparesTypeModeAndContent) {
    rig_.reset({{"f", file("same size")}, {"mode", file("x", 0600)}, {"link", link("a")}, {"dir", folder(0700)}});
    expectRefused(ChangeSet({turns("f", file("SAME SIZE"), file("y"))}), {{Kind::kEdited, "f"}});
    expectRefused(ChangeSet({turns("mode", file("x", 0644), file("y"))}), {{Kind::kEdited, "mode"}});
    expectRefused(ChangeSet({turns("link", link("b"), link("c"))}), {{Kind::kEdited, "link"}});
    expectRefused(ChangeSet({turns("dir", folder(0755), folder(0711))}), {{Kind::kEdited, "dir"}});
    expectRefused(ChangeSet({turns("dir", file("x"), file("y"))}), {{Kind::kEdited, "dir"}});
    expectRefused(ChangeSet({turns("link", file("a"), file("y"))}), {{Kind::kEdited, "link"}});
}

TEST_F(TreeWriterConflict, NeverWritesWhereTheBeforeIsUnknown) {
    rig_.reset({{"f", file("x")}});
    PathChange change = turns("f", file("x"), file("y"));
    change.beforeKnown = false;
    expectRefused(ChangeSet({change}), {{Kind::kUnknownBefore, "f"}});
}

TEST_F(TreeWriterConflict, RemovesNoDirectoryThatHoldsMoreThanTheChangeKnows) {
    GRADUS_CASES("DL2", "TX15");
    rig_.reset({{"d", folder()}, {"d/known", file("x")}, {"d/untracked", file("the user's")}});
    expectRefused(ChangeSet({removes("d", folder()), removes("d/known", file("x"))}), {{Kind::kNotEmpty, "d"}});
    expectRefused(ChangeSet({turns("d", folder(), file("y")), removes("d/known", file("x"))}),
                  {{Kind::kNotEmpty, "d"}});
    rig_.reset({{"real", folder()}, {"real/f", file("x")}, {"l", link("real")}});
    EXPECT_TRUE(rig_.apply(ChangeSet({removes("l", link("real"))})).report.applied);
    EXPECT_EQ(plain(rig_.now()), (Tree{{"real", folder()}, {"real/f", file("x")}}));
}

TEST_F(TreeWriterConflict, TouchesNothingThatHasSpecialModes) {
    GRADUS_CASES("CA9");
    rig_.reset({{"f", file("x", 0755)}, {"d", folder()}});
    ASSERT_EQ(::chmod((rig_.root() / "f").c_str(), 04755), 0);
    ASSERT_EQ(::chmod((rig_.root() / "d").c_str(), 01755), 0);
    expectRefused(ChangeSet({turns("f", file("x", 0755), file("y", 0755))}), {{Kind::kSpecialMode, "f"}});
    expectRefused(ChangeSet({turns("d", folder(), folder(0700))}), {{Kind::kSpecialMode, "d"}});
    EXPECT_THROW(ChangeSet({adds("g", file("x", 04755))}), Error);
}

// A pipe or a socket is neither expected nor replaced.
TEST_F(TreeWriterConflict, LeavesPipesAndSocketsAlone) {
    GRADUS_CASES("OV17", "OV18", "OV19", "OV20", "OV21", "OV22", "OV23", "OV24");
    ASSERT_EQ(::mkfifo((rig_.root() / "pipe").c_str(), 0644), 0);
    expectRefused(ChangeSet({turns("pipe", file(""), file("x"))}), {{Kind::kEdited, "pipe"}});
    expectRefused(ChangeSet({adds("pipe", file("x"))}), {{Kind::kInTheWay, "pipe"}});
    fs::remove(rig_.root() / "pipe");
}

TEST_F(TreeWriterConflict, MissesContentBeforeItWritesAnything) {
    rig_.reset({});
    const Entry unknown{EntryType::kFile, 0644, sha256("never stored"), 12};
    expectRefused(ChangeSet({{"f", std::nullopt, unknown, true}}), {{Kind::kContentMissing, "f"}});
    Entry wrongSize = stored(file("stored"));
    wrongSize.size = 99;
    expectRefused(ChangeSet({{"f", std::nullopt, wrongSize, true}}), {{Kind::kContentMissing, "f"}});
}

TEST_F(TreeWriterConflict, StaysOnItsOwnMount) {
    if (!isRoot()) GTEST_SKIP() << "mounting needs root";
    enterOwnMounts();
    rig_.reset({{"d", folder()}, {"f", file("x")}});
    ASSERT_EQ(::mount("tmpfs", (rig_.root() / "d").c_str(), "tmpfs", 0, ""), 0);
    ASSERT_EQ(::mount((rig_.root() / "f").c_str(), (rig_.root() / "f").c_str(), nullptr, MS_BIND, nullptr), 0);
    expectRefused(ChangeSet({adds("d/new", file("x"))}), {{Kind::kMountPoint, "d/new"}});
    expectRefused(ChangeSet({turns("f", file("x"), file("y"))}), {{Kind::kMountPoint, "f"}});
    expectRefused(ChangeSet({removes("d", folder())}), {{Kind::kMountPoint, "d"}});
    ::umount2((rig_.root() / "d").c_str(), MNT_DETACH);
    ::umount2((rig_.root() / "f").c_str(), MNT_DETACH);
}

class SmallDisk {
  public:
    SmallDisk(const fs::path& at, const char* options) : at_(at) {
        enterOwnMounts();
        error_ = ::mount("tmpfs", at.c_str(), "tmpfs", 0, options) == 0 ? 0 : errno;
    }
    ~SmallDisk() { ::umount2(at_.c_str(), MNT_DETACH); }
    int error() const { return error_; }

  private:
    fs::path at_;
    int error_ = 0;
};

TEST_F(TreeWriterConflict, ChecksForSpaceFirstAndLosesNothingWhenItRunsOutLater) {
    GRADUS_CASES("CR6");
    if (!isRoot()) GTEST_SKIP() << "mounting needs root";
    const SmallDisk disk(rig_.root(), "size=4m,mode=0755");
    ASSERT_EQ(disk.error(), 0);
    const std::string large(std::size_t{2} << 20, 'x');
    build(rig_.root(), {{"f", file("old")}});
    const ChangeSet fits({turns("f", file("old"), file(large))});
    expectRefused(ChangeSet({adds("g", file(std::string(std::size_t{8} << 20, 'y')))}), {{Kind::kNoSpace, "."}});
    TreeWriter writer = rig_.writer();
    const JournalRef ref = writer.seal(writer.plan(fits));
    std::ofstream(rig_.root() / "filler") << std::string(3 << 20, 'z');
    const Tree before = rig_.now();
    try {
        writer.apply(ref);
        ADD_FAILURE() << "there was no space";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
        EXPECT_EQ(error.hint(), "free space there, then try again");
    }
    EXPECT_EQ(difference(rig_.now(), before), "");
}

TEST_F(TreeWriterConflict, TellsNamesApartThatTheFileSystemDoesNot) {
    if (!isRoot()) GTEST_SKIP() << "mounting needs root";
    const SmallDisk disk(rig_.root(), "size=4m,mode=0755,casefold");
    if (disk.error() != 0) GTEST_SKIP() << "this kernel's tmpfs has no case folding";
    ASSERT_EQ(::mkdir((rig_.root() / "probe").c_str(), 0755), 0);
    const ChangeSet change({adds("README", file("one")), adds("readme", file("two"))});
    const Plan plan = rig_.writer().plan(change);
    if (!plan.isClear()) {
        EXPECT_EQ(plan.conflicts.front().kind, Kind::kCaseClash);
        return;
    }
    // Folding is a matter of each directory, and this one may not do it.
    EXPECT_TRUE(rig_.apply(change).report.applied);
}

// Known before anything is tried: rights that are missing, owners that could not be kept.
TEST_F(TreeWriterConflict, KnowsWhatItMayNotDoAsAnOrdinaryUser) {
    if (!isRoot()) GTEST_SKIP() << "needs files of two users";
    rig_.reset({{"theirs", folder()}, {"theirs/f", file("x")}, {"root's", file("x")}, {"mine", file("x")}});
    for (const fs::path& path : {rig_.base(), rig_.root(), rig_.root() / "mine", rig_.base() / "objects"})
        ASSERT_EQ(::lchown(path.c_str(), 41235, 41235), 0);
    const ChangeSet change({turns("theirs/f", file("x"), file("y")), turns("root's", file("x"), file("y")),
                            turns("mine", file("x"), file("y")), adds("theirs/new", file("y")),
                            adds("unreadable", file("y", 0200))});
    for (const auto& entry : fs::recursive_directory_iterator(rig_.base() / "objects"))
        ASSERT_EQ(::lchown(entry.path().c_str(), 41235, 41235), 0);
    const int end = inChild([&] {
        if (::setresgid(41235, 41235, 41235) != 0 || ::setresuid(41235, 41235, 41235) != 0) ::_exit(3);
        expectRefused(change, {{Kind::kNoPermission, "root's"},
                               {Kind::kNoPermission, "theirs"},
                               {Kind::kNoPermission, "theirs/f"},
                               {Kind::kNoPermission, "unreadable"}});
        if (HasFailure()) ::_exit(4);
    });
    EXPECT_EQ(end, 0);
}

// --- somebody else is at work at the same time -----------------------------------------------------------------

/// Does something just before the first call of that kind, once.
WatchedOperations::Hook justBefore(std::string call, std::function<void()> act) {
    return [call = std::move(call), act = std::move(act), done = false](std::size_t, std::string_view name,
                                                                        std::string_view) mutable {
        if (!std::exchange(done, done || name == call) && name == call) act();
        return 0;
    };
}

TEST_F(TreeWriterConflict, GivesBackAnEditMadeBetweenTheLookAndTheSwap) {
    rig_.reset({{"a", file("old")}, {"f", file("old")}});
    WatchedOperations files(justBefore("exchange", [&] { write("f", "the user's"); }));
    const auto [ref, report] =
        rig_.apply(ChangeSet({turns("a", file("old"), file("new")), turns("f", file("old"), file("new"))}), files);
    EXPECT_FALSE(report.applied);
    ASSERT_EQ(report.conflicts.size(), 1U);
    EXPECT_EQ(report.conflicts.front().path, "f");
    EXPECT_EQ(report.kept, (std::vector<Kept>{{"f", "edited by somebody since"}}));
    EXPECT_EQ(plain(rig_.now()), (Tree{{"a", file("old")}, {"f", file("the user's")}}));
}

// An editor that had the file open all the time, and writes into what has already been taken out of the tree.
TEST_F(TreeWriterConflict, GivesBackWhatIsWrittenThroughAnOpenDescriptor) {
    rig_.reset({{"f", file("old")}, {"g", file("old")}});
    const FileDescriptor held = openFile(rig_.root() / "f", O_WRONLY);
    int swaps = 0;
    WatchedOperations watched([&](std::size_t, std::string_view call, std::string_view) {
        // The first one has been looked at after its swap.
        const bool isTime = call == "exchange" && ++swaps == 2;
        EXPECT_TRUE(!isTime || ::pwrite(held.get(), "late edit", 9, 0) == 9);
        return 0;
    });
    const auto [ref, report] =
        rig_.apply(ChangeSet({turns("f", file("old"), file("new")), turns("g", file("old"), file("new"))}), watched);
    EXPECT_FALSE(report.applied);
    EXPECT_EQ(plain(rig_.now()), (Tree{{"f", file("late edit")}, {"g", file("old")}}));
}

TEST_F(TreeWriterConflict, NeverReplacesWhatAppearsAtTheLastMoment) {
    rig_.reset({{"d", folder()}});
    WatchedOperations files(justBefore("move", [&] { write("d/f", "the user's"); }));
    const auto [ref, report] = rig_.apply(ChangeSet({adds("d/f", file("new")), adds("g", file("new"))}), files);
    EXPECT_FALSE(report.applied);
    EXPECT_EQ(report.conflicts.front().kind, Kind::kInTheWay);
    EXPECT_EQ(plain(rig_.now()), (Tree{{"d", folder()}, {"d/f", file("the user's")}}));
}

TEST_F(TreeWriterConflict, RemovesNoDirectoryThatIsFilledAtTheLastMoment) {
    rig_.reset({{"d", folder()}, {"d/f", file("old")}});
    const Tree before = rig_.now();
    WatchedOperations files(justBefore("rmdir", [&] { write("d/mine", "the user's"); }));
    const auto [ref, report] = rig_.apply(ChangeSet({removes("d", folder()), removes("d/f", file("old"))}), files);
    EXPECT_FALSE(report.applied);
    EXPECT_EQ(report.conflicts.front().kind, Kind::kNotEmpty);
    EXPECT_EQ(rig_.now().at("d/mine").bytes, "the user's");
    EXPECT_EQ(rig_.now().at("d/f"), before.at("d/f"));
}

TEST_F(TreeWriterConflict, UndoKeepsAndListsWhatWasEditedSince) {
    GRADUS_CASES("DL1");
    rig_.reset({{"edited", file("old")},
                {"deleted", file("old")},
                {"mode", file("old")},
                {"gone", file("old")},
                {"plain", file("old")}});
    const Tree before = rig_.now();
    const JournalRef ref = rig_.applyTo({{"edited", file("new")},
                                         {"deleted", file("new")},
                                         {"mode", file("new")},
                                         {"plain", file("new")},
                                         {"dir", folder()},
                                         {"dir/f", file("new")},
                                         {"added", file("new")}})
                               .ref;
    write("edited", "the user's");
    write("gone", "the user's");
    write("dir/mine", "the user's");
    write("added", "the user's");
    fs::remove(rig_.root() / "deleted");
    ASSERT_EQ(::chmod((rig_.root() / "mode").c_str(), 0600), 0);

    const UndoReport report = rig_.writer().undo(ref);
    std::vector<std::string> kept;
    for (const Kept& path : report.kept) kept.push_back(path.path);
    EXPECT_EQ(kept, (std::vector<std::string>{"added", "deleted", "dir", "edited", "gone", "mode"}));
    Tree expected = {{"edited", file("the user's")}, {"mode", file("new", 0600)}, {"gone", file("the user's")},
                     {"plain", file("old")},         {"dir", folder()},           {"dir/mine", file("the user's")},
                     {"added", file("the user's")}};
    EXPECT_EQ(difference(plain(rig_.now()), expected), "");
    EXPECT_EQ(rig_.now().at("plain"), before.at("plain"));
    EXPECT_EQ(rig_.writer().undo(ref).kept, report.kept) << "whoever asks again is told again";
    EXPECT_EQ(difference(plain(rig_.now()), expected), "");
}

TEST_F(TreeWriterConflict, UndoWaitsUntilALinkOnTheWayIsGone) {
    rig_.reset({{"d", folder()}, {"d/f", file("old")}});
    const Tree before = rig_.now();
    const JournalRef ref = rig_.applyTo({{"d", folder()}, {"d/f", file("new")}}).ref;
    build(rig_.outside(), {{"f", file("new")}});
    fs::rename(rig_.root() / "d", rig_.root() / "moved");
    fs::create_directory_symlink(rig_.outside(), rig_.root() / "d");
    const UndoReport report = rig_.writer().undo(ref);
    EXPECT_EQ(report.blocked, (std::vector<Kept>{{"d/f", "a directory on the way is now a symbolic link"}}));
    EXPECT_EQ(readTree(rig_.outside()).at("f").bytes, "new");
    EXPECT_EQ(rig_.writer().stateOf(ref), WriteState::kUndoing);
    fs::remove(rig_.root() / "d");
    fs::rename(rig_.root() / "moved", rig_.root() / "d");
    EXPECT_TRUE(rig_.writer().undo(ref).blocked.empty());
    EXPECT_EQ(difference(rig_.now(), before), "");
}

// A directory's mode is the last thing to come back; a link in its place at that moment must not end the undoing.
TEST_F(TreeWriterConflict, UndoIsNotOverWhileTheModeOfADirectoryIsOutOfReach) {
    rig_.reset({{"d", folder()}, {"d/e", folder(0755)}, {"d/f", file("old")}});
    const Tree before = rig_.now();
    const JournalRef ref = rig_.applyTo({{"d", folder()}, {"d/e", folder(0700)}, {"d/f", file("new")}}).ref;
    fs::create_directory_symlink(rig_.outside(), rig_.root() / "link");
    const auto flip = [&] {
        return ::renameat2(AT_FDCWD, (rig_.root() / "d").c_str(), AT_FDCWD, (rig_.root() / "link").c_str(),
                           RENAME_EXCHANGE);
    };
    WatchedOperations files([&](std::size_t, std::string_view call, std::string_view) {
        EXPECT_TRUE(call != "exchange" || flip() == 0);
        return 0;
    });
    const UndoReport report = rig_.writer(files).undo(ref);
    EXPECT_EQ(report.blocked, (std::vector<Kept>{{"d/e", "a directory on the way is now a symbolic link"}}));
    EXPECT_EQ(rig_.writer().stateOf(ref), WriteState::kUndoing);
    ASSERT_EQ(flip(), 0);
    fs::remove(rig_.root() / "link");
    EXPECT_TRUE(rig_.writer().undo(ref).blocked.empty());
    EXPECT_EQ(difference(rig_.now(), before), "");
}

}  // namespace
}  // namespace gradus::test
