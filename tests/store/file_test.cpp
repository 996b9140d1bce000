#include "store/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "store/model/error.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

std::string complaint(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}

std::string readFault(const fs::path& path, std::uint64_t cap = 1024) {
    return complaint([&] { readSmallFile(path, cap, "the pipeline file"); });
}

void write(const fs::path& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::size_t entriesIn(const fs::path& directory) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

class FileTest : public testing::Test {
  protected:
    test::ScratchDirectory scratch;
    fs::path path = scratch / "file";
};

// --- Reading ---

TEST_F(FileTest, ReadsWhatIsThereAndNoByteLess) {
    const std::string bytes = std::string("a\0b\r\n", 5) + std::string(40000, 'x');
    write(path, bytes);
    EXPECT_EQ(readSmallFile(path, bytes.size(), "the file"), bytes);
    write(path, "");
    EXPECT_EQ(readSmallFile(path, 0, "the file"), "");
}

TEST_F(FileTest, RefusesAFileThatIsOneByteTooLarge) {
    write(path, std::string(2049, 'x'));
    EXPECT_EQ(readFault(path, 2049), "");
    EXPECT_EQ(readFault(path, 2048),
              "the pipeline file " + path.native() + " is larger than 2 KiB, the most that is read");
}

TEST_F(FileTest, NeverWaitsForANamedPipe) {
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(readFault(path), "the pipeline file " + path.native() + " is a named pipe, not a file");
}

TEST_F(FileTest, CallsADirectoryADirectory) {
    EXPECT_EQ(readFault(scratch.path()),
              "the pipeline file " + scratch.path().native() + " is a directory, not a file");
}

TEST_F(FileTest, NeverReadsAnEndlessDevice) {
    for (const char* device : {"/dev/zero", "/dev/null", "/dev/tty"}) EXPECT_NE(readFault(device), "") << device;
    EXPECT_EQ(readFault("/dev/zero"), "the pipeline file /dev/zero is a device, not a file");
}

TEST_F(FileTest, RefusesASocket) {
    const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path.native().size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, path.c_str(), path.native().size());
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_NE(readFault(path).find(path.native()), std::string::npos);
}

TEST_F(FileTest, NamesALoopOfLinks) {
    fs::create_symlink(scratch / "other", path);
    fs::create_symlink(path, scratch / "other");
    EXPECT_EQ(readFault(path), "cannot open " + path.native() + ": Too many levels of symbolic links");
}

TEST_F(FileTest, FollowsALinkToAFileAndLooksAtWhatIsAtItsEnd) {
    write(scratch / "target", "text");
    fs::create_symlink("target", path);
    EXPECT_EQ(readSmallFile(path, 10, "the file"), "text");
    fs::create_symlink("/dev/zero", scratch / "zero");
    EXPECT_NE(readFault(scratch / "zero").find("is a device"), std::string::npos);
}

TEST_F(FileTest, SaysWhatIsMissing) {
    EXPECT_EQ(readFault(path), "cannot open " + path.native() + ": No such file or directory");
}

// --- Writing ---

TEST_F(FileTest, ReplacesAFileAsAWholeWithTheModeAsked) {
    write(path, "a longer text than the new one");
    writeFileDurably(path, "new", 0640);
    EXPECT_EQ(readSmallFile(path, 100, "the file"), "new");
    EXPECT_EQ(fs::status(path).permissions(), fs::perms(0640));
    EXPECT_EQ(entriesIn(scratch.path()), 1U);
}

TEST_F(FileTest, ReplacesALinkAndNotWhatItPointsTo) {
    write(scratch / "target", "kept");
    fs::create_symlink("target", path);
    writeFileDurably(path, "new");
    EXPECT_FALSE(fs::is_symlink(path));
    EXPECT_EQ(readSmallFile(scratch / "target", 100, "the file"), "kept");
}

TEST_F(FileTest, LeavesNoTemporaryWhereItCannotReplace) {
    fs::create_directory(path);
    write(path / "inside", "kept");
    EXPECT_EQ(complaint([&] { writeFileDurably(path, "new"); }),
              "cannot replace " + path.native() + ": Is a directory");
    EXPECT_EQ(entriesIn(scratch.path()), 1U);
    EXPECT_TRUE(fs::exists(path / "inside"));
}

TEST_F(FileTest, LeavesTheOldBytesWhereTheNewDoNotFit) {
    EXPECT_NE(complaint([] { writeFileDurably("/dev/full/x", "new"); }), "");
    write(path, "old");
    const FileDescriptor full = openFile("/dev/full", O_WRONLY);
    EXPECT_EQ(complaint([&] { writeAll(full.get(), "new", path); }),
              "cannot write " + path.native() + ": No space left on device");
    EXPECT_EQ(readSmallFile(path, 100, "the file"), "old");
}

TEST_F(FileTest, NamesTheDirectoryThatIsMissing) {
    EXPECT_NE(complaint([&] { writeFileDurably(scratch / "no/such", "new"); }).find("No such file or directory"),
              std::string::npos);
    EXPECT_EQ(entriesIn(scratch.path()), 0U);
}

TEST_F(FileTest, WritesIntoTheCurrentDirectoryByBareName) {
    const fs::path before = fs::current_path();
    fs::current_path(scratch.path());
    writeFileDurably("bare", "x");
    fs::current_path(before);
    EXPECT_TRUE(fs::exists(scratch / "bare"));
}

TEST_F(FileTest, MakesDirectoriesThatOnlyTheirOwnerMayEnter) {
    makeDirectories(scratch / "a/b/c");
    for (const char* made : {"a", "a/b", "a/b/c"})
        EXPECT_EQ(fs::status(scratch / made).permissions(), fs::perms(0700)) << made;
    EXPECT_NO_THROW(makeDirectories(scratch / "a/b/c"));
}

TEST_F(FileTest, MakesNoDirectoryBelowAFile) {
    write(path, "");
    EXPECT_EQ(complaint([&] { makeDirectories(path / "below"); }),
              "cannot create the directory " + (path / "below").native() + ": Not a directory");
}

TEST_F(FileTest, ADescriptorIsClosedOnceByItsLastOwner) {
    FileDescriptor first = openFile("/dev/null", O_RDONLY);
    const int number = first.get();
    {
        const FileDescriptor second = std::move(first);
        EXPECT_EQ(::fcntl(number, F_GETFD), FD_CLOEXEC);
    }
    EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

}  // namespace
}  // namespace gradus
