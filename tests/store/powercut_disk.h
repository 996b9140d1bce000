#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace gradus::test {

/// A journalled disk whose power can be cut: ext4 on a loop device over a file on a file system that can clone files.
/// A clone of that file is the disk as it stood at that instant, without what was still in the page cache above it.
/// Everything is mounted in a mount namespace of the test's own process, so that nothing is left behind however the
/// test ends. Cuts are ordered: the disk holds a prefix of what was written to it.
class PowerCutDisk {
  public:
    /// Why this machine cannot have one (not root, no loop devices, no mkfs); nothing if it can.
    static std::optional<std::string> whyNot();

    PowerCutDisk();
    ~PowerCutDisk();
    PowerCutDisk(const PowerCutDisk&) = delete;
    PowerCutDisk& operator=(const PowerCutDisk&) = delete;

    /// Where to write.
    std::filesystem::path root() const { return base_ / "disk"; }

    /// The disk after the cut, mounted again (the journal was replayed) until this goes away.
    class Cut {
      public:
        explicit Cut(std::filesystem::path root) : root_(std::move(root)) {}
        ~Cut();
        Cut(const Cut&) = delete;
        Cut& operator=(const Cut&) = delete;
        const std::filesystem::path& root() const { return root_; }

      private:
        std::filesystem::path root_;
    };
    /// Clones the disk now.
    void cut();
    /// Mounts what the last cut() left.
    std::unique_ptr<Cut> powerUp();

  private:
    void takeDown() noexcept;
    std::filesystem::path base_;
};

}  // namespace gradus::test
