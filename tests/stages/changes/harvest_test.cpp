// What a real overlay writes, read back. Every test mounts its own.
#include "stages/changes/harvest.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "tests/stages/changes/overlay_rig.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::told;
using test::writeText;
using Lines = std::vector<std::string>;

class HarvestTest : public test::OverlayTest {
  protected:
    const PathChange& only(const Harvest& harvest) {
        EXPECT_EQ(harvest.changes.changes().size(), 1U);
        return harvest.changes.changes().at(0);
    }
};

TEST_F(HarvestTest, TellsNothingWhereNothingWasDone) {
    GRADUS_CASES("OV28", "OV27");
    writeText(base("f"), "text");
    rig().begin();
    const Harvest harvest = rig().harvest();
    EXPECT_TRUE(harvest.changes.empty());
    EXPECT_TRUE(harvest.refused.empty());
    EXPECT_TRUE(harvest.baseMoved.empty());
}

TEST_F(HarvestTest, TellsNewFilesDirectoriesAndLinksVerbatim) {
    GRADUS_CASES("OV10", "OV2", "OV13");
    rig().begin();
    writeText(in("new"), "text");
    writeText(in("empty"), "");
    fs::create_directories(in("d/e"));
    fs::create_symlink("foo", in("d/e/link"));
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), (Lines{"added d", "added d/e", "added d/e/link", "added empty", "added new"}));
    EXPECT_EQ(harvest.changes.changes()[2].after, test::linkEntry("foo"));
    EXPECT_EQ(harvest.changes.changes()[3].after, test::fileEntry(""));
    EXPECT_EQ(harvest.changes.changes()[4].after, test::fileEntry("text"));
    EXPECT_EQ(harvest.changes.changes()[0].after, test::directoryEntry());
}

TEST_F(HarvestTest, TellsAnOverwrittenFileWithBothContents) {
    GRADUS_CASES("OV12", "OV41");
    writeText(base("f"), "old");
    fs::permissions(base("f"), fs::perms(0444));
    rig().begin();
    fs::remove(in("f"));
    writeText(in("f"), "new!");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(only(harvest), (PathChange{"f", test::fileEntry("old", 0444), test::fileEntry("new!"), true}));
}

// The content decides, not the time
TEST_F(HarvestTest, TakesATouchedOrRewrittenFileForUnchanged) {
    GRADUS_CASES("OV41");
    writeText(base("f"), "same");
    writeText(base("g"), "same");
    rig().begin();
    fs::last_write_time(in("f"), fs::file_time_type::clock::now());
    fs::remove(in("g"));
    writeText(in("g"), "same");
    EXPECT_EQ(told(rig().harvest()), Lines{});
}

TEST_F(HarvestTest, TellsAChangeOfModeAlone) {
    GRADUS_CASES("OV42");
    writeText(base("f"), "text");
    fs::create_directory(base("d"));
    rig().begin();
    fs::permissions(in("f"), fs::perms(0755));
    fs::permissions(in("d"), fs::perms(0700));
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), (Lines{"mode-changed d", "mode-changed f"}));
    EXPECT_EQ(harvest.changes.changes()[1].after, test::fileEntry("text", 0755));
}

TEST_F(HarvestTest, TellsDeletionsAndLeavesTheTargetOfALink) {
    GRADUS_CASES("OV6", "OV7", "TX15");
    writeText(base("f"), "text");
    writeText(base("target"), "text");
    fs::create_symlink("target", base("link"));
    rig().begin();
    fs::remove(in("f"));
    fs::remove(in("link"));
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), (Lines{"deleted f", "deleted link"}));
    EXPECT_EQ(harvest.changes.changes()[1].before, test::linkEntry("target"));
}

TEST_F(HarvestTest, TellsNothingOfWhatCameAndWent) {
    GRADUS_CASES("OV8");
    rig().begin();
    writeText(in("f"), "text");
    fs::create_directory(in("d"));
    rig().snapshot();
    fs::remove(in("f"));
    fs::remove(in("d"));
    writeText(in("g"), "text");
    fs::remove(in("g"));
    EXPECT_EQ(told(rig().harvest()), Lines{});
}

TEST_F(HarvestTest, TellsAReplacedDirectoryPathByPath) {
    GRADUS_CASES("OV1");
    fs::create_directories(base("d/sub"));
    writeText(base("d/old"), "old");
    writeText(base("d/both"), "same");
    writeText(base("d/sub/deep"), "deep");
    rig().begin();
    fs::remove_all(in("d"));
    fs::create_directory(in("d"));
    writeText(in("d/new"), "new");
    writeText(in("d/both"), "same");
    EXPECT_EQ(told(rig().harvest()), (Lines{"added d/new", "deleted d/old", "deleted d/sub", "deleted d/sub/deep"}));
}

TEST_F(HarvestTest, TellsADeletedTreePathByPath) {
    fs::create_directories(base("d/e/f"));
    writeText(base("d/e/f/x"), "x");
    rig().begin();
    fs::remove_all(in("d"));
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), (Lines{"deleted d", "deleted d/e", "deleted d/e/f", "deleted d/e/f/x"}));
    EXPECT_EQ(harvest.changes.changes()[3].before, test::fileEntry("x"));
}

TEST_F(HarvestTest, TellsEveryChangeOfType) {
    GRADUS_CASES("OV4", "OV11", "OV14", "OV15");
    const Lines kinds{"file", "link", "directory"};
    const auto make = [](const fs::path& path, const std::string& kind, const std::string& text) {
        if (kind == "file") return writeText(path, text);
        if (kind == "link") return fs::create_symlink(text, path);
        fs::create_directory(path);
        writeText(path / "inner", text);
    };
    for (const auto& from : kinds)
        for (const auto& to : kinds) make(base(from + "-" + to), from, "old");
    rig().begin();
    for (const auto& from : kinds)
        for (const auto& to : kinds) {
            fs::remove_all(in(from + "-" + to));
            make(in(from + "-" + to), to, "new");
        }
    EXPECT_EQ(told(rig().harvest()),
              (Lines{"modified directory-directory/inner", "type-changed directory-file",
                     "deleted directory-file/inner", "type-changed directory-link", "deleted directory-link/inner",
                     "type-changed file-directory", "added file-directory/inner", "modified file-file",
                     "type-changed file-link", "type-changed link-directory", "added link-directory/inner",
                     "type-changed link-file", "modified link-link"}));
}

TEST_F(HarvestTest, LetsTheTopmostLayerThatSaysSomethingDecide) {
    fs::create_directories(base("d"));
    writeText(base("d/x"), "base");
    writeText(base("f"), "base");
    writeText(base("g"), "base");
    rig().begin();
    writeText(in("f"), "one");
    writeText(in("d/y"), "one");
    fs::remove(in("g"));
    rig().snapshot();
    writeText(in("f"), "two");
    fs::remove_all(in("d"));
    fs::create_directory(in("d"));
    rig().snapshot();
    writeText(in("g"), "base");
    writeText(in("d/z"), "three");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), (Lines{"deleted d/x", "added d/z", "modified f"}));
    EXPECT_EQ(harvest.changes.changes()[2].after, test::fileEntry("two"));
}

TEST_F(HarvestTest, SeesAFileOfALowerLayerHideWhatLiesBelowIt) {
    fs::create_directory(base("d"));
    writeText(base("d/x"), "base");
    rig().begin();
    fs::remove_all(in("d"));
    writeText(in("d"), "a file");
    rig().snapshot();
    fs::remove(in("d"));
    fs::create_directory(in("d"));
    writeText(in("d/new"), "new");
    EXPECT_EQ(told(rig().harvest()), (Lines{"added d/new", "deleted d/x"}));
}

// Never opened, so nothing waits
TEST_F(HarvestTest, RefusesPipesAndSocketsWhateverTheyReplace) {
    GRADUS_CASES("OV17", "OV18", "OV19", "OV20", "OV21", "OV22", "OV23", "OV24", "FS12");
    for (const char* kind : {"pipe", "socket"}) {
        writeText(base(std::string(kind) + "-file"), "x");
        fs::create_directory(base(std::string(kind) + "-dir"));
        writeText(base(std::string(kind) + "-dir/x"), "x");
        fs::create_symlink("x", base(std::string(kind) + "-link"));
    }
    rig().begin();
    fs::current_path(rig().merged);
    for (const std::string over : {"-file", "-dir", "-link", "-absent"}) {
        fs::remove_all("pipe" + over);
        fs::remove_all("socket" + over);
        EXPECT_EQ(::mkfifo(("pipe" + over).c_str(), 0644), 0);
        const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        ("socket" + over).copy(address.sun_path, sizeof address.sun_path - 1);
        EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    }
    fs::current_path("/");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), Lines{});
    ASSERT_EQ(harvest.refused.size(), 8U);
    EXPECT_EQ(harvest.refused[0].path, "pipe-absent");
    EXPECT_EQ(harvest.refused[0].reason, "it is a named pipe, not a regular file");
    EXPECT_EQ(harvest.refused[4].reason, "it is a socket, not a regular file");
}

TEST_F(HarvestTest, RefusesDevicesAndTakesAForgedWhiteoutForADeletionOnly) {
    GRADUS_CASES("FS16");
    if (::geteuid() != 0) GTEST_SKIP() << "only root makes device nodes";
    writeText(base("x"), "x");
    rig().begin();
    ASSERT_EQ(::mknod((rig().topLayer() / "x").c_str(), S_IFCHR, 0), 0);
    ASSERT_EQ(::mknod((rig().topLayer() / "nothing").c_str(), S_IFCHR, 0), 0);
    ASSERT_EQ(::mknod((rig().topLayer() / "k").c_str(), S_IFCHR | 0600, makedev(1, 1)), 0);
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), Lines{"deleted x"});
    EXPECT_EQ(test::refusals(harvest), Lines{"k: it is a device, not a regular file"});
    EXPECT_TRUE(fs::exists(base("x")));
}

TEST_F(HarvestTest, KeepsALinkAsItsTextAndNeverReadsWhatItPointsTo) {
    GRADUS_CASES("FS11");
    rig().begin();
    fs::create_symlink("/etc/shadow", in("out.txt"));
    EXPECT_EQ(only(rig().harvest()).after, test::linkEntry("/etc/shadow"));
}

TEST_F(HarvestTest, TellsHardLinksAsFilesOfTheirOwn) {
    GRADUS_CASES("FS17");
    writeText(base("secret"), "text");
    rig().begin();
    fs::create_hard_link(in("secret"), in("x"));
    writeText(in("y"), "y");
    fs::create_hard_link(in("y"), in("z"));
    EXPECT_EQ(told(rig().harvest()), (Lines{"added x", "added y", "added z"}));
    EXPECT_EQ(fs::hard_link_count(base("secret")), 1U);
}

TEST_F(HarvestTest, HashesHolesWithoutReadingThemAndRefusesTooMany) {
    GRADUS_CASES("FS13", "OV41");
    rig().begin();
    writeText(in("small"), "");
    fs::resize_file(in("small"), 3'000'000);
    const FileDescriptor file = openFile(in("small"), O_WRONLY);
    ASSERT_EQ(::pwrite(file.get(), "x", 1, 1'500'000), 1);
    writeText(in("big"), "");
    fs::resize_file(in("big"), std::uintmax_t{1} << 40);
    std::string content(3'000'000, '\0');
    content[1'500'000] = 'x';
    const Harvest harvest = rig().harvest({.maxBytes = 100'000, .maxHoles = 8'000'000});
    EXPECT_EQ(only(harvest).after, test::fileEntry(content));
    EXPECT_EQ(test::refusals(harvest), Lines{"big: it is a file of more holes than are read"});
}

TEST_F(HarvestTest, StopsBeyondItsBounds) {
    rig().begin();
    for (int i = 0; i < 20; ++i) writeText(in("f" + std::to_string(i)), std::string(1000, 'x'));
    const HarvestSource source = rig().source();
    EXPECT_EQ(harvest(source, {.maxEntries = 20}).changes.changes().size(), 20U);
    EXPECT_THROW(harvest(source, {.maxEntries = 19}), Error);  // FS20
    EXPECT_THROW(harvest(source, {.maxBytes = 19'999}), Error);
    EXPECT_NO_THROW(harvest(source, {.maxBytes = 20'000}));
}

// A deleted tree is bounded too
TEST_F(HarvestTest, StopsBeyondItsBoundsInADeletedTree) {
    GRADUS_CASES("FS20");
    fs::create_directory(base("d"));
    for (int i = 0; i < 20; ++i) writeText(base("d/f" + std::to_string(i)), "x");
    rig().begin();
    fs::remove_all(in("d"));
    EXPECT_THROW(rig().harvest({.maxEntries = 20}), Error);
    EXPECT_NO_THROW(rig().harvest({.maxEntries = 21}));
}

TEST_F(HarvestTest, TellsOddNamesAndRefusesThoseThatNoChangeMayHave) {
    GRADUS_CASES("OV25", "CA1", "CA2");
    rig().begin();
    for (const char* name : {"-rf", "with space", "quote\"colon:comma,", "line\nbreak", "\xff\xfe", "dot.",
                             "back\\slash", ".GIT", "git~1", ".gitmodules"})
        writeText(in(name), "x");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest),
              (Lines{"added -rf", "added .gitmodules", "added quote\"colon:comma,", "added with space"}));
    Lines refused;
    for (const Unharvested& item : harvest.refused) refused.push_back(item.path);
    EXPECT_EQ(refused, (Lines{".GIT", "\\xff\\xfe", "back\\slash", "dot.", "git~1", "line\\nbreak"}));
}

TEST_F(HarvestTest, RefusesSpecialBitsUnlessNothingElseChanged) {
    GRADUS_CASES("CA9");
    writeText(base("unchanged"), "x");
    writeText(base("changed"), "x");
    fs::create_directory(base("shared"));
    ASSERT_EQ(::chmod(base("unchanged").c_str(), 04755), 0);
    ASSERT_EQ(::chmod(base("changed").c_str(), 04755), 0);
    ASSERT_EQ(::chmod(base("shared").c_str(), 02755), 0);
    rig().begin();
    fs::last_write_time(in("unchanged"), fs::file_time_type::clock::now());
    ASSERT_EQ(::chmod(in("changed").c_str(), 0755), 0);
    writeText(in("shared/f"), "x");
    fs::create_directory(in("sticky"));
    writeText(in("sticky/inside"), "x");
    ASSERT_EQ(::chmod(in("sticky").c_str(), 01777), 0);
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), Lines{"added shared/f"});
    const std::string reason = ": a set-user-ID, set-group-ID or sticky bit cannot be part of a change";
    EXPECT_EQ(test::refusals(harvest), (Lines{"changed" + reason, "sticky" + reason}));
}

TEST_F(HarvestTest, LeavesGitsDirectoryOutAtAnyDepth) {
    GRADUS_CASES("ST12", "OV48");
    fs::create_directories(base(".git/refs"));
    writeText(base(".git/HEAD"), "ref");
    rig().begin();
    fs::remove_all(in(".git"));
    fs::create_directories(in("sub/.git"));
    writeText(in("sub/.git/config"), "x");
    writeText(in("sub/file"), "x");
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), (Lines{"added sub", "added sub/file"}));
    EXPECT_TRUE(harvest.refused.empty());
}

TEST_F(HarvestTest, KeepsADirectoryInPlaceForWhatCannotGo) {
    fs::create_directories(base("vendor/lib/.git"));
    writeText(base("vendor/lib/code"), "x");
    ASSERT_EQ(::mkfifo(base("vendor/pipe").c_str(), 0644), 0);
    rig().begin();
    fs::remove_all(in("vendor"));
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), Lines{"deleted vendor/lib/code"});
    EXPECT_EQ(harvest.refused.size(), 3U);
}

TEST_F(HarvestTest, LeavesOutWhatIsNotTheSandboxsOwn) {
    fs::create_directory(base("mnt"));
    writeText(base("mnt/x"), "x");
    rig().begin();
    writeText(in("mnt/y"), "y");
    fs::create_directory(in("socket-dir"));
    writeText(in("socket-dir/z"), "z");
    HarvestSource source = rig().source();
    source.notOurs = {"mnt", "socket-dir"};
    EXPECT_EQ(told(harvest(source, {})), Lines{});
}

// Attributes that the mount in use did not obey must not be obeyed here either.
TEST_F(HarvestTest, ReportsAttributesThatImitateAnOverlays) {
    fs::create_directory(base("d"));
    writeText(base("d/x"), "x");
    rig().begin();
    writeText(in("d/y"), "y");
    writeText(in("f"), "f");
    const bool couldForge = ::setxattr(in("d").c_str(), "user.overlay.opaque", "y", 1, 0) == 0 &&
                            ::setxattr(in("f").c_str(), "user.overlay.whiteout", "", 0, 0) == 0;
    if (!couldForge) GTEST_SKIP() << "this kernel does not let it be tried: " << errnoText(errno);
    ASSERT_TRUE(fs::exists(in("d/x"))) << "the mount did not obey it";
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), (Lines{"added d/y", "added f"}));
    ASSERT_EQ(harvest.refused.size(), 2U);
    EXPECT_NE(harvest.refused[0].reason.find("imitates"), std::string::npos);
}

TEST_F(HarvestTest, RefusesWhatCarriesARedirectOrMetacopyMark) {
    fs::create_directory(base("secret"));
    rig().begin();
    fs::create_directory(in("d"));
    writeText(in("d/inside"), "x");
    writeText(in("f"), "x");
    rig().unmount();
    const std::string space = ::geteuid() == 0 ? "trusted" : "user";
    const auto set = [&](const char* name, const std::string& attribute, const std::string& value) {
        return ::setxattr((rig().topLayer() / name).c_str(), (space + ".overlay." + attribute).c_str(), value.data(),
                          value.size(), 0);
    };
    ASSERT_EQ(set("d", "redirect", "/secret"), 0);
    ASSERT_EQ(set("f", "metacopy", ""), 0);
    const Harvest harvest = rig().harvest();
    EXPECT_EQ(told(harvest), Lines{});
    EXPECT_EQ(harvest.refused.size(), 2U);
}

TEST_F(HarvestTest, PutsNewContentsAmongTheObjects) {
    writeText(base("same"), "same");
    rig().begin();
    fs::last_write_time(in("same"), fs::file_time_type::clock::now());
    writeText(in("f"), "text");
    const std::string large(600'000, 'x');
    writeText(in("large"), large);
    fs::create_symlink("somewhere", in("link"));
    const test::FakeClock clock;
    Objects objects(rig().elsewhere("objects"), clock);
    rig().harvest({.keep = &objects});
    EXPECT_EQ(objects.readAll(sha256("text"), 100), "text");
    EXPECT_EQ(objects.readAll(sha256(large), 1'000'000), large);
    EXPECT_EQ(objects.readAll(sha256("somewhere"), 100), "somewhere");
    EXPECT_FALSE(objects.contains(sha256("same")));
}

TEST_F(HarvestTest, GoesAsDeepAsAPathMayWithoutHoldingDescriptors) {
    rig().begin();
    std::string path;
    for (int i = 0; i < 1900; ++i) {
        path += path.empty() ? "d" : "/d";
        ASSERT_EQ(::mkdir(in(path).c_str(), 0755), 0) << i << errnoText(errno);
    }
    EXPECT_EQ(rig().harvest().changes.changes().size(), 1900U);
}

TEST_F(HarvestTest, RefusesAFileThatMayNotBeRead) {
    rig().begin();
    writeText(in("f"), "x");
    fs::permissions(in("f"), fs::perms(0));
    const Harvest harvest = rig().harvest();
    // Root, and whoever owns the user namespace, may.
    EXPECT_EQ(told(harvest), Lines{"added f"});
}

TEST_F(HarvestTest, ThrowsWhenALayerIsNone) {
    rig().begin();
    HarvestSource source = rig().source();
    source.layers = {-1};
    EXPECT_THROW(harvest(source, {}), Error);
    source.base = "/nonexistent";
    EXPECT_THROW(harvest(source, {}), Error);
}

}  // namespace
}  // namespace gradus
