#include "store/state_directory.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "store/model/error.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

std::string rootFor(const Variables& variables) {
    return locateState([&](const std::string& name) -> std::optional<std::string> {
               const auto found = variables.find(name);
               return found == variables.end() ? std::nullopt : std::optional(found->second);
           })
        .root.native();
}

Error refusal(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& e) {
        return e;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Error(ErrorCode::kUsage, "nothing was thrown");
}

TEST(StateDirectoryTest, IsWhereTheMostSpecialVariableSays) {
    const Variables all{{"GRADUS_HOME", "/own"}, {"XDG_STATE_HOME", "/xdg"}, {"HOME", "/home/me"}};
    EXPECT_EQ(rootFor(all), "/own");
    EXPECT_EQ(rootFor({{"XDG_STATE_HOME", "/xdg"}, {"HOME", "/home/me"}}), "/xdg/gradus");
    EXPECT_EQ(rootFor({{"HOME", "/home/me"}}), "/home/me/.local/state/gradus");
}

TEST(StateDirectoryTest, TakesAnEmptyVariableForNone) {
    EXPECT_EQ(rootFor({{"GRADUS_HOME", ""}, {"XDG_STATE_HOME", ""}, {"HOME", "/home/me"}}),
              "/home/me/.local/state/gradus");
}

TEST(StateDirectoryTest, IsNowhereWithoutAnyOfThem) {
    for (const Variables& none : {Variables{}, Variables{{"HOME", ""}}}) {
        const Error error = refusal([&] { rootFor(none); });
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
        EXPECT_NE(error.hint().find("GRADUS_HOME"), std::string::npos);
    }
}

TEST(StateDirectoryTest, IsNeverRelative) {
    for (const char* name : {"GRADUS_HOME", "XDG_STATE_HOME", "HOME"}) {
        const Error error = refusal([&] { rootFor({{name, "state/here"}}); });
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
        EXPECT_EQ(std::string(error.what()), std::string(name) + " is 'state/here', which is not an absolute path");
        EXPECT_NE(error.hint(), "");
    }
}

TEST(StateDirectoryTest, HasOneSpelling) {
    EXPECT_EQ(rootFor({{"GRADUS_HOME", "/own/../other/./x"}}), "/other/x");
    EXPECT_EQ(rootFor({{"GRADUS_HOME", "/own/"}}), rootFor({{"GRADUS_HOME", "/own"}}));
}

TEST(StateDirectoryTest, IsMadeForItsOwnerAlone) {
    const test::ScratchDirectory scratch;
    const StateDirectory state{scratch / "deep/down"};
    prepareState(state);
    prepareState(state);
    EXPECT_EQ(fs::status(state.root).permissions(), fs::perms(0700));
}

TEST(StateDirectoryTest, SaysWhenAFileIsInItsPlace) {
    const test::ScratchDirectory scratch;
    std::ofstream(scratch / "taken") << "kept";
    const Error error = refusal([&] { prepareState({scratch / "taken"}); });
    EXPECT_EQ(std::string(error.what()), (scratch / "taken").native() + " is not a directory");
    EXPECT_NE(error.hint(), "");
    EXPECT_EQ(fs::file_size(scratch / "taken"), 4U);
}

TEST(StateDirectoryTest, OfAnotherUserIsRefusedToRoot) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root could write there";
    const test::ScratchDirectory scratch;
    const fs::path theirs = scratch / "theirs";
    fs::create_directory(theirs);
    ASSERT_EQ(::chown(theirs.c_str(), 41234, 41234), 0);
    const Error error = refusal([&] { prepareState({theirs}); });
    EXPECT_EQ(error.code(), ErrorCode::kNotAllowed);
    EXPECT_NE(std::string(error.what()).find("belongs to #41234"), std::string::npos) << error.what();
    EXPECT_NE(error.hint().find("sudo -u #41234"), std::string::npos) << error.hint();
    EXPECT_TRUE(fs::is_empty(theirs));
}

TEST(StateDirectoryTest, SaysWhenALinkThereLeadsNowhere) {
    const test::ScratchDirectory scratch;
    fs::create_symlink("nowhere", scratch / "link");
    const Error error = refusal([&] { prepareState({scratch / "link"}); });
    EXPECT_EQ(error.code(), ErrorCode::kInfrastructure);
    EXPECT_NE(std::string(error.what()).find((scratch / "link").native()), std::string::npos);
}

TEST(StateDirectoryTest, SaysWhenTheFileSystemHasNoPlaceForIt) {
    const Error error = refusal([] { prepareState({"/proc/gradus"}); });
    EXPECT_EQ(error.code(), ErrorCode::kInfrastructure);
    EXPECT_NE(std::string(error.what()).find("/proc/gradus"), std::string::npos);
}

TEST(StateDirectoryTest, KnowsFileSystemsThatCannotBeTrusted) {
    GRADUS_CASES("DL5");
    EXPECT_EQ(untrustedFileSystem(NFS_SUPER_MAGIC), "NFS");
    EXPECT_EQ(untrustedFileSystem(MSDOS_SUPER_MAGIC), "FAT");
    EXPECT_EQ(untrustedFileSystem(V9FS_MAGIC), "9p");
    EXPECT_EQ(untrustedFileSystem(OVERLAYFS_SUPER_MAGIC), std::nullopt);
    EXPECT_EQ(untrustedFileSystem(EXT4_SUPER_MAGIC), std::nullopt);
}

}  // namespace
}  // namespace gradus
