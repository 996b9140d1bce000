#pragma once

#include <sys/stat.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "store/file.h"

namespace gradus {

/// Names in a directory without "." and "..", in no order. Opens it anew: the position of `directory` is not touched.
std::vector<std::string> namesIn(int directory);

/// Whose a tree is that is read: in one of ours, modes that keep us out are changed for as long as that takes; in
/// somebody else's nothing is.
enum class Tree { kOurs, kForeign };

/// A directory below another, never through a link. One of our own that we may not list or change is opened up first.
FileDescriptor openBelow(int directory, const std::string& name, Tree tree = Tree::kOurs);

/// The same, to be read: its mode is as it was when this goes.
class ReadDirectory {
  public:
    /// Throws Error when it cannot be opened.
    ReadDirectory(int directory, const std::string& name, Tree tree = Tree::kOurs);
    ReadDirectory(ReadDirectory&&) noexcept = default;
    ReadDirectory& operator=(ReadDirectory&&) = delete;
    ~ReadDirectory();

    int get() const { return open_.get(); }
    const struct stat& info() const { return info_; }

  private:
    struct stat info_;
    FileDescriptor open_;
};

[[noreturn]] void failEntry(std::string_view what, const std::string& name);

struct stat statBelow(int directory, const std::string& name);

/// The kernel's sign for "deleted here".
inline bool isWhiteout(const struct stat& info) { return S_ISCHR(info.st_mode) && info.st_rdev == 0; }

/// What fuse-overlayfs writes where it may not set an attribute is a file with a name, which in every other layer is a
/// file like any other.
enum class FuseMarks { kFiles, kCount };

/// The mark that hides everything below a directory of the same name.
bool isOpaque(int directory, FuseMarks fuse = FuseMarks::kFiles);
void setOpaque(int directory);

/// Copies entries other than directories, and remembers which were the same file.
class EntryCopier {
  public:
    explicit EntryCopier(int root, Tree source = Tree::kOurs) : root_(root), source_(source) {}
    /// `path` is the entry's place below the root of the copy.
    void copy(int from, int to, const std::string& name, const std::string& path);

  private:
    void copyFile(int from, int to, const std::string& name, const struct stat& info);
    bool linkKnown(const struct stat& info, int to, const std::string& name, const std::string& path);

    int root_;
    Tree source_;
    std::map<std::pair<dev_t, ino_t>, std::string> known_;
};

}  // namespace gradus
