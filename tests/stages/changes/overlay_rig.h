#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "stages/changes/harvest.h"
#include "store/file.h"
#include "store/model/error.h"
#include "tests/support/scratch.h"

namespace gradus::test {

inline void writeText(const std::filesystem::path& path, std::string_view text) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << text;
    if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

/// Once per process: mounts that nobody else sees; for an ordinary user in a user namespace of its own, where it stays
/// who it is. Nothing, or the reason why it cannot be.
inline std::optional<std::string> enterMounts() {
    static const std::optional<std::string> kReason = []() -> std::optional<std::string> {
        const uid_t uid = ::geteuid();
        const gid_t gid = ::getegid();
        if (::unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) != 0)
            return "no mount namespace: " + errnoText(errno);
        if (uid != 0) {
            writeText("/proc/self/setgroups", "deny");
            writeText("/proc/self/uid_map", fmt::format("{0} {0} 1", uid));
            writeText("/proc/self/gid_map", fmt::format("{0} {0} 1", gid));
        }
        if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return "cannot make mounts private";
        return std::nullopt;
    }();
    return kReason;
}

/// A base, layers over it, and the overlay itself, mounted as the jail does. Edit the base through `base`, before
/// begin(); play the sandbox in `merged`; then ask harvest().
class OverlayRig {
  public:
    OverlayRig() : base(scratch_ / "base"), merged(scratch_ / "merged") {
        if (const auto reason = enterMounts()) throw std::runtime_error(*reason);
        std::filesystem::create_directory(base);
        std::filesystem::create_directory(merged);
    }
    ~OverlayRig() { unmount(); }
    OverlayRig(const OverlayRig&) = delete;
    OverlayRig& operator=(const OverlayRig&) = delete;

    /// The clock is past every stamp in the base when this returns.
    void begin() {
        writeText(scratch_ / "stamp", "");
        struct stat stamp {};
        ::stat((scratch_ / "stamp").c_str(), &stamp);
        const auto isPast = [&](const timespec& now) {
            return now.tv_sec != stamp.st_ctim.tv_sec ? now.tv_sec > stamp.st_ctim.tv_sec
                                                      : now.tv_nsec > stamp.st_ctim.tv_nsec + 1'000'000;
        };
        do {
            since = fileSystemNow();
        } while (!isPast(since));
        addLayer();
    }

    /// A snapshot: what was written so far is frozen, the rest goes to a new layer.
    void snapshot() {
        unmount();
        addLayer();
    }

    std::filesystem::path layer(std::size_t number) const { return scratch_ / ("layer" + std::to_string(number)); }
    std::filesystem::path topLayer() const { return layer(layers_); }
    std::filesystem::path elsewhere(std::string_view name) const { return scratch_ / name; }

    HarvestSource source() {
        unmount();
        descriptors_.clear();
        HarvestSource source;
        for (std::size_t i = layers_; i > 0; --i)
            source.layers.push_back(descriptors_.emplace_back(openFile(layer(i), O_RDONLY | O_DIRECTORY)).get());
        source.base = base;
        source.since = since;
        return source;
    }

    Harvest harvest(const HarvestOptions& options = {}) { return gradus::harvest(source(), options); }

    void unmount() {
        if (mounted_) ::umount2(merged.c_str(), MNT_DETACH);
        mounted_ = false;
    }

  private:
    void addLayer() {
        std::string lower;
        for (std::size_t i = layers_; i > 0; --i) lower += layer(i).string() + ":";
        ++layers_;
        const std::filesystem::path work = scratch_ / ("work" + std::to_string(layers_));
        std::filesystem::create_directory(layer(layers_));
        std::filesystem::create_directory(work);
        const std::string options = fmt::format("lowerdir={}{},upperdir={},workdir={},index=off,{}", lower,
                                                base.string(), layer(layers_).string(), work.string(),
                                                ::geteuid() == 0 ? "redirect_dir=nofollow,metacopy=off" : "userxattr");
        if (::mount("overlay", merged.c_str(), "overlay", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
            throw std::runtime_error("cannot mount an overlay: " + errnoText(errno));
        mounted_ = true;
    }

    ScratchDirectory scratch_;
    std::size_t layers_ = 0;
    bool mounted_ = false;
    std::vector<FileDescriptor> descriptors_;

  public:
    const std::filesystem::path base;
    const std::filesystem::path merged;
    timespec since{};
};

/// Every test plays on an overlay of its own.
class OverlayTest : public ::testing::Test {
  protected:
    void SetUp() override {
        ::umask(022);
        if (const auto reason = enterMounts()) GTEST_SKIP() << *reason;
        rig_.emplace();
    }
    OverlayRig& rig() { return *rig_; }
    std::filesystem::path base(std::string_view name) { return rig_->base / name; }
    std::filesystem::path in(std::string_view name) { return rig_->merged / name; }

  private:
    std::optional<OverlayRig> rig_;
};

inline Entry fileEntry(std::string_view text, std::uint32_t mode = 0644) {
    return {EntryType::kFile, mode, sha256(text), text.size()};
}
inline Entry linkEntry(std::string_view text) { return {EntryType::kSymlink, 0777, sha256(text), text.size()}; }
inline Entry directoryEntry(std::uint32_t mode = 0755) { return {EntryType::kDirectory, mode, {}, 0}; }

/// "added a", "modified b/c ?" (the base moved): what a test compares.
inline std::vector<std::string> told(const Harvest& harvest) {
    std::vector<std::string> lines;
    for (const PathChange& change : harvest.changes.changes())
        lines.push_back(
            fmt::format("{} {}{}", nameOf(kChangeKinds, kindOf(change)), change.path, change.beforeKnown ? "" : " ?"));
    return lines;
}

inline std::vector<std::string> refusals(const Harvest& harvest) {
    std::vector<std::string> lines;
    for (const Unharvested& item : harvest.refused) lines.push_back(item.path + ": " + item.reason);
    return lines;
}

}  // namespace gradus::test
