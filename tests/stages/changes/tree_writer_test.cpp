// What the writer does when nobody interferes: all types and transitions, in and back again, byte for byte.
#include "stages/changes/tree_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

#include "store/model/error.h"
#include "tests/stages/changes/tree_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using State = Observation::State;

class TreeWriterTest : public testing::Test {
  protected:
    void begin(const Tree& tree) { rig_.reset(tree); }
    TreeRig rig_;
};

TEST_F(TreeWriterTest, AppliesEveryTransitionAndTakesEachBack) {
    GRADUS_CASES("OV1", "OV2", "OV4", "OV6", "OV7", "OV10", "OV11", "OV12", "OV13", "OV14", "OV15", "OV41", "OV42",
                 "CA15");
    begin(sampleBefore());
    const Tree before = rig_.now();
    const auto [ref, report] = rig_.applyTo(sampleAfter());
    ASSERT_TRUE(report.applied);
    EXPECT_EQ(difference(plain(rig_.now()), sampleAfter()), "");
    EXPECT_EQ(rig_.writer().observe(ref).state, State::kAfter);
    EXPECT_EQ(rig_.writer().stateOf(ref), WriteState::kApplied);

    const UndoReport undone = rig_.writer().undo(ref);
    EXPECT_TRUE(undone.kept.empty()) << undone.kept.front().path << ": " << undone.kept.front().reason;
    EXPECT_EQ(difference(rig_.now(), before), "");
    EXPECT_EQ(rig_.writer().observe(ref).state, State::kBefore);
    EXPECT_EQ(rig_.writer().stateOf(ref), WriteState::kUndone);
}

TEST_F(TreeWriterTest, HasNothingToDoForAnEmptyChange) {
    GRADUS_CASES("ST9");
    begin({{"a", file("a")}});
    const Tree before = rig_.now();
    const auto [ref, report] = rig_.apply(ChangeSet());
    EXPECT_TRUE(report.applied);
    EXPECT_TRUE(rig_.writer().undo(ref).kept.empty());
    EXPECT_EQ(rig_.now(), before);
}

// Contents are bytes, names are names.
TEST_F(TreeWriterTest, KeepsBytesAndNamesAsTheyAre) {
    GRADUS_CASES("CA15", "OV13", "OV25");
    Tree after = {
        {"binary", file(std::string("\0\xff\x01\n\0", 5))},
        {"crlf", file("one\r\ntwo\r\n")},
        {"no newline", file("end")},
        {"-rf", file("a dash first\n")},
        {"quote\"colon:,'$(x)", file("odd\n")},
        {"\xc3\xa4\xe2\x82\xac", file("not ASCII\n")},
        {"link", link("../elsewhere/./x")},
    };
    begin({});
    const auto [ref, report] = rig_.applyTo(after);
    ASSERT_TRUE(report.applied);
    EXPECT_EQ(difference(plain(rig_.now()), after), "");
    rig_.writer().undo(ref);
    EXPECT_TRUE(rig_.now().empty());
}

// Each name that goes stamps the file that the others lead to.
TEST_F(TreeWriterTest, TakesSeveralNamesOfOneFileAwayAndBringsThemBack) {
    begin({{"a", file("one")}, {"d", folder()}, {"e", file("two")}});
    for (const char* name : {"b", "d/c"}) std::filesystem::create_hard_link(rig_.root() / "a", rig_.root() / name);
    std::filesystem::create_hard_link(rig_.root() / "e", rig_.root() / "f");
    const Tree before = rig_.now();
    const Tree after{{"d", folder()}, {"e", file("TWO")}, {"f", file("2")}};
    const auto [ref, report] = rig_.applyTo(after);
    ASSERT_TRUE(report.applied) << describe(report.conflicts.front());
    EXPECT_TRUE(report.saved.empty());
    EXPECT_EQ(difference(plain(rig_.now()), after), "");
    EXPECT_TRUE(rig_.writer().undo(ref).kept.empty());
    EXPECT_EQ(difference(rig_.now(), before), "");
}

TEST_F(TreeWriterTest, PutsADirectoryWithDirectoriesInPlaceOfALink) {
    begin({{"h", link("nowhere")}});
    const Tree after{{"h", folder()}, {"h/e", folder()}, {"h/e/f", file("1")}};
    const auto [ref, report] = rig_.applyTo(after);
    ASSERT_TRUE(report.applied) << describe(report.conflicts.front());
    EXPECT_EQ(difference(plain(rig_.now()), after), "");
    rig_.writer().undo(ref);
    EXPECT_EQ(difference(plain(rig_.now()), {{"h", link("nowhere")}}), "");
}

TEST_F(TreeWriterTest, KeepsOwnerAndAttributesOfWhatItReplaces) {
    GRADUS_CASES("OV42", "CA9");
    begin({{"f", file("old", 0640)}});
    const std::string path = rig_.root() / "f";
    if (::setxattr(path.c_str(), "user.note", "mine", 4, 0) != 0) GTEST_SKIP() << "no attributes on this file system";
    ASSERT_TRUE(!isRoot() || ::chown(path.c_str(), 1234, 5678) == 0);
    const Tree before = rig_.now();
    const auto [ref, report] = rig_.applyTo({{"f", file("new", 0640)}});
    ASSERT_TRUE(report.applied);
    const auto noteOf = [&] {
        char value[8] = {};
        const ssize_t length = ::getxattr(path.c_str(), "user.note", value, sizeof value);
        return std::string(value, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    };
    EXPECT_EQ(noteOf(), "mine");
    EXPECT_EQ(rig_.now().at("f").user, before.at("f").user);
    EXPECT_EQ(rig_.now().at("f").group, before.at("f").group);
    rig_.writer().undo(ref);
    EXPECT_EQ(difference(rig_.now(), before), "");
    EXPECT_EQ(noteOf(), "mine");
}

TEST_F(TreeWriterTest, GivesWhatIsNewToTheOwnerOfTheTree) {
    GRADUS_CASES("PV5", "E4");
    if (!isRoot()) GTEST_SKIP() << "only root can give files away";
    begin({});
    ASSERT_EQ(::chown(rig_.root().c_str(), 41235, 41236), 0);
    ASSERT_TRUE(rig_.applyTo({{"d", folder()}, {"d/f", file("x")}, {"d/l", link("f")}}).report.applied);
    for (const auto& [path, node] : rig_.now()) {
        EXPECT_EQ(node.user, 41235U) << path;
        EXPECT_EQ(node.group, 41236U) << path;
    }
}

TEST_F(TreeWriterTest, DoesNotCareAboutTheUmask) {
    begin({});
    const Tree after = {{"d", folder(0777)}, {"d/f", file("x", 0666)}, {"d/r", file("y", 0444)}};
    const mode_t old = ::umask(0077);
    const bool isApplied = rig_.applyTo(after).report.applied;
    ::umask(old);
    ASSERT_TRUE(isApplied);
    EXPECT_EQ(difference(plain(rig_.now()), after), "");
}

TEST_F(TreeWriterTest, ChangesOneNameOfAFileThatHasTwo) {
    GRADUS_CASES("FS17");
    begin({{"f", file("shared", 0644)}, {"mode", file("too", 0644)}});
    ASSERT_EQ(::link((rig_.root() / "f").c_str(), (rig_.outside() / "other").c_str()), 0);
    ASSERT_EQ(::link((rig_.root() / "mode").c_str(), (rig_.outside() / "mode").c_str()), 0);
    const Tree elsewhere = readTree(rig_.outside());
    const auto [ref, report] = rig_.applyTo({{"f", file("changed")}, {"mode", file("too", 0755)}});
    ASSERT_TRUE(report.applied);
    EXPECT_EQ(readTree(rig_.outside()), elsewhere);
    rig_.writer().undo(ref);
    EXPECT_EQ(readTree(rig_.outside()), elsewhere);
}

TEST_F(TreeWriterTest, KeepsASparseFileSparse) {
    GRADUS_CASES("OV41");
    begin({});
    std::string bytes(32 << 20, '\0');
    bytes[20 << 20] = 'x';
    ASSERT_TRUE(rig_.applyTo({{"sparse", file(bytes)}}).report.applied);
    struct stat info {};
    ASSERT_EQ(::stat((rig_.root() / "sparse").c_str(), &info), 0);
    EXPECT_EQ(info.st_size, 32 << 20);
    EXPECT_LT(info.st_blocks * 512, 1 << 20);
    EXPECT_TRUE(rig_.now().at("sparse").bytes == bytes);
}

// The long form: a gigabyte.
TEST_F(TreeWriterTest, WritesAndRestoresALargeFile) {
    GRADUS_CASES("CA15");
    const std::size_t size = std::size_t{std::getenv("GRADUS_LONG") != nullptr ? 1024U : 24U} << 20;
    begin({});
    std::string bytes(size, '\0');
    std::uint64_t state = 7;
    for (std::size_t i = 0; i < size; i += 8) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        bytes.replace(i, 8, reinterpret_cast<const char*>(&state), 8);
    }
    const Entry old{EntryType::kFile, 0644, rig_.objects().put(bytes), size};
    const Digest tree = sha256(bytes);
    std::ofstream(rig_.root() / "large", std::ios::binary) << bytes;
    ::chmod((rig_.root() / "large").c_str(), 0644);
    bytes[size / 2] ^= 1;
    const Entry fresh{EntryType::kFile, 0644, rig_.objects().put(bytes), size};
    bytes = std::string();
    const ChangeSet change({{"large", old, fresh, true}});
    const auto [ref, report] = rig_.apply(change);
    ASSERT_TRUE(report.applied);
    EXPECT_EQ(rig_.writer().observe(ref).state, State::kAfter);
    EXPECT_TRUE(rig_.writer().undo(ref).kept.empty());
    EXPECT_EQ(rig_.writer().observe(ref).state, State::kBefore);
    EXPECT_EQ(old.digest, tree);
}

TEST_F(TreeWriterTest, RestoresTheTimesOfDirectoriesThatItHadRemoved) {
    GRADUS_CASES("L8");
    begin({{"d", folder()}, {"d/e", folder()}, {"d/e/f", file("x")}});
    const timespec times[2] = {{1'500'000'000, 1}, {1'500'000'000, 123'456'789}};
    for (const char* path : {"d/e", "d"}) ::utimensat(AT_FDCWD, (rig_.root() / path).c_str(), times, 0);
    const JournalRef ref = rig_.applyTo({}).ref;
    EXPECT_TRUE(rig_.now().empty());
    rig_.writer().undo(ref);
    for (const char* path : {"d/e", "d"}) {
        struct stat info {};
        ASSERT_EQ(::stat((rig_.root() / path).c_str(), &info), 0);
        EXPECT_EQ(info.st_mtim.tv_sec, 1'500'000'000);
        EXPECT_EQ(info.st_mtim.tv_nsec, 123'456'789);
    }
}

TEST_F(TreeWriterTest, MakesDirectoriesThatTheChangeNeedsAndTakesThemBack) {
    begin({});
    const Digest digest = rig_.objects().put("x");
    const ChangeSet change({{"a/b/c/f", std::nullopt, Entry{EntryType::kFile, 0644, digest, 1}, true}});
    const auto [ref, report] = rig_.apply(change);
    ASSERT_TRUE(report.applied);
    EXPECT_EQ(plain(rig_.now()),
              (Tree{{"a", folder()}, {"a/b", folder()}, {"a/b/c", folder()}, {"a/b/c/f", file("x")}}));
    rig_.writer().undo(ref);
    EXPECT_TRUE(rig_.now().empty());
}

TEST_F(TreeWriterTest, AppliesOnceAndUndoesOnce) {
    begin({{"f", file("old")}});
    const Tree before = rig_.now();
    const JournalRef ref = rig_.applyTo({{"f", file("new")}}).ref;
    EXPECT_TRUE(rig_.writer().apply(ref).applied);
    EXPECT_EQ(plain(rig_.now()), (Tree{{"f", file("new")}}));
    rig_.writer().undo(ref);
    EXPECT_TRUE(rig_.writer().undo(ref).kept.empty());
    EXPECT_EQ(rig_.now(), before);
    EXPECT_THROW(rig_.writer().apply(ref), Error);
}

TEST_F(TreeWriterTest, ShowsOnlyWholeFilesToAReader) {
    begin({{"f", file("old")}, {"g", file("old")}});
    std::set<std::string> seen;
    WatchedOperations files([&](std::size_t, std::string_view, std::string_view) {
        for (const auto& [path, node] : rig_.now())
            if (path == "f" || path == "g") seen.insert(node.bytes);
        return 0;
    });
    rig_.apply(rig_.changesTo({{"f", file("new")}, {"g", file("new")}}), files);
    EXPECT_EQ(seen, (std::set<std::string>{"old", "new"}));
}

// What is there while it works has an unmistakable name; what a change set names may not look like it.
TEST_F(TreeWriterTest, KeepsItsTemporariesInOneHiddenDirectory) {
    begin({{"f", file("old")}});
    std::set<std::string> names;
    WatchedOperations files([&](std::size_t, std::string_view, std::string_view) {
        for (const auto& entry : std::filesystem::directory_iterator(rig_.root()))
            names.insert(entry.path().filename());
        return 0;
    });
    rig_.apply(rig_.changesTo({{"f", file("new")}, {"g", file("new")}}), files);
    names.erase("f");
    names.erase("g");
    ASSERT_EQ(names.size(), 1U);
    EXPECT_TRUE(names.begin()->starts_with(".gradus-staging-"));
    const ChangeSet change({{*names.begin() + "/0", std::nullopt, entryOf(file("new")), true}});
    EXPECT_EQ(rig_.writer().plan(change).conflicts.front().kind, ConflictKind::kReserved);
}

TEST_F(TreeWriterTest, LetsOnlyOneWriterIn) {
    begin({{"f", file("old")}});
    TreeWriter writer = rig_.writer();
    const JournalRef ref = writer.seal(writer.plan(rig_.changesTo({{"f", file("new")}})));
    const FileDescriptor other = TreeRoot(rig_.root()).lock();
    try {
        writer.apply(ref);
        FAIL() << "two at once";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kBusy);
    }
}

TEST_F(TreeWriterTest, ObservesWhatIsInBetween) {
    begin({{"a", file("old")}, {"b", file("old")}, {"c", file("old")}});
    TreeWriter writer = rig_.writer();
    const JournalRef ref =
        writer.seal(writer.plan(rig_.changesTo({{"a", file("new")}, {"b", file("new")}, {"c", file("new")}})));
    EXPECT_EQ(writer.observe(ref).state, State::kBefore);
    std::ofstream(rig_.root() / "a") << "new";
    std::ofstream(rig_.root() / "b") << "something else";
    const Observation seen = writer.observe(ref);
    EXPECT_EQ(seen.state, State::kBetween);
    EXPECT_EQ(seen.after, std::vector<std::string>{"a"});
    EXPECT_EQ(seen.neither, std::vector<std::string>{"b"});
}

}  // namespace
}  // namespace gradus::test
