#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

namespace gradus {

/// Inode and change time of every file and directory below one directory, as they were when this was made. An edit
/// that was taken back, or a branch that was checked out and left again, leaves the bytes as they were but not these.
/// What git ignores is remembered by its times alone. `.git` and the writer's own temporaries are left out.
class TreeStamp {
  public:
    /// Throws Error when `root` cannot be read.
    explicit TreeStamp(const std::filesystem::path& root);

    /// Relative paths that differ now: new, gone, replaced or written, files before directories; `most` at most.
    std::vector<std::string> moved(std::size_t most) const;
    /// The same of what git ignores, as far as its change time tells.
    std::vector<std::string> movedIgnored(std::size_t most) const;

  private:
    struct Item {
        std::string path;
        dev_t device = 0;
        ino_t inode = 0;
        timespec changed{};
        bool isDirectory = false;

        bool isSame(const Item& other) const;
    };
    class Walk;

    std::filesystem::path root_;
    std::vector<Item> items_;  ///< sorted by path
    timespec since_{};
};

}  // namespace gradus
