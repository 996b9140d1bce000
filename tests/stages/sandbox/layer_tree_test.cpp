#include "stages/sandbox/layer_tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "store/model/error.h"
#include "store/privilege.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kSomebody = 41235;

FileDescriptor openAt(const fs::path& path) { return openFile(path, O_RDONLY | O_DIRECTORY); }

void put(const fs::path& path) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
}

// Whoever unpacks an image's layer has such files; only what fuse-overlayfs keeps has them for marks.
TEST(LayerTree, AFileWithTheNameOfAMarkIsAFile) {
    const test::ScratchDirectory scratch;
    put(scratch / "top/images/.wh..wh..opq");
    put(scratch / "below/images/base");
    EXPECT_FALSE(isOpaque(openAt(scratch / "top/images").get()));
    EXPECT_TRUE(isOpaque(openAt(scratch / "top/images").get(), FuseMarks::kCount));
    fs::create_directory(scratch / "merged");
    std::vector<FileDescriptor> layers;
    layers.push_back(openAt(scratch / "top"));
    layers.push_back(openAt(scratch / "below"));
    mergeTrees(layers, openAt(scratch / "merged").get());
    EXPECT_TRUE(fs::exists(scratch / "merged/images/base"));
    EXPECT_TRUE(fs::exists(scratch / "merged/images/.wh..wh..opq"));
    EXPECT_FALSE(isOpaque(openAt(scratch / "merged/images").get()));
}

// Files of ids that are lent to a sandbox: their owner can neither look into them nor delete them.
TEST(LayerTree, WhatCannotBeDeletedDoesNotKeepTheRest) {
    if (!isMachineRoot()) GTEST_SKIP() << "only root can make what somebody else cannot delete";
    const test::ScratchDirectory scratch;
    const fs::path trash = scratch / "trash";
    for (const char* name : {"a/closed/file", "b/closed/file", "c/file"}) put(trash / name);
    for (const auto& entry : fs::recursive_directory_iterator(trash))
        ASSERT_EQ(::lchown(entry.path().c_str(), kSomebody, kSomebody), 0);
    ASSERT_EQ(::chown(trash.c_str(), kSomebody, kSomebody), 0);
    for (const char* name : {"a/closed", "b/closed"}) {
        ASSERT_EQ(::chown((trash / name).c_str(), 0, 0), 0);
        fs::permissions(trash / name, fs::perms::owner_all);
    }
    const FileDescriptor open = openAt(trash);
    const pid_t child = ::fork();
    if (child == 0) {
        if (::setresgid(kSomebody, kSomebody, kSomebody) != 0 || ::setresuid(kSomebody, kSomebody, kSomebody) != 0)
            ::_exit(2);
        try {
            removeContents(open.get());
        } catch (const Error&) {
            ::_exit(0);
        }
        ::_exit(1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "it says what could not be deleted";
    EXPECT_TRUE(fs::exists(trash / "a/closed/file"));
    EXPECT_TRUE(fs::exists(trash / "b/closed/file"));
    EXPECT_FALSE(fs::exists(trash / "c"));
    EXPECT_GT(removeContents(open.get()), 0U);
    EXPECT_TRUE(fs::is_empty(trash));
}

}  // namespace
}  // namespace gradus
