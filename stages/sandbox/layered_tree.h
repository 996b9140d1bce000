#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/file.h"

namespace gradus {

/// "src/main.c" as names. Throws Error(kUsage) for a path that is absolute, leads out of the tree, or is none.
std::vector<std::string> namesOf(const std::filesystem::path& inside);

/// What a stack of layers shows, looked at from outside, name by name as an overlay would: a deletion and a replaced
/// directory hide what lies below them. No link is ever followed, and nothing but directories and files is opened.
/// Nobody may be writing to the layers but through this.
class LayeredTree {
  public:
    /// Directories, topmost first; the last is the base.
    explicit LayeredTree(std::vector<FileDescriptor> layers);

    /// One directory of one layer.
    struct Piece {
        std::size_t layer = 0;
        FileDescriptor directory;
    };
    /// A directory as it is shown: the pieces that make it up, topmost first.
    using Directory = std::vector<Piece>;

    struct Entry {
        std::size_t layer = 0;  ///< the topmost that has it
        struct stat info {};
        Directory directory;    ///< its own pieces, if it is one
        FileDescriptor parent;  ///< else where it lies, in that layer
        std::string name;

        bool isDirectory() const { return S_ISDIR(info.st_mode); }
    };

    const Directory& root() const { return root_; }
    /// Nothing if it is not there.
    std::optional<Entry> find(const std::vector<std::string>& names) const;
    static std::optional<Entry> step(const Directory& directory, const std::string& name);
    /// What a directory holds, sorted.
    static std::vector<std::string> names(const Directory& directory);

  private:
    Directory root_;
};

/// Who new files belong to.
struct FileOwner {
    uid_t uid = 0;
    gid_t gid = 0;
};

/// Writes into the topmost layer as a command inside would have: parents are made to look like those they cover,
/// deletions are lifted. What is written is whole, or not there.
class LayerWriter {
  public:
    /// `top` is that layer's directory, `work` an empty one beside it; both on one file system.
    LayerWriter(const LayeredTree& tree, FileDescriptor top, FileDescriptor work, const FileOwner& owner)
        : tree_(tree), top_(std::move(top)), work_(std::move(work)), owner_(owner) {}

    /// The directory in the topmost layer, made as far as it is missing there. Throws Error(kNotAllowed) where a file
    /// or a link is in the way.
    FileDescriptor open(const std::vector<std::string>& names) const;
    void file(const std::vector<std::string>& names, int source, const struct stat& like) const;
    void bytes(const std::vector<std::string>& names, std::string_view content, mode_t mode) const;
    void link(const std::vector<std::string>& names, const std::string& target) const;

  private:
    FileDescriptor openIn(int top, const LayeredTree::Directory* shown, const std::string& name,
                          std::optional<LayeredTree::Entry>& entry) const;
    void place(const std::vector<std::string>& names) const;

    const LayeredTree& tree_;
    FileDescriptor top_;
    FileDescriptor work_;
    FileOwner owner_;
};

/// What is shown at one place, with everything below it, to `inside` of another layer. Links stay links.
void copyShown(const LayeredTree::Entry& entry, const std::vector<std::string>& inside, const LayerWriter& writer);

/// All bytes of one open file to another. Gives their number.
std::uint64_t copyContent(int source, int target, const std::string& name);

}  // namespace gradus
