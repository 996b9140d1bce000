#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <iostream>

#include "tests/store/objects_rig.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

using ObjectsMachine = ObjectsTest;

/// A small file system of its own.
class SmallDisk {
  public:
    SmallDisk() : isMounted_(::mount("gradus", scratch_.path().c_str(), "tmpfs", 0, "size=1m") == 0) {}
    ~SmallDisk() {
        if (isMounted_) ::umount2(scratch_.path().c_str(), MNT_DETACH);
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;

    bool isMounted() const { return isMounted_; }
    bool makeReadOnly() const { return ::mount("", path().c_str(), "", MS_REMOUNT | MS_RDONLY, "") == 0; }
    const fs::path& path() const { return scratch_.path(); }

  private:
    Scratch scratch_;
    bool isMounted_;
};

TEST(ObjectsDisk, AFullDiskLeavesNoTemporaryAndAUsableStore) {
    const SmallDisk disk;
    if (!disk.isMounted()) GTEST_SKIP() << "mounting a tmpfs is not permitted here";
    StandingClock clock;
    Objects objects(disk.path() / "objects", clock);
    const Digest before = objects.put("before");
    for (const bool isNoise : {true, false}) {
        Generated source(std::uint64_t{200} << 20, isNoise);
        if (!isNoise) writeBytes(disk.path() / "ballast", std::string(1'020'000, 'b'));
        const Error error = errorOf([&] { objects.put(source); });
        EXPECT_EQ(error.code(), ErrorCode::kInfrastructure);
        EXPECT_TRUE(mentions(error, "No space left on device")) << error.what();
        EXPECT_EQ(countIn(disk.path() / "objects" / "tmp"), 0u);
    }
    fs::remove(disk.path() / "ballast");
    EXPECT_EQ(objects.readAll(objects.put("after"), kCap), "after");
    EXPECT_EQ(objects.readAll(before, kCap), "before");
    EXPECT_EQ(objects.check().objects, 2u);
}

TEST(ObjectsDisk, AReadOnlyDiskCanBeReadAndRefusesToBeWritten) {
    const SmallDisk disk;
    if (!disk.isMounted()) GTEST_SKIP() << "mounting a tmpfs is not permitted here";
    StandingClock clock;
    const Digest digest = Objects(disk.path() / "objects", clock).put("kept");
    ASSERT_TRUE(disk.makeReadOnly());
    Objects objects(disk.path() / "objects", clock);
    EXPECT_EQ(objects.readAll(digest, kCap), "kept");
    EXPECT_EQ(objects.check().objects, 1u);
    for (const char* content : {"kept", "new"})
        EXPECT_TRUE(mentions(errorOf([&] { objects.put(content); }), "Read-only file system"));
    EXPECT_EQ(errorOf([&] { objects.sweep(kNothingIsReferenced, clock.now() + 1h, 0ms); }).code(),
              ErrorCode::kInfrastructure);
    EXPECT_TRUE(mentions(errorOf([&] { Objects(disk.path() / "other", clock); }), "Read-only file system"));
}

/// Gives up root's rights over files for a while.
class AsNobody {
  public:
    AsNobody() { wasRoot_ = ::geteuid() == 0 && ::seteuid(65534) == 0; }
    ~AsNobody() {
        if (wasRoot_ && ::seteuid(0) != 0) std::abort();
    }
    AsNobody(const AsNobody&) = delete;
    AsNobody& operator=(const AsNobody&) = delete;

  private:
    bool wasRoot_ = false;
};

TEST_F(ObjectsMachine, PermissionDeniedIsAFaultThatNamesTheFile) {
    const Digest digest = objects_.put("secret");
    fs::permissions(objects_.pathOf(digest).parent_path(), fs::perms::none);
    const auto denied = [&] {
        const AsNobody nobody;
        return errorOf([&] { objects_.open(digest); });
    }();
    fs::permissions(objects_.pathOf(digest).parent_path(), fs::perms::owner_all);
    EXPECT_EQ(denied.code(), ErrorCode::kInfrastructure);
    EXPECT_TRUE(mentions(denied, "Permission denied") && mentions(denied, directory().native())) << denied.what();
}

std::uint64_t memoryKiB(std::string_view field) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(field)) return std::stoull(line.substr(field.size() + 1));
    return 0;
}

class ObjectsMemory : public ::testing::TestWithParam<bool> {};

TEST_P(ObjectsMemory, StaysTheSameHoweverLargeTheObject) {
    const std::uint64_t size = std::uint64_t{std::getenv("GRADUS_LONG") != nullptr ? 1024u : 256u} << 20;
    const Scratch scratch(fs::temp_directory_path());
    const StandingClock clock;
    Objects objects(scratch.path(), clock);
    writeBytes("/proc/self/clear_refs", "5");  // the peak starts over
    const std::uint64_t before = memoryKiB("VmRSS:");
    Generated source(size, GetParam());
    ObjectReader reader = objects.open(objects.put(source));
    std::vector<char> space(65536);
    std::uint64_t got = 0;
    while (const std::size_t count = reader.read(space)) got += count;
    const std::uint64_t grown = memoryKiB("VmHWM:") - before;
    EXPECT_EQ(got, size);
    EXPECT_LT(grown, 32u * 1024);
    RecordProperty("grown-kib", std::to_string(grown));
    std::cout << "put and read " << (size >> 20) << " MiB with " << grown << " KiB more\n";
}

INSTANTIATE_TEST_SUITE_P(NoiseAndProse, ObjectsMemory, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "Noise" : "Prose"; });

}  // namespace
}  // namespace gradus
