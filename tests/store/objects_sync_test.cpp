#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "tests/store/objects_rig.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

/// Called with what is being synced, answers with the errno to fail by, or 0; set only by tests in this file.
std::function<int(const fs::path&)>& onSync() {
    static std::function<int(const fs::path&)> call;
    return call;
}

}  // namespace
}  // namespace gradus

// Takes the place of the C library's in this program: whether a sync happens, and when, shows only here and in a power
// cut.
extern "C" int fsync(int fd) {
    const auto& call = gradus::onSync();
    const int error = call ? call(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd))) : 0;
    if (error != 0) {
        errno = error;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace gradus {
namespace {

class ObjectsSync : public ObjectsTest {
  protected:
    ~ObjectsSync() override { onSync() = nullptr; }
    std::vector<fs::path> synced_;
    void watch() {
        synced_.clear();
        onSync() = [this](const fs::path& path) {
            synced_.push_back(path);
            return 0;
        };
    }
};

TEST_F(ObjectsSync, TheBytesAreSyncedBeforeTheNameAndTheNameBeforePutReturns) {
    for (const std::string& content : {prose(1, 1000), noise(1, 400'000)}) {
        const fs::path path = objects_.pathOf(sha256(content));
        std::vector<std::string> events;
        onSync() = [&](const fs::path& synced) {
            const bool isBytes = synced.parent_path() == directory() / "tmp" && bytesOf(synced).size() > 96;
            const bool isName = synced == path.parent_path();
            events.push_back(fmt::format("{} {}",
                                         isBytes  ? "bytes"
                                         : isName ? "name"
                                                  : synced.native(),
                                         fs::exists(path) ? "visible" : "hidden"));
            return 0;
        };
        objects_.put(content);
        EXPECT_EQ(events, (std::vector<std::string>{"bytes hidden", "name visible"}));
    }
}

TEST_F(ObjectsSync, BytesThatCannotBeSyncedNeverGetAName) {
    onSync() = [this](const fs::path& synced) { return synced.parent_path() == directory() / "tmp" ? EIO : 0; };
    EXPECT_TRUE(mentions(errorOf([&] { objects_.put("x"); }), "Input/output error"));
    EXPECT_FALSE(objects_.contains(sha256("x")));
    EXPECT_EQ(temporaries(), 0u);
}

TEST_F(ObjectsSync, ANameThatCannotBeSyncedIsNotAcknowledgedNorByTheNextOne) {
    onSync() = [&](const fs::path& synced) { return synced.parent_path() == directory() ? EIO : 0; };
    for (int attempt = 0; attempt < 2; ++attempt) {
        EXPECT_TRUE(mentions(errorOf([&] { objects_.put("x"); }), "Input/output error"));
        EXPECT_EQ(temporaries(), 0u);
    }
    watch();
    objects_.put("x");
    EXPECT_EQ(synced_.size(), 1u);
}

TEST_F(ObjectsSync, PuttingAgainWritesNothingThatWouldHaveToBeSynced) {
    const std::string content = noise(2, 400'000);
    objects_.put(content);
    watch();
    objects_.put(content);
    Pieces source({content});
    objects_.put(source);
    EXPECT_TRUE(synced_.empty());
}

TEST_F(ObjectsSync, AnObjectWhoseWriterDiedBeforeItsNameWasSyncedIsSyncedByWhoFindsIt) {
    const Digest digest = objects_.put("x");
    fs::permissions(objects_.pathOf(digest), fs::perms::owner_read | fs::perms::owner_write);
    watch();
    objects_.put("x");
    EXPECT_EQ(synced_, std::vector<fs::path>{objects_.pathOf(digest).parent_path()});
    objects_.refresh(digest);
    EXPECT_EQ(synced_.size(), 1u);
}

TEST_F(ObjectsSync, EveryDirectoryOfANewStoreLastsBeforeTheStoreIsOpen) {
    watch();
    const fs::path store = scratch_.path() / "a" / "b";
    Objects(store, clock_).put("x");
    ASSERT_GE(synced_.size(), 5u);
    EXPECT_EQ(synced_[0], scratch_.path());
    EXPECT_EQ(synced_[1], scratch_.path() / "a");
    EXPECT_EQ(synced_[2], store);                // the directories
    EXPECT_EQ(synced_[3].parent_path(), store);  // the format file's bytes
    EXPECT_EQ(synced_[4], store);                // and its name
}

TEST_F(ObjectsSync, ADirectoryMadeAgainIsSyncedInItsParent) {
    fs::remove(objects_.pathOf(sha256("x")).parent_path());
    watch();
    objects_.put("x");
    ASSERT_EQ(synced_.size(), 3u);
    EXPECT_EQ(synced_[0], directory());
}

TEST_F(ObjectsSync, ARemovalIsSynced) {
    const Digest digest = objects_.put("x");
    watch();
    objects_.sweep(kNothingIsReferenced, clock_.now() + 1h, 0ms);
    EXPECT_EQ(synced_, std::vector<fs::path>{objects_.pathOf(digest).parent_path()});
}

}  // namespace
}  // namespace gradus
