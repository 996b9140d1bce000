#pragma once

#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <optional>
#include <string>

#include "store/file.h"

namespace gradus {

/// What the base has at one path now, and whether it had the same when the sandbox began.
struct BaseEntry {
    bool present = false;
    bool known = false;
    struct stat info {};  ///< meaningless when absent

    bool isDirectory() const { return present && S_ISDIR(info.st_mode); }
};

/// A stamp from before `since` beyond doubt, however coarse the file system keeps its time.
bool isSettled(const timespec& stamp, const timespec& since);

/// A directory opened below `root`, by its relative path ("" is `root`), through no link; an empty descriptor and errno
/// otherwise. `sameMount`: not into another file system either.
FileDescriptor openBeneath(int root, const std::string& path, bool sameMount);

/// The base, looked at from outside while others may write there. What it says is known was so at the start: every
/// way to change a file stamps its inode, and every way to give a name to another file stamps that file and the
/// directory.
class BaseView {
  public:
    /// Throws Error when `base` cannot be opened.
    BaseView(const std::filesystem::path& base, timespec since, bool pinned);

    int root() const { return root_.get(); }
    bool isPinned() const { return pinned_; }
    /// Nothing has changed the inode since the start, as its last change was strictly before.
    bool isOld(const struct stat& info) const;
    /// What `name` is in an open directory of the base. `trusted`: the directory is the one of the start. An absent
    /// name is left unknown: the directory is to be asked again once all its names have been looked up.
    BaseEntry probe(int directory, const char* name, bool trusted) const;

  private:
    FileDescriptor root_;
    timespec since_;
    bool pinned_;
};

}  // namespace gradus
