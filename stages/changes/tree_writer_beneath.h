#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/file.h"
#include "store/model/change_set.h"

namespace gradus {

/// Why the way to a path ends early.
enum class Obstacle { kNone, kMissing, kLink, kMount, kDenied };

/// The directory that holds a path, and the path's last name in it.
struct Place {
    Obstacle obstacle = Obstacle::kNone;
    FileDescriptor directory;  ///< O_PATH; none behind an obstacle
    std::string name;

    explicit operator bool() const { return obstacle == Obstacle::kNone; }
    int at() const { return directory.get(); }
};

/// What a name leads to, links not followed, without its content.
struct Sighting {
    bool exists = false;
    mode_t mode = 0;  ///< with the type
    uid_t user = 0;
    gid_t group = 0;
    std::uint64_t size = 0;
    std::uint64_t inode = 0;
    timespec modified{};
    timespec changed{};
    bool isMountPoint = false;
    bool isFrozen = false;  ///< immutable or append-only

    bool isDirectory() const { return exists && S_ISDIR(mode); }
    /// The bits that an Entry has, and those it never has.
    std::uint32_t permissions() const { return mode & 07777; }
    /// The same inode, and neither its content nor its mode were touched in between.
    bool isUnwritten(const Sighting& other) const;
    /// Neither were its names nor anything else.
    bool isSameAs(const Sighting& other) const;
    bool hasSameOwner(const Sighting& other) const { return user == other.user && group == other.group; }
    /// A directory of that mode, or one that we have opened to its owner for a while.
    bool isDirectoryOf(std::uint32_t wanted) const;
};

/// Throws Error(kInfrastructure) saying what was tried, on which path, and the kernel's reason.
[[noreturn]] void throwFault(std::string_view action, std::string_view path, int error);

/// Whether an errno says that a name now leads to something else than it did, rather than that something is wrong.
bool isMoved(int error);

Sighting sight(int directory, const std::string& name);
Sighting sight(int descriptor);

/// Whether it can be `entry`, as far as its type, mode and size say.
bool couldBe(const Sighting& seen, const Entry& entry);

/// Reads the content and says whether name and content are exactly `entry`. What we may not read is not (`error` then
/// has the reason); any other trouble with reading is a fault.
bool isExactly(int directory, const std::string& name, const Sighting& seen, const Entry& entry, int* error = nullptr);

/// Names in a directory, without "." and "..", at most `limit` of them.
std::vector<std::string> namesBeneath(int directory, std::size_t limit);

/// Extended attributes of an open file that a copy of it should have: not those that give rights or sign content.
struct Attribute {
    std::string name;
    std::string value;
    bool operator==(const Attribute&) const = default;
};
std::vector<Attribute> attributesOf(int file);

/// One directory and what is beneath it. Paths are relative, as pathFault() allows them; "" is the root itself.
class TreeRoot {
  public:
    explicit TreeRoot(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    int descriptor() const { return root_.get(); }
    std::uint64_t inode() const { return inode_; }
    const Sighting& own() const { return own_; }

    Place place(std::string_view path) const;
    /// Looks again a few times before it takes a link on the way for an answer: undoing must not give up because a
    /// directory is being exchanged for a link at this very moment.
    Place placePatiently(std::string_view path) const;
    /// For reading or O_PATH; `flags` as for open(2). The reason when it cannot be had.
    FileDescriptor directory(std::string_view path, int flags, Obstacle& obstacle) const;
    FileDescriptor directoryPatiently(std::string_view path, int flags, Obstacle& obstacle) const;

    /// Held until closed; throws Error(kBusy) while another writer has it.
    FileDescriptor lock() const;

  private:
    std::filesystem::path path_;
    FileDescriptor root_;
    Sighting own_;
    std::uint64_t inode_ = 0;
};

/// "a/b" for "a/b/c", "" for "a".
std::string_view directoryOf(std::string_view path);

}  // namespace gradus
